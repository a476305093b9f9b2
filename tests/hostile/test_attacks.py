"""The list of faults that attacks found names tests that exist, and each of them can fail."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.hostile.attacks import FAULTS

ROOT = Path(__file__).resolve().parents[2]


@cache
def functions(file: str) -> dict[str, ast.FunctionDef]:
    """Return the tests of a file by name; none where there is no such file."""
    path = ROOT / file
    if not path.is_file() or not path.name.startswith("test_"):
        return {}
    return {
        node.name: node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def holds(test: str) -> str:
    """Return what is wrong with a test that is named `file::test`; empty for one that is there and can fail."""
    file, _, name = test.partition("::")
    found = functions(file).get(name)
    if found is None:
        return f"{test} is gone"
    asserts = any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Attribute) and node.attr == "raises")
        for node in ast.walk(found)
    )
    # A helper of the same name may hold the assertion: forked() raises for a crash, a hang and too much memory.
    helped = any(isinstance(node, ast.Name) and node.id in ("forked", "answered") for node in ast.walk(found))
    return "" if asserts or helped else f"{test} asserts nothing"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_test_holds_each_fault(fault: str) -> None:
    said, tests = FAULTS[fault]
    assert said
    assert tests
    assert [wrong for test in tests if (wrong := holds(test))] == []


def test_a_test_that_is_gone_is_missed() -> None:
    here = "tests/hostile/test_attacks.py"
    assert holds(f"{here}::test_a_test_holds_each_fault") == ""
    assert holds(f"{here}::test_gone") == f"{here}::test_gone is gone"
    assert holds("tests/hostile/attacks.py::FAULTS") == "tests/hostile/attacks.py::FAULTS is gone"
    assert holds("tests/hostile/test_no.py::test_x") == "tests/hostile/test_no.py::test_x is gone"


def test_the_page_names_the_list() -> None:
    assert "tests/hostile/attacks.py" in (ROOT / "docs/security.md").read_text()
