"""RECORD truth over real venvs that uv made."""

import os
from pathlib import Path

import pytest

from envdoctor.facts.context import Options
from envdoctor.probes.venv.contested_paths import Claim, Contested
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import FileFault, InstalledFiles
from tests.factories.make_reading import read
from tests.factories.make_venv import Venv, install, make_venv, uninstall
from tests.factories.make_wheel import make_wheel, record_hash

NCCL = "nvidia/nccl/lib/libnccl.so.2"


@pytest.fixture
def collided(tmp_path: Path) -> Venv:
    """Two wheels that own one path with different bytes; the second was installed last."""
    one = make_wheel(tmp_path / "wheels", "nvidia-nccl-cu12", "2.27.5", files={NCCL: b"twelve", "a/same.h": b"same"})
    two = make_wheel(tmp_path / "wheels", "nvidia-nccl-cu13", "2.28.9", files={NCCL: b"thirteen", "a/same.h": b"same"})
    venv = make_venv(tmp_path / "venv", one)
    install(venv, two)
    return venv


def _site(venv: Venv) -> str:
    return str(venv.site_packages.relative_to(venv.prefix))


def test_a_fresh_venv_is_as_its_records_say(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "thing", "1.0", scripts={"thing": "thing:main"})
    venv = make_venv(tmp_path / "venv", wheel)
    reading = read(venv.prefix)
    files = reading.fact(InstalledFiles)
    assert (files.faults, files.contested, files.outside, files.malformed) == ((), (), (), ())
    (thing,) = files.owners
    assert (thing.name, thing.version, thing.missing, thing.resized) == ("thing", "1.0", 0, 0)
    (found,) = reading.fact(Distributions).items
    assert (found.name, found.version, found.installer, found.has_record) == ("thing", "1.0", "uv", True)


@pytest.mark.parametrize("depth", ["lib", "lib/python3", "site-packages"])
def test_files_are_compared_where_a_link_carries_the_whole_site_folder(tmp_path: Path, depth: str) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1.0", files={"thing/a.py": b"1"}))
    site = venv.site_packages
    moved = {"lib": site.parent.parent, "lib/python3": site.parent, "site-packages": site}[depth]
    moved.rename(tmp_path / "shared")
    moved.symlink_to(tmp_path / "shared")
    files = read(venv.prefix).fact(InstalledFiles)
    assert (files.faults, files.outside) == ((), ())
    assert sum(owner.files for owner in files.owners) > 3
    (site / "thing/a.py").unlink()
    files = read(venv.prefix).fact(InstalledFiles)
    assert [(fault.owner, fault.kind) for fault in files.faults] == [("thing", "missing")]


def test_whose_bytes_lie_on_a_contested_path_is_told_by_size(collided: Venv) -> None:
    files = read(collided.prefix).fact(InstalledFiles)
    assert files.contested == (
        Contested(
            path=f"{_site(collided)}/{NCCL}",
            claims=(
                Claim(owner="nvidia-nccl-cu12", version="2.27.5", hash=record_hash(b"twelve"), size=6),
                Claim(owner="nvidia-nccl-cu13", version="2.28.9", hash=record_hash(b"thirteen"), size=8),
            ),
            on_disk=("nvidia-nccl-cu13",),
            told_by="size",
        ),
    )
    assert files.shared_equal == 1


def test_a_tie_in_size_is_told_by_hash(tmp_path: Path) -> None:
    one = make_wheel(tmp_path / "wheels", "one", "1", files={"shared/x.h": b"aaaa"})
    two = make_wheel(tmp_path / "wheels", "two", "2", files={"shared/x.h": b"bbbb"})
    venv = make_venv(tmp_path / "venv", two)
    install(venv, one)
    (contested,) = read(venv.prefix).fact(InstalledFiles).contested
    assert (contested.on_disk, contested.told_by) == (("one",), "hash")


def test_an_uninstall_takes_the_shared_files_and_the_other_record_tells(collided: Venv) -> None:
    uninstall(collided, "nvidia-nccl-cu13")
    files = read(collided.prefix).fact(InstalledFiles)
    assert files.contested == ()
    assert sorted(files.faults, key=lambda fault: fault.recorded_size, reverse=True) == [
        FileFault(path=f"{_site(collided)}/{NCCL}", owner="nvidia-nccl-cu12", kind="missing", recorded_size=6, size=-1),
        FileFault(
            path=f"{_site(collided)}/a/same.h", owner="nvidia-nccl-cu12", kind="missing", recorded_size=4, size=-1
        ),
    ]


def test_a_replaced_file_of_another_size_is_a_fault(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1.0"))
    changed = venv.site_packages / "thing/__init__.py"
    new = changed.with_suffix(".new")
    new.write_text("changed")
    new.replace(changed)
    (fault,) = read(venv.prefix).fact(InstalledFiles).faults
    assert (fault.path, fault.kind, fault.size) == (f"{_site(venv)}/thing/__init__.py", "resized", 7)


@pytest.mark.parametrize("row", ["/etc/passwd", "../../../../outside.txt", "a/../../../../../../etc/passwd"])
def test_rows_that_lead_out_are_kept_and_not_followed(tmp_path: Path, row: str) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "evil", "1.0"))
    record = venv.dist_info("evil") / "RECORD"
    text = record.read_text() + f"{row},sha256=x,1\n"
    record.unlink()
    record.write_text(text)
    files = read(venv.prefix).fact(InstalledFiles)
    assert files.outside == (("evil", row),)
    assert files.faults == ()


def test_scripts_beside_site_packages_are_inside(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "thing", "1.0", scripts={"thing": "thing:main"})
    venv = make_venv(tmp_path / "venv", wheel)
    (venv.prefix / "bin/thing").unlink()
    files = read(venv.prefix).fact(InstalledFiles)
    assert files.outside == ()
    assert [(fault.path, fault.kind) for fault in files.faults] == [("bin/thing", "missing")]


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(
    ("head", "body", "kinds"),
    [(b" -E", b"", []), (b"", b"# edited\n", ["resized"]), (b" -E", b"# edited\n", ["resized"])],
    ids=["options behind the interpreter, as pipx adds them", "another body", "both"],
)
def test_a_script_whose_first_line_got_options(
    tmp_path: Path, head: bytes, body: bytes, kinds: list[str], *, deep: bool
) -> None:
    wheel = make_wheel(tmp_path / "wheels", "thing", "1.0", scripts={"thing": "thing:main"})
    venv = make_venv(tmp_path / "venv", wheel)
    script = venv.prefix / "bin/thing"
    first, newline, rest = script.read_bytes().partition(b"\n")
    script.unlink()
    script.write_bytes(first + head + newline + rest + body)
    script.chmod(0o755)
    reading = read(venv.prefix, options=Options(deep=deep))
    assert [(fault.path, fault.kind) for fault in reading.fact(InstalledFiles).faults] == [
        ("bin/thing", kind) for kind in kinds
    ]
    if deep:
        assert [found.path for found in reading.fact(DeepFiles).altered] == []


def test_malformed_rows_are_said_and_the_others_still_read(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1.0"))
    record = venv.dist_info("thing") / "RECORD"
    text = "no commas at all\n" + record.read_text()
    record.unlink()
    record.write_text(text)
    files = read(venv.prefix).fact(InstalledFiles)
    assert files.malformed == (f"thing: {record}:1: not a RECORD row",)
    assert files.faults == ()


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1.0"))
    at = venv.site_packages / "thing/__init__.py"
    at.unlink()
    os.mkfifo(at)
    (fault,) = read(venv.prefix).fact(InstalledFiles).faults
    assert fault.kind == "not a file"
