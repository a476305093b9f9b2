"""docs/cases.md says what the tests of the cases say."""

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in (HERE.parents[2] / "docs/cases.md").read_text().splitlines()
    if line.startswith("| [BR")
]


def _strings(case: str) -> str:
    """Return every string of the case's test, f-strings with their placeholders left out."""
    (path,) = HERE.glob(f"test_{case.lower()}_*.py")
    nodes = ast.walk(ast.parse(path.read_text()))
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.findall(r"BR\d+", row[0])[0])
def test_each_row_is_what_its_test_expects(row: list[str]) -> None:
    case, code, title = re.findall(r"BR\d+", row[0])[0], row[1], row[2]
    said = _strings(case)
    # A placeholder in the row stands for a path that the test fills in.
    for part in re.split(r"FOLDER|SITE-PACKAGES|`|accelerate 0.10.0 is too old for transformers 5.8.1: ", title):
        if code != "-" or "`" in title:
            assert part.strip() in said
    assert code == "-" or code in said


def test_every_case_has_a_row() -> None:
    tested = {re.findall(r"br\d+", path.name)[0].upper() for path in HERE.glob("test_br*.py")}
    assert tested <= {re.findall(r"BR\d+", row[0])[0] for row in ROWS}
