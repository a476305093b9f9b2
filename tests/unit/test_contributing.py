"""CONTRIBUTING.md is true: its codes, its commands, its files."""

import re
import subprocess
import sys

import pytest

from envdoctor.checks.registry import all_checks
from tests.factories.run_envdoctor import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def test_every_code_is_of_a_range_in_the_table_and_no_retired_one_is_used() -> None:
    ranges = set(re.findall(r"^\| (ED\d)xx \|", TEXT, re.MULTILINE))
    assert {check.code[:3] for check in all_checks()} == ranges
    retired = re.search(r"^Retired codes: (.*)\.$", TEXT, re.MULTILINE)
    assert retired is not None
    assert {check.code for check in all_checks()} & set(re.findall(r"ED\d{3}", retired[1])) == set()


def test_every_target_that_it_names_exists() -> None:
    targets = (ROOT / "Makefile").read_text().partition(".PHONY: ")[2].splitlines()[0].split()
    assert set(re.findall(r"`make ([\w-]+)`", TEXT)) - set(targets) == set()


def test_every_file_that_it_names_exists() -> None:
    named = re.findall(r"`([\w./-]+/[\w./-]*|[\w-]*\.[\w.-]+)`", TEXT)
    made = {
        "test_finds_ed123_...",
        "test_passes_ed123_...",
        "envdoctor/checks/NAME.py",
        "envdoctor/cli/commands/NAME.py",
        "envdoctor/app/NAME.py",
        "envdoctor/report/commands/NAME.py",
        "envdoctor/report/formats/NAME.py",
        "dist/",
        "build/site-docs/index.html",
        ".venv-fast",
    }
    assert [name for name in named if name not in made and not (ROOT / name).exists()] == []


def test_every_program_that_ci_installs_has_a_row_of_three_parts() -> None:
    rows = [line for line in (ROOT / ".ci/packages").read_text().splitlines() if not line.startswith("#")]
    assert [row for row in rows if len(row.split(maxsplit=2)) != 3] == []


def test_ruff_leaves_out_no_module() -> None:
    """The list of folders that ruff leaves out by default has names that a room here can bear, as `venv`."""
    pytest.importorskip("ruff", reason="ruff is not installed in the venv of the tests")
    listed = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--show-files", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    folders = ("benchmarks", "envdoctor", "tests", "tools", "trainer")
    modules = {str(path) for folder in folders for path in (ROOT / folder).rglob("*.py")}
    assert modules - set(listed.stdout.splitlines()) == set()
