"""A check's own docstring as terminal text, as a line of a list, and as a page of docs/checks."""

import inspect
from collections.abc import Iterable, Mapping

from envdoctor.model.frozen import frozen

HEADS = ("What it finds", "Why it matters", "Example", "Fix")
GENERATED = "<!-- Written by `make docs` from the check's docstring; edit that instead. -->"


@frozen
class Rule:
    """One check as it documents itself."""

    code: str
    name: str
    area: str
    summary: str
    sections: Mapping[str, str]
    """Head -> text, in the order of HEADS."""


def parse(code: str, name: str, area: str, docstring: str) -> Rule:
    """Return the rule a check's docstring describes. Raises ValueError when a head is missing or stands elsewhere."""
    lines = inspect.cleandoc(docstring).splitlines()
    starts = [index for index, line in enumerate(lines) if line.endswith(":") and line[:-1] in HEADS]
    found = tuple(lines[index][:-1] for index in starts)
    if found != HEADS:
        raise ValueError(
            f"{code}: the docstring's heads are {', '.join(found) or 'missing'}; wanted {', '.join(HEADS)}"
        )
    ends = [*starts[1:], len(lines)]
    sections = {
        lines[start][:-1]: inspect.cleandoc("\n".join(["", *lines[start + 1 : end]])).strip()
        for start, end in zip(starts, ends, strict=True)
    }
    return Rule(code=code, name=name, area=area, summary=" ".join(lines[: starts[0]]).strip(), sections=sections)


def as_terminal_text(rule: Rule) -> str:
    """Return the rule for `envdoctor explain`."""
    blocks = [f"{rule.code} {rule.name} ({rule.area})\n{rule.summary}"]
    blocks += [f"{head}\n" + _indented(text) for head, text in rule.sections.items()]
    return "\n\n".join(blocks) + "\n"


def as_list(rules: Iterable[Rule]) -> str:
    """Return one line a rule for `envdoctor checks`."""
    listed = list(rules)
    column = max((len(rule.name) for rule in listed), default=0)
    return "".join(f"{rule.code}  {rule.name.ljust(column)}  {rule.summary}\n" for rule in listed)


def as_page(rule: Rule) -> str:
    """Return the rule's page for docs/checks."""
    blocks = [GENERATED, f"# {rule.code} {rule.name}", f"{rule.summary}\n\nArea: {rule.area}"]
    blocks += [f"## {head}\n\n{text}" for head, text in rule.sections.items()]
    return "\n\n".join(blocks) + "\n"


def as_index(rules: Iterable[Rule]) -> str:
    """Return the index page of docs/checks."""
    rows = [f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.area} | {rule.summary} |" for rule in rules]
    table = "\n".join(["| code | name | area | what it finds |", "|---|---|---|---|", *rows])
    return f"{GENERATED}\n\n# Checks\n\n{table}\n"


def pages(rules: Iterable[Rule]) -> dict[str, str]:
    """Return file name -> text of everything in docs/checks."""
    listed = list(rules)
    return {"README.md": as_index(listed)} | {f"{rule.code}.md": as_page(rule) for rule in listed}


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
