"""Files of at most 64 MB that are made to take all memory or all time: a check answers, and takes neither."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories.bombs import BOMBS, fingerprint_of_tables
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import ROOT, environment

VERSION = "__version__ = '2.10.0+cpu'\ncuda = None\nhip = None\ngit_version = 'abc'\n"
MOST_MEGABYTES = 300
# A third of the time of all of them; what they are about (a limit over all files of a kind) others hold too.
_LONG = ("2 RECORDs of 8 MB", "256 WHEELs of tags", "256 .pth of imports")
# A process of its own in between: what a test has in memory would count for its child until that is another program.
_MEASURED = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], dict(os.environ))
_, status, used = os.wait4(pid, 0)
sys.stderr.write(f"\\nmeasured {os.waitstatus_to_exitcode(status)} {used.ru_maxrss // 1024}")
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    folder = tmp_path_factory.mktemp("template")
    torch = {"torch/__init__.py": "", "torch/version.py": VERSION, "torch/_C.abi3.so": ""}
    torch |= {"torch/lib/libtorch_global_deps.so": "", "torch/lib/libtorch_python.so": ""}
    return make_venv(
        folder / "venv",
        make_wheel(folder / "wheels", "thing", "1.0", files={"thing/__init__.py": "x = 1\n"}),
        make_wheel(folder / "wheels", "torch", "2.10.0", files=dict(torch)),
    )


def check(folder: Path, *arguments: str) -> tuple[int, int, str]:
    """Return the exit code of a check, its largest memory in MB, and what it said."""
    start = f"import sys; sys.path[0] = {str(ROOT)!r}; from envdoctor.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _MEASURED, sys.executable, "-c", start, "check", *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    said, _, numbers = done.stderr.rpartition("\nmeasured ")
    code, megabytes = map(int, numbers.split())
    return code, megabytes, done.stdout + said


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.giant] * (name in _LONG)) for name in BOMBS])
def test_a_small_file_takes_no_memory(template: Venv, tmp_path: Path, name: str) -> None:
    shutil.copytree(template.prefix, tmp_path / "venv", symlinks=True)
    BOMBS[name](Venv(prefix=tmp_path / "venv"))
    assert sum(path.lstat().st_size for path in (tmp_path / "venv").rglob("*")) < 4 * (64 << 20)
    code, megabytes, said = check(tmp_path, str(tmp_path / "venv"))
    assert "Traceback" not in said
    assert (code in (1, 3), megabytes < MOST_MEGABYTES) == (True, True), (code, megabytes)


def test_a_fingerprint_of_nothing_but_tables(tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_bytes(fingerprint_of_tables())
    code, megabytes, said = check(tmp_path, "--fingerprint", str(tmp_path / "facts.json"))
    assert (code, "Traceback" in said, megabytes < MOST_MEGABYTES) == (2, False, True)


def test_the_measure_measures(tmp_path: Path) -> None:
    program = [sys.executable, "-I", "-S", "-c", _MEASURED, sys.executable, "-c", "len(b'x' * 200_000_000)"]
    done = subprocess.run(program, capture_output=True, text=True, env=dict(os.environ), check=True)
    assert int(done.stderr.split()[-1]) > 190
