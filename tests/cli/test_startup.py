"""What a command may load before it answers: the fast path stays fast by what it leaves out."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories.run_envdoctor import ROOT, environment

HEAVY = (
    "pydantic",
    "pydantic_core",
    "rich",
    "torch",
    "transformers",
    "numpy",
    "uv",
    "envdoctor.stack",
    "tomli_w",
    "logging",
    "asyncio",
    "urllib3",
    "http.client",
)


@pytest.mark.parametrize(
    "arguments", [["--version"], ["check", "/usr"], ["checks"], ["explain", "ED201"], ["fingerprint", "/usr"]]
)
def test_nothing_heavy_is_loaded(tmp_path: Path, arguments: list[str]) -> None:
    code = (
        f"import sys; sys.path[0] = {str(ROOT)!r}\n"
        "from envdoctor.cli.app import main\n"
        "main(sys.argv[1:])\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "[]\n"


def test_a_plain_check_loads_no_part_of_the_standard_library_that_takes_longer_than_a_probe(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path[0] = {str(ROOT)!r}\n"
        "from envdoctor.cli import direct\n"
        "assert direct.run(['check', '/usr', '-q']) is not None\n"
        "slow = {'dataclasses', 'inspect', 'typer', 'pkgutil', 'threading', 'getpass'}\n"
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "[]"
