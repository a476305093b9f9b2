"""A check's docstring as list, terminal text and page."""

import pytest

from envdoctor.model.rule import Rule, parse
from envdoctor.report.rule_pages import GENERATED, as_index, as_list, as_page, as_terminal_text, pages

DOCSTRING = """A file is gone
although its owner is installed.

What it finds:
    Files that a RECORD lists.

    More of it:
        - a list

Why it matters:
    `import torch` fails.

Example:
    Removed with the cu13 wheels.

Fix:
    Reinstall the owner.
"""

RULE = Rule(
    code="ED201",
    name="lost-files",
    area="Installed files",
    summary="A file is gone although its owner is installed.",
    sections={
        "What it finds": "Files that a RECORD lists.\n\nMore of it:\n    - a list",
        "Why it matters": "`import torch` fails.",
        "Example": "Removed with the cu13 wheels.",
        "Fix": "Reinstall the owner.",
    },
)


def test_parse() -> None:
    assert parse("ED201", "lost-files", "Installed files", DOCSTRING) == RULE


@pytest.mark.parametrize(
    ("docstring", "message"),
    [
        (
            "Nothing more.",
            "ED201: the docstring's heads are missing; wanted What it finds, Why it matters, Example, Fix",
        ),
        (
            "S.\n\nFix:\n    x\n\nWhat it finds:\n    y",
            "ED201: the docstring's heads are Fix, What it finds; wanted What it finds, Why it matters, Example, Fix",
        ),
    ],
    ids=["none", "order"],
)
def test_parse_names_the_heads_it_misses(docstring: str, message: str) -> None:
    with pytest.raises(ValueError, match="wanted") as caught:
        parse("ED201", "n", "a", docstring)
    assert str(caught.value) == message


def test_terminal_text() -> None:
    assert as_terminal_text(RULE) == (
        "ED201 lost-files (Installed files)\nA file is gone although its owner is installed.\n\n"
        "What it finds\n  Files that a RECORD lists.\n\n  More of it:\n      - a list\n\n"
        "Why it matters\n  `import torch` fails.\n\n"
        "Example\n  Removed with the cu13 wheels.\n\n"
        "Fix\n  Reinstall the owner.\n"
    )


def test_list() -> None:
    assert as_list([RULE]) == "ED201  lost-files  A file is gone although its owner is installed.\n"
    assert as_list([]) == ""


def test_page_and_index() -> None:
    assert as_page(RULE) == (
        f"{GENERATED}\n\n# ED201 lost-files\n\nA file is gone although its owner is installed.\n\n"
        "Area: Installed files\n\n"
        "## What it finds\n\nFiles that a RECORD lists.\n\nMore of it:\n    - a list\n\n"
        "## Why it matters\n\n`import torch` fails.\n\n"
        "## Example\n\nRemoved with the cu13 wheels.\n\n## Fix\n\nReinstall the owner.\n"
    )
    assert as_index([RULE]) == (
        f"{GENERATED}\n\n# Checks\n\n| code | name | area | what it finds |\n|---|---|---|---|\n"
        "| [ED201](ED201.md) | lost-files | Installed files | A file is gone although its owner is installed. |\n"
    )
    assert pages([RULE]) == {"README.md": as_index([RULE]), "ED201.md": as_page(RULE)}
