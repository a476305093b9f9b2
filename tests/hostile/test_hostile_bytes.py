"""Any bytes in the files of a venv: every probe answers or says why not; RECORDs are read as a plain reader would."""

import csv
import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from envdoctor.errors import ProbeError
from envdoctor.facts.context import Options
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.parsed_record import RecordsAhead
from envdoctor.probes.venv.record_memo import RecordMemo
from envdoctor.probes.venv.records import _Indexer
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.probes.venv.startup_hooks import StartupHooks
from tests.factories import make_facts
from tests.factories.make_reading import bare_host, read

SOME = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SECTIONS = (Interpreter, SearchPath, Distributions, TorchBuild, InstalledFiles, DeepFiles, StartupHooks)
INFO = "thing-1.0.dist-info"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a venv of the fewest files by hand."""
    root = tmp_path_factory.mktemp("bytes") / "venv"
    site = root / "lib/python3.12/site-packages"
    (site / INFO).mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "bin/python").symlink_to(os.path.realpath("/bin/sh"))
    (root / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.1\n")
    (site / "torch/fx").mkdir(parents=True)
    for path in ("torch/__init__.py", "torch/version.py", "torch/fx/_symbolic_trace.py"):
        (site / path).write_text("")
    (site / INFO / "METADATA").write_text("Name: thing\nVersion: 1.0\n")
    (site / INFO / "RECORD").write_text(f"{INFO}/METADATA,,\n{INFO}/RECORD,,\n")
    return root


FRAGMENTS = [
    b"Name: thing\n", b"Version: 1.0\n", b"Requires-Dist: numpy>=1; extra == 'x'\n", b"\n", b"\r\n", b"\x00",
    b"\xff\xfe", b"import os; os.abort()\n", b"/\n", b"..\n", b"__version__ = '2.0'\n",
    b"cuda: str = '12.8'\n", b"version = 3.12\n", b"home = /usr/bin\n", b"home = \n",
    b"include-system-site-packages = true\n", b"a,b,c\n", b"a.py,sha256=x,1\n", b'"', b"{",
    b'{"url": "x", "dir_info": {"editable": 1}}', b"[1]", b"Tag: py3-none-any\n", b"=", b"(", b"'''", b"\\",
    b"\t",
]  # fmt: skip
CONTENT = st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=20), max_size=15).map(b"".join)
PLACES = {
    "pyvenv.cfg": "pyvenv.cfg",
    "version.py": "lib/python3.12/site-packages/torch/version.py",
    "_symbolic_trace.py": "lib/python3.12/site-packages/torch/fx/_symbolic_trace.py",
    "METADATA": f"lib/python3.12/site-packages/{INFO}/METADATA",
    "RECORD": f"lib/python3.12/site-packages/{INFO}/RECORD",
    "WHEEL": f"lib/python3.12/site-packages/{INFO}/WHEEL",
    "direct_url.json": f"lib/python3.12/site-packages/{INFO}/direct_url.json",
    "x.pth": "lib/python3.12/site-packages/x.pth",
}


@pytest.mark.property
@pytest.mark.parametrize("name", PLACES)
@SOME
@given(content=CONTENT)
def test_any_bytes(prefix: Path, name: str, content: bytes) -> None:
    at = prefix / PLACES[name]
    before = at.read_bytes() if at.exists() else None
    at.write_bytes(content)
    reasons: list[str] = []
    try:
        reading = read(prefix, bare_host(prefix.parent / "home"), Options(deep=True))
        for section in SECTIONS:
            try:
                reading.fact(section)
            except ProbeError as error:
                reasons.append(str(error))
    finally:
        at.unlink() if before is None else at.write_bytes(before)
    assert all(reasons), "every gap has a reason"


PARTS = ["a", "b.py", "..", ".", "", "é", "c d", 'q"q', "x,y", "\udcff", "out", "in", "out/deeper", "~"]
PATH = st.lists(st.sampled_from(PARTS), max_size=5).map("/".join)
ROW = st.tuples(PATH, st.sampled_from(["", "sha256=x"]), st.sampled_from(["", "1", "07"]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a site folder with a symlinked folder that leads out, and one that does not."""
    root = tmp_path_factory.mktemp("rows")
    site = root / "venv/lib/python3.12/site-packages"
    (site / INFO).mkdir(parents=True)
    (site / "a").mkdir()
    (root / "elsewhere/deeper").mkdir(parents=True)
    (site / "out").symlink_to(root / "elsewhere")
    (site / "in").symlink_to("a")
    return site


def _plainly(rows: list[tuple[str, str, str]], site: Path) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """Return (path -> fields) of the rows inside, and the paths as written of those that lead out."""
    prefix = site.parents[2]
    inside: dict[str, tuple[str, str]] = {}
    outside = []
    for path, stated, size in rows:
        named = [part for part in path.split("/") if part not in ("", ".")]
        straight = ".." not in named[next((at for at, part in enumerate(named) if part != ".."), len(named)) :]
        full = os.path.normpath(site / path) if path and not path.startswith("/") and straight else ""
        parents = [str(parent) for parent in Path(full).parents] if full else []
        led_out = any(
            parent.startswith(f"{prefix}/") and not os.path.realpath(parent).startswith(f"{os.path.realpath(prefix)}/")
            for parent in parents
        )
        if not full.startswith(f"{prefix}/") or led_out:
            outside.append(path)
        else:
            inside.setdefault(full, (stated, size))
    return inside, outside


@pytest.mark.property
@settings(SOME, max_examples=400)
@given(rows=st.lists(ROW, max_size=12), ending=st.sampled_from(["\n", "\r\n"]))
@example(rows=[("out/passwd", "", ""), ("in/x", "", ""), ("../../../bin/x", "", "")], ending="\n")
def test_rows_are_read_as_a_plain_reader_would(site: Path, rows: list[tuple[str, str, str]], ending: str) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=ending).writerows(rows)
    (site / INFO / "RECORD").write_bytes(text.getvalue().encode("utf-8", "surrogateescape"))
    item = replace(make_facts.distribution("thing"), site=str(site), folder=INFO)
    indexer = _Indexer(items=(item,), prefix=f"{site.parents[2]}/", memo=RecordMemo(path=None), ahead=RecordsAhead())
    indexer.enter(0)
    indexer.compare()
    inside, outside = _plainly(rows, site)
    found = dict(zip(indexer.made.owners, indexer.made.rows[0], strict=True))
    assert {path: (fields[1], fields[2]) for path, fields in found.items()} == inside
    assert indexer.made.outside == [(0, path) for path in outside]
    assert indexer.made.malformed == []
