"""A command's result as text or as JSON: finds the renderer of the command, and loads no other."""

import importlib
from typing import Any

from envdoctor.app.result import Result
from envdoctor.report.envelope import dump, envelope
from envdoctor.report.style import Style


def as_text(result: Result, style: Style) -> str:
    """Return what a person reads, ending in a newline."""
    return str(_renderer(result.command).text(result.data, style))


def as_json(result: Result) -> str:
    """Return the command's JSON document, ending in a newline."""
    return dump(envelope(_renderer(result.command).document(result.data)))


def _renderer(command: str) -> Any:
    return importlib.import_module(f"envdoctor.report.commands.{command.replace(' ', '_')}")
