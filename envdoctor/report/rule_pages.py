"""A check's own docstring as terminal text, as a line of a list, and as a page of docs/checks."""

from collections.abc import Iterable

from envdoctor.model.rule import Rule
from envdoctor.report.style import Style

GENERATED = "<!-- Written by `make docs` from the check's docstring; edit that instead. -->"


def as_terminal_text(rule: Rule, style: Style = Style()) -> str:  # noqa: B008 - it is frozen
    """Return the rule for `envdoctor explain`; on a screen its paragraphs are as wide as that."""
    blocks = [f"{rule.code} {rule.name} ({rule.area})\n{rule.summary}"]
    blocks += [f"{head}\n" + _indented(text, style) for head, text in rule.sections.items()]
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


def _indented(text: str, style: Style) -> str:
    if style.on_screen and "\n- " not in text and "\n    " not in text:
        paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
        return "\n\n".join("\n".join(style.wrap(paragraph, "  ", "  ")) for paragraph in paragraphs)
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
