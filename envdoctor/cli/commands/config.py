"""`envdoctor config`: what holds when an option is not given, and where it comes from."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.terminal import write_result
from envdoctor.documents.project_config import ProjectConfig, load
from envdoctor.exitcodes import ExitCode

# Setting -> (environment variable, default).
_SETTINGS = {
    "profile": ("ENVDOCTOR_PROFILE", ""),
    "venv": ("VIRTUAL_ENV", ""),
    "fail-on": ("ENVDOCTOR_FAIL_ON", "error"),
    "format": ("ENVDOCTOR_FORMAT", "text"),
    "color": ("ENVDOCTOR_COLOR", "auto"),
    "gate": ("ENVDOCTOR_GATE", "enforce"),
}


def config(output_format: FormatOption = "text", json: JsonOption = False) -> int:
    """Show each setting's value and where it comes from: the environment, pyproject.toml, or the default.

    An option on the command line comes before all of them.
    """
    found = load(Path.cwd())
    rows = _rows(found)
    if json or output_format == "json":
        from envdoctor.report.as_json import dump

        write_result(dump(_document(found, rows)))
        return ExitCode.OK
    wide = max(len(value) for _, value, _ in rows)
    lines = [f"{name.ljust(8)}  {value.ljust(wide)}  {source}".rstrip() for name, value, source in rows]
    lines += [f"waiver    {_waiver(waiver)}  {found.path}" for waiver in found.waivers]
    if found.ignored:
        lines.append(f"ignored   {found.ignored}: it belongs to another user")
    write_result("\n".join(lines) + "\n")
    return ExitCode.OK


def _rows(found: ProjectConfig) -> list[tuple[str, str, str]]:
    """Return (name, value, source) of each setting."""
    written = {"profile": found.profile, "venv": found.venv, "fail-on": found.fail_on or ""}
    rows = []
    for name, (variable, default) in _SETTINGS.items():
        value = os.environ.get(variable)
        if value or (value == "" and name == "profile"):
            rows.append((name, value or "-", f"${variable}"))
        elif value := written.get(name, ""):
            rows.append((name, value, found.path))
        else:
            rows.append((name, default or "-", "default"))
    return rows


def _waiver(waiver: Any) -> str:
    subject = f" ({waiver.subject})" if waiver.subject else ""
    return f"{waiver.code}{subject}: {waiver.reason}{_until(waiver.expires)}"


def _until(expires: str) -> str:
    if not expires:
        return ""
    today = datetime.now(UTC).date().isoformat()
    return f", {'until' if expires >= today else 'expired on'} {expires}"


def _document(found: ProjectConfig, rows: list[tuple[str, str, str]]) -> dict[str, Any]:
    from envdoctor.model.codec import encode

    return {
        "schema_version": 1,
        "file": found.path or None,
        "ignored": found.ignored or None,
        "settings": [
            {"name": name, "value": None if value == "-" else value, "source": source} for name, value, source in rows
        ],
        "waivers": encode(found.waivers),
    }
