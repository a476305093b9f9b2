"""How `--help` is laid out: options in groups, then examples; the man page reads the same groups."""

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from envdoctor.cli.examples import examples_of

LOOKED_AT = "Environment"
CHANGED = "Before something is changed"
RESULT = "Result"
SHOWN = "How it is shown"
_OWN = "Options"
_ARGUMENTS = "Arguments"
_WIDEST, _NARROWEST = 120, 40
_ORDER = (_ARGUMENTS, _OWN, LOOKED_AT, CHANGED, RESULT, SHOWN)


def groups(command: Any, context: Any) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Return title -> (how an argument or option is written, what it says) in the order in which they are shown."""
    found: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            own = _ARGUMENTS if parameter.param_type_name == "argument" else _OWN
            if parameter.name == "help":
                own = SHOWN
            found.setdefault(getattr(parameter, "rich_help_panel", None) or own, []).append(record)
    return {title: found[title] for title in sorted(found, key=_place)}


def _place(title: str) -> int:
    return _ORDER.index(title) if title in _ORDER else _ORDER.index(_OWN)


def write_groups(command: Any, context: Any, formatter: Any) -> None:
    """Write the arguments and options of a command in their groups."""
    for title, rows in groups(command, context).items():
        with formatter.section(title):
            write_rows(formatter, rows)


def write_rows(formatter: Any, rows: Sequence[tuple[str, str]]) -> None:
    """Write rows in two columns; on a narrow terminal the second begins further left, and long values are broken."""
    room = formatter.width - formatter.current_indent
    formatter.write_dl([(_fitting(name, room), said) for name, said in rows], col_max=min(30, room // 2))


def terminal_width() -> int:
    """Return the columns that a help may take: no more than read well, one free at each side."""
    columns = shutil.get_terminal_size().columns
    return max(min(columns, _WIDEST), _NARROWEST) - 2


def _fitting(written: str, room: int) -> str:
    """Return how an option is written, in lines that are no longer than there is room, each with whole values."""
    lines = [""]
    for value in written.replace("|", "|\0").replace(" <", " \0<").split("\0"):
        if lines[-1].strip() and len(lines[-1] + value.rstrip()) > room:
            lines.append("      ")
        lines[-1] += value
    return "\n".join(line.rstrip() if line is lines[-1] else line for line in lines) if len(lines) > 1 else written


def write_examples(context: Any, formatter: Any) -> None:
    """Write the examples of a command, where it has any: a line is never wrapped, it is there to be copied."""
    found = examples_of(context.command_path)
    if found:
        with formatter.section("Examples"):
            for line, purpose in found:
                formatter.write(f"{' ' * formatter.current_indent}{line}\n")
                formatter.write_text(f"    {purpose}")
