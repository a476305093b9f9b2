"""One vocabulary: what a user reads says the field's words. A phrase of the table below has a plainer one beside it.

Read are the string literals of both packages, docstrings included, and the pages; comments are the code's own.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# docs/cases.md shows reports as they were printed, some of them by earlier versions.
QUOTES = {"docs/cases.md"}
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "trainer/README.md", "docs/**/*.md", "profiles/*.toml")

# What is not written -> what is written instead.
WORDS = {
    r"\bto be had\b": "found, available",
    r"\banew\b": "again",
    r"\bmend(s|ed|ing)?\b": "fix, repair",
    r"\bby force\b": "force-reinstall, or `--reinstall-package`",
    r"(?<!here )(?<!hat )\bis no (?:file|folder|directory|venv|python|terminal|profile|interpreter|archive|zip|list"
    r"|name|environment|object|wheel|regular|plain|real|valid|readable|conda|cache|key|function|share|pair)\b": (
        "is not a"
    ),
    r"\b(is|are|was) not to be\b": "not found, cannot be",
    r"\bnow and then\b": "sometimes; or: already fails, and would still fail",
    r"\b(leave|left|leaves) (\S+ )?away\b": "omit",
    r"\bfore(tell|told|tells)\b": "predict",
    r"\bheld against\b": "compared with",
    r"\bwhoever\b": "anyone who, the user who",
    r"\bpatient('s)?\b": "target venv, environment",
    r"\btold by\b": "identified by, read from",
    r"\b(could not|cannot) be told\b": "could not be determined",
    r"\bstands? in (front|the place)\b": "shadows, comes first",
    r"\bis meant:": "is the expected owner",
    r"\blies (in|on|at|there|beside|inside|outside)\b": "is in",
    r"\ba person's\b": "your, the user's",
    r"\bnobody is there\b": "confirmation needed, but stdin is not a terminal",
    r"\bspeaks? against\b": "fails",
    r"\b(no|old|newest) generations?\b": "backup",
}


def phrases(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, the phrase, what to write instead) for each phrase of the table."""
    for pattern, instead in WORDS.items():
        for match in re.finditer(pattern, text, re.IGNORECASE):
            yield text.count("\n", 0, match.start()) + 1, " ".join(match.group().split()), instead


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of every string literal, neighbours and the texts between an f-string's values joined."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(_text(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def _text(part: ast.expr) -> str:
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "X"


def _pages() -> list[Path]:
    found = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    return sorted(path for path in found if path.relative_to(ROOT).as_posix() not in QUOTES)


def _modules() -> list[Path]:
    return sorted(path for package in ("envdoctor", "trainer") for path in (ROOT / package).rglob("*.py"))


def test_packages_say_the_words_of_the_field() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{first + line - 1}: `{phrase}`: write {instead}"
        for path in _modules()
        for first, text in literals(path)
        for line, phrase, instead in phrases(text)
    ]
    assert wrong == []


def test_pages_say_the_words_of_the_field() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: `{phrase}`: write {instead}"
        for path in _pages()
        for line, phrase, instead in phrases(path.read_text(encoding="utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ('"X is no venv"', [(1, "is no venv")]),
        ('(f"torch {1} is not "\nf"to be had")', [(1, "to be had"), (1, "is not to be")]),
        ('"""One.\n\nMended."""', [(3, "Mended")]),
        ('"there is no file"', []),
        ("# mend", []),
    ],
)
def test_literals_are_read_as_a_user_sees_them(code: str, seen: list[tuple[int, str]], tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(code)
    found = [(first + line - 1, phrase) for first, text in literals(path) for line, phrase, _ in phrases(text)]
    assert found == seen
