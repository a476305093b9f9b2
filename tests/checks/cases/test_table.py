"""docs/cases.md says what the tests of the cases say."""

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in (HERE.parents[2] / "docs/cases.md").read_text().splitlines()
    if re.match(r"\| \[?(?:BR|N|S)\d", line)
]


def _case(row: list[str]) -> str:
    """Return the case of a row ("BR01", "N03b")."""
    return re.findall(r"\b(?:BR|N|S)\d+[a-z]?\b", row[0])[0]


def _strings(case: str) -> str:
    """Return every string of the case's test, f-strings with their placeholders left out."""
    # A sibling of a case ("N10c") may stand in the file of the case.
    path = next(path for name in (case, case[:-1]) for path in HERE.glob(f"test_{name.lower()}_*.py"))
    nodes = ast.walk(ast.parse(path.read_text()))
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("row", ROWS, ids=_case)
def test_each_row_is_what_its_test_expects(row: list[str]) -> None:
    case, code, title = _case(row), row[1], row[2]
    said = _strings(case)
    # A placeholder in the row stands for a path that the test fills in.
    for part in re.split(r"FOLDER|SITE-PACKAGES|`|accelerate 0.10.0 is too old for transformers 5.8.1: ", title):
        if code != "-" or "`" in title:
            assert part.strip() in said
    assert code == "-" or code in said


def test_every_case_has_a_row() -> None:
    named = (re.match(r"test_((?:br|n|s)\d+[a-z]?)_", path.name) for path in HERE.glob("test_*.py"))
    assert {match[1] for match in named if match} <= {_case(row).lower() for row in ROWS}
