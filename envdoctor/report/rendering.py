"""A command's result in the shape that was asked for: finds the renderer of the command, and loads no other."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from envdoctor.app.result import Result
from envdoctor.errors import UsageError
from envdoctor.model.frozen import replace
from envdoctor.report.envelope import dump, envelope
from envdoctor.report.style import Style, typable, typable_prose

Programs = Callable[[], Mapping[str, str]]

# Command -> the module of `report/formats` that outlines its document.
_OUTLINES: Mapping[str, str] = {
    "check": "of_check",
    "diff": "of_diff",
    "impact": "of_impact",
    "cache status": "of_cache",
    "history": "of_history",
    "restore": "of_restore",
    "fleet check": "of_fleet",
}
_FILES = ("fingerprint", "watch-stack", "lock", "sbom")
"""Commands whose text is a file: its lines stay as they are."""
_COMMANDS, _SAID = ("commands", "by_hand", "undo"), ("text", "remedies")
"""Keys of documents under which commands are, and sentences that name some in backticks."""
_DRAWN = ("html", "svg")
_LISTED = ("markdown", "sarif", "junit", "github")
FORMATS: Mapping[str, tuple[str, ...]] = {
    "history": _DRAWN,
    "restore": _DRAWN,
    "fleet check": ("html", *_LISTED),
    **dict.fromkeys(("check", "diff", "impact", "cache status"), (*_DRAWN, *_LISTED)),
}
"""Command -> what it has beside text and json."""
SHARED = ("markdown", "github")
"""Meant for the eyes of others: the names of users, homes and this host are hidden unless they are wanted."""


def as_text(result: Result, style: Style) -> str:
    """Return what a person reads, ending in a newline."""
    renderer = _renderer(result.command)
    if result.elsewhere:
        style = replace(style, programs=dict)
    text = str(renderer.text(result.data, style))
    if result.command in _FILES:
        return text
    text = typable_prose(text, style.programs)
    if not style.on_screen or max(map(len, text.split("\n"))) <= style.width:
        return text
    from envdoctor.report.fitted import fitted  # noqa: PLC0415 - most reports have no long line

    # With colour a command is told from prose.
    colored = typable_prose(str(renderer.text(result.data, replace(style, color=True))), style.programs)
    return fitted(colored, style.width, color=style.color)


def as_json(result: Result, programs: Programs = dict) -> str:
    """Return the command's JSON document, ending in a newline. programs: see Style."""
    document = document_of(result)
    return dump(document if result.elsewhere else _typable(document, programs))


def as_format(result: Result, name: str, clean: Callable[[str], str]) -> str:
    """Return the result in one of its FORMATS. Raises UsageError where the command does not have it.

    clean: what every text of the document passes first, before it is escaped for the format. Programs keep their
    names: who reads it is on another machine.
    """
    having = [command for command, names in FORMATS.items() if name in names]
    if result.command not in having:
        commands = ", ".join(f"`{command}`" for command in having)
        raise UsageError(f"`envdoctor {result.command}` has no format {name}", f"{name} is for {commands}")
    return document_as(result.command, _cleaned(document_of(result), clean), name)


def document_as(command: str, document: Mapping[str, Any], name: str) -> str:
    """Return the JSON document of a command in one of its FORMATS, as it is."""
    outline = importlib.import_module(f"envdoctor.report.formats.{_OUTLINES[command]}").outline(document)
    renderer = importlib.import_module(f"envdoctor.report.formats.{name}")
    return str(renderer.render(outline, document) if name in _DRAWN else renderer.render(outline))


def document_of(result: Result) -> dict[str, Any]:
    """Return the command's JSON document as plain values."""
    return envelope(_renderer(result.command).document(result.data))


def _typable(value: Any, programs: Programs, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _typable(item, programs, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_typable(item, programs, key) for item in value]
    if not isinstance(value, str):
        return value
    return typable(value, programs) if key in _COMMANDS else typable_prose(value, programs) if key in _SAID else value


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _cleaned(item, clean) for key, item in value.items()}
    return [_cleaned(item, clean) for item in value] if isinstance(value, list | tuple) else value


def _renderer(command: str) -> Any:
    return importlib.import_module(f"envdoctor.report.commands.{command.replace(' ', '_').replace('-', '_')}")
