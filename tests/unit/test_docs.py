"""The documents name what the code has: keys, exit codes, pages."""

import re
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from envdoctor.compare.difference import ComparableStack, Comparison, Difference
from envdoctor.exitcodes import ExitCode
from envdoctor.model.profile import Profile
from envdoctor.model.verdict import Verdict
from envdoctor.model.why import (
    Answer,
    DistributionAnswer,
    FileAnswer,
    LibraryAnswer,
    ModuleAnswer,
    ModulePlace,
    Needer,
    RecordHolder,
    Requirer,
    SearchedPlace,
    Shared,
)
from envdoctor.report.schemas import names
from tests.cli.test_help import commands
from tests.factories.run_envdoctor import ROOT


def keys(kind: Any, prefix: str = "") -> Iterator[str]:
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        inner = [hints[field.name], *typing.get_args(hints[field.name])]
        table = next((option for option in inner if is_dataclass(option)), None)
        yield from keys(table, f"{prefix}{field.name}.") if table else [f"{prefix}{field.name}"]


def first_column(document: str) -> list[str]:
    rows = re.findall(r"^\| (`?[\w.]+`?) \|", (ROOT / "docs" / document).read_text(), re.MULTILINE)
    return [row.strip("`") for row in rows if row not in {"key", "code"}]


def test_every_key_of_a_profile_is_documented() -> None:
    assert first_column("profiles.md") == list(keys(Profile))


def test_every_exit_code_is_documented() -> None:
    assert first_column("exit-codes.md") == [str(int(code)) for code in ExitCode]


def test_every_field_of_what_the_python_interface_returns_is_documented() -> None:
    kinds = (LibraryAnswer, FileAnswer, ModuleAnswer, ModulePlace, DistributionAnswer, Answer, RecordHolder)
    more = (SearchedPlace, Needer, Requirer, Shared, Comparison, Difference, ComparableStack, Verdict)
    page = (ROOT / "docs/api.md").read_text()
    known = set(re.findall(r"`(\w+)(?:\(.*?\))?`", page))
    told = [f"{kind.__name__}.{field.name}" for kind in (*kinds, *more) for field in fields(kind)]
    assert [name for name in told if name.partition(".")[2] not in known] == []


def test_every_command_says_which_programs_it_starts() -> None:
    page = (ROOT / "docs/security.md").read_text()
    rows = re.findall(r"^\| (`[^|]*) \|", page[: page.index("## What is trusted")], re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([^`]*)`", row)}
    known = {*(name for name, _, _ in commands())}
    assert known - listed == {"diff"} - listed
    assert {name for name in listed if name.partition(" --")[0] not in known} == set()


def test_every_document_is_described() -> None:
    page = (ROOT / "docs/json.md").read_text()
    aliases = {"check-fix": "check --fix", "error": "error", "explain-text": "explain TEXT", "try-result": "try"}
    aliases |= {
        "bisect-log": "--log",
        "bisect-undo": "--undo",
        "profile-new": "profile new",
        "fleet-change": "fleet restore",
    }
    words = {name: aliases.get(name, name if name == "watch-stack" else name.replace("-", " ")) for name in names()}
    assert [name for name, word in words.items() if not re.search(rf"`(?:envdoctor )?{re.escape(word)}\b", page)] == []


def test_links_between_documents_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "trainer/README.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 900
