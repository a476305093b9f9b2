"""`python -m tools.man_page FILE` writes the manual page from what `--help` is made of (`make docs`)."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envdoctor.cli.app import SECTIONS, build
from envdoctor.cli.examples import examples_of
from envdoctor.cli.help_text import SHOWN, groups
from envdoctor.exitcodes import ExitCode

_WIDE = "10000"
_PROGRAM = "envdoctor"
_CODES = {
    ExitCode.OK: "nothing at or above --fail-on was found",
    ExitCode.FINDINGS: "findings at or above --fail-on",
    ExitCode.USAGE: "bad input",
    ExitCode.UNKNOWN: "could not tell",
    ExitCode.RESTORE_FAILED: "a change failed; the venv is as it was",
    ExitCode.INTERRUPTED: "interrupted or declined",
}


def page() -> str:
    """Return envdoctor(1) for man: every command with its options, whatever the width of this terminal."""
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDE
    try:
        return "\n".join(_lines()) + "\n"
    finally:
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns


def _lines() -> Iterator[str]:
    root = build()
    context = root.make_context("envdoctor", ["checks"])
    commands = list(_commands(root, context))
    yield '.\\" Made from the program by `make docs`.'
    yield '.TH ENVDOCTOR 1 "" "envdoctor" "User Commands"'
    yield ".nh\n.ad l"
    yield ".SH NAME"
    yield "envdoctor \\- find out why a PyTorch environment is broken, and rebuild the stack that worked"
    yield ".SH SYNOPSIS"
    yield ".B envdoctor\n.I COMMAND\n.RI [ OPTIONS ]"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(root.help or "")
    for title, names in SECTIONS.items():
        yield f".PP\n.B {_quoted(title + ':')}"
        yield _escaped(", ".join(names) + ".")
    yield ".SH COMMON OPTIONS"
    yield "Every command takes these."
    first_command, first_context = commands[0][1:]
    yield from _options(groups(first_command, first_context)[SHOWN])
    yield ".SH COMMANDS"
    for path, command, own in commands:
        yield from _command(path, command, own)
    yield ".SH EXIT STATUS"
    for code in ExitCode:
        yield f".TP\n.B {int(code)}\n{_escaped(_CODES[code])}"
    yield ".SH EXAMPLES"
    yield from _examples(_PROGRAM)
    yield ".SH SEE ALSO"
    yield ".BR uv (1),\n.BR ld.so (8)"


def _commands(group: Any, context: Any) -> Iterator[tuple[str, Any, Any]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        own = command.context_class(command, info_name=name, parent=context)
        if hasattr(command, "list_commands"):
            yield from _commands(command, own)
        else:
            yield own.command_path, command, own


def _command(path: str, command: Any, context: Any) -> Iterator[str]:
    yield f".SS {_quoted(' '.join((path, *command.collect_usage_pieces(context))))}"
    yield from _paragraphs(command.help or "")
    for title, rows in groups(command, context).items():
        if title != SHOWN:
            yield from _options(rows)
    yield from _examples(path)


def _options(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    for written, said in rows:
        yield f".TP\n.B {_quoted(written)}\n{_escaped(' '.join(said.split()))}"


def _examples(path: str) -> Iterator[str]:
    for at, (line, purpose) in enumerate(examples_of(path)):
        said = f"{_escaped(purpose[:1].upper() + purpose[1:])}:"
        lead = [".PP"] if at or path != _PROGRAM else []
        yield "\n".join([*lead, said, ".PP", ".nf", ".RS 4", _escaped(line), ".RE", ".fi"])


def _paragraphs(text: str) -> Iterator[str]:
    for at, paragraph in enumerate(text.split("\n\n")):
        yield f"{'.PP' + chr(10) if at else ''}{_escaped(' '.join(paragraph.split()))}"


def _quoted(text: str) -> str:
    return '"' + _escaped(text).replace('"', "\\(dq") + '"'


def _escaped(text: str) -> str:
    """Return a text as groff and mandoc read it: no sign of it is a request, and a hyphen stays one to copy."""
    clean = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    clean = clean.replace("~", "\\(ti").replace("^", "\\(ha")
    clean = "".join(sign if sign.isascii() else f"\\[u{ord(sign):04X}]" for sign in clean)
    return f"\\&{clean}" if clean.startswith((".", "'")) else clean


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="ascii")
