"""How `--help` is laid out: options in groups, then examples; the man page reads the same groups."""

from collections.abc import Mapping, Sequence
from typing import Any

from envdoctor.cli.examples import examples_of

LOOKED_AT = "Environment"
CHANGED = "Before something is changed"
RESULT = "Result"
SHOWN = "How it is shown"
_OWN = "Options"
_ARGUMENTS = "Arguments"
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
            formatter.write_dl(rows)


def write_examples(context: Any, formatter: Any) -> None:
    """Write the examples of a command, where it has any: a line is never wrapped, it is there to be copied."""
    found = examples_of(context.command_path)
    if found:
        with formatter.section("Examples"):
            for line, purpose in found:
                formatter.write(f"{' ' * formatter.current_indent}{line}\n")
                formatter.write_text(f"    {purpose}")
