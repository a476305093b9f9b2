"""What a wheel would install, told from the wheel: the same as what uv then installs."""

import contextlib
import io
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envdoctor.capture.pinning import VerifiedDistribution
from envdoctor.capture.repack import RepackError, repack
from envdoctor.facts.context import Options, Reading
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.probes.registry import PROBES
from envdoctor.probes.venv.distribution_digests import lasting_rows
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.records import index
from envdoctor.wheels.wheel_contents import WheelError, open_wheel
from envdoctor.wheels.wheel_file import unsafe_entry
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel, record_hash

LIBRARY = f"python{sys.version_info[0]}.{sys.version_info[1]}"
FILES = {
    "odd/__init__.py": "x = 1\n",
    "odd/data, with comma.txt": "a,b\n",
    'odd/"quoted".txt': "q\n",
    "odd-1.0.data/scripts/tool": "#!python\nprint(1)\n",
    "odd-1.0.data/scripts/env-tool": "#!/usr/bin/env python3\nprint(2)\n",
    "odd-1.0.data/scripts/shell": "#!/bin/sh\necho\n",
    "odd-1.0.data/scripts/binary": b"\x7fELF\x00\x01",
    "odd-1.0.data/data/share/odd/x.txt": "data\n",
    "odd-1.0.data/headers/odd.h": "int odd;\n",
    "odd-1.0.data/platlib/odd_native.so": b"\x7fELF",
    "odd-1.0.data/purelib/odd_pure.py": "y = 2\n",
}


def _subject(venv: Venv, name: str) -> VerifiedDistribution:
    """Return a distribution as a capture sees it."""
    host = Host.current()
    reading = Reading(target=resolve(venv.prefix), host=host, options=Options(), probes=PROBES)
    items = reading.fact(Distributions).items
    at = next(number for number, item in enumerate(items) if item.name == name)
    rows = index(reading).rows[at]
    return VerifiedDistribution(item=items[at], places=dict(lasting_rows(items[at].site, items[at].folder, rows)))


def _places(wheel: Path) -> dict[str, str]:
    with wheel.open("rb") as file:
        return open_wheel(file).places(LIBRARY)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Venv, Path]:
    """Install the odd wheel with real uv."""
    folder = tmp_path_factory.mktemp("odd")
    wheel = make_wheel(
        folder / "wheels", "odd", "1.0", files=FILES, scripts={"made": "odd:main"}, tag="py3.py2-none-any"
    )
    return make_venv(folder / "venv", wheel), wheel


def test_a_wheel_tells_what_uv_installs(installed: tuple[Venv, Path]) -> None:
    venv, wheel = installed
    places = _places(wheel)
    assert places == _subject(venv, "odd").places
    assert places["../../../bin/made"] == ""
    assert places["../../../bin/binary"] == record_hash(b"\x7fELF\x00\x01")
    assert {place for place in places if not place.startswith("odd")} == {
        "../../../bin/made",
        "../../../bin/tool",
        "../../../bin/env-tool",
        "../../../bin/shell",
        "../../../bin/binary",
        "../../../share/odd/x.txt",
        f"../../../include/site/{LIBRARY}/odd/odd.h",
    }


def test_a_wheel_made_again_tells_the_same_and_is_the_same_each_time(
    installed: tuple[Venv, Path], tmp_path: Path
) -> None:
    venv, wheel = installed
    subject = _subject(venv, "odd")
    (tmp_path / "again").mkdir()
    made = repack(subject, LIBRARY, tmp_path)
    assert made.name == "odd-1.0-py2.py3-none-any.whl"
    assert _places(made) == _places(wheel)
    assert unsafe_entry(made) == ""
    assert repack(subject, LIBRARY, tmp_path / "again").read_bytes() == made.read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [made.name]
    other = make_venv(tmp_path / "venv", made)
    assert _subject(other, "odd").places == subject.places
    assert (other.prefix / "bin/tool").read_text().startswith(f"#!{other.prefix}/bin/python")


def test_a_file_that_changed_meanwhile_is_not_packed(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "plain", "1.0"))
    subject = _subject(venv, "plain")
    path = venv.site_packages / "plain/__init__.py"
    path.unlink()
    path.write_text("changed = 1\n")
    (tmp_path / "out").mkdir()
    with pytest.raises(RepackError) as caught:
        repack(subject, LIBRARY, tmp_path / "out")
    assert str(caught.value) == "plain/__init__.py does not have the recorded hash"
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("says", [None, "", "md5=abc"])
def test_what_record_does_not_vouch_for_is_hashed(tmp_path: Path, says: str | None) -> None:
    files = {"thing/__init__.py": "x = 1\n"}
    honest = make_wheel(tmp_path / "a", "thing", "1", files=files)
    silent = make_wheel(tmp_path / "b", "thing", "1", files=files, record_says={"thing/__init__.py": says})
    assert _places(silent)["thing/__init__.py"] == _places(honest)["thing/__init__.py"]


def _zip(**members: str) -> io.BytesIO:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (io.BytesIO(b"no zip"), "it is not a zip (File is not a zip file)"),
        (_zip(), "it holds 0 dist-info folders instead of one"),
        (
            _zip(**{"a-1.dist-info/RECORD": "", "b-1.dist-info/RECORD": ""}),
            "it holds 2 dist-info folders instead of one",
        ),
        (_zip(**{"a-1.dist-info/RECORD": "", "a-1.data/odd/x": ""}), "a-1.data/odd/x is of no known kind"),
        (_zip(**{"a-1.dist-info/RECORD": 'x,"unclosed\n' * 3}), None),
    ],
)
def test_what_is_no_wheel(content: io.BytesIO, problem: str | None) -> None:
    if problem is None:
        assert open_wheel(content).places(LIBRARY) == {}
        return
    with pytest.raises(WheelError) as caught:
        open_wheel(content).places(LIBRARY)
    assert str(caught.value) == problem


@pytest.mark.property
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_wheel_is_refused_or_read_and_never_crashes(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(make_wheel(tmp_path, "odd", "1.0", files=FILES).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    # Anything but a WheelError fails the test.
    with contextlib.suppress(WheelError):
        open_wheel(io.BytesIO(content)).places(LIBRARY)
