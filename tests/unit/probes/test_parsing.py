"""Whether a file is Python at all: asked of no newer Python's files, and of none that costs time."""

import sys
import warnings
from pathlib import Path

import pytest

from envdoctor.facts.context import Options
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.parsing import unparsable
from tests.factories.make_reading import read
from tests.factories.make_venv import make_venv, rewrite
from tests.factories.make_wheel import make_wheel

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
NEWER = f"{sys.version_info[0]}.{sys.version_info[1] + 1}"


@pytest.mark.parametrize(
    ("content", "minor", "found"),
    [
        (b"x = 1\n", OWN, False),
        (b"def f(:\n", OWN, True),
        (b"\0" * 100, OWN, True),
        (b"def f(:\n", "3.9", True),
        # Newer syntax than this Python knows.
        (b"def f(:\n", NEWER, False),
        (b"x = (\n" + b"#" * 300_000, OWN, False),
    ],
)
def test_what_no_python_parses(tmp_path: Path, content: bytes, minor: str, *, found: bool) -> None:
    path = tmp_path / "module.py"
    path.write_bytes(content)
    assert unparsable([str(path)], minor) == ({str(path)} if found else set())


def test_a_file_is_parsed_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('x = "\\d"\nx is 1\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert unparsable([str(path)], OWN) == set()


def test_only_what_a_repair_reads_is_parsed(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1", files={"thing.py": "x = 1\n"}))
    rewrite(venv.site_packages / "thing.py", "def f(:\n")
    for options, found in ((Options(), False), (Options(deep=True), True)):
        (fault,) = read(venv.prefix, options=options).fact(InstalledFiles).faults
        assert fault.unparsable is found
