"""`envdoctor check` with its plainest options, read without typer: loading that takes a fifth of a check's time.

Only what cannot be misread is read here. Any other word, a variable or a pyproject.toml that sets an option, and every
mistake go to the typer command, which does the same for these options.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from envdoctor.errors import EnvdoctorError

_SWITCHES = {
    "--json": "json",
    "--quiet": "quiet",
    "-q": "quiet",
    "--verbose": "verbose",
    "-v": "verbose",
    "--exit-zero": "exit_zero",
}
_VALUES = {"--venv": "venv", "--profile": "profile", "-p": "profile"}
# typer's own variables (completion) and ours, of which some set an option.
_VARIABLES = ("ENVDOCTOR_", "_ENVDOCTOR_")


def check(arguments: Sequence[str]) -> int | None:
    """Run the `check` of a command line and return its exit code; None for one that is not read here.

    arguments: what follows the program's name. Raises KeyboardInterrupt.
    """
    words = _words(arguments) if arguments[:1] == ["check"] else None
    if words is None or any(name.startswith(_VARIABLES) for name in os.environ) or _configured():
        return None
    from envdoctor.cli.endings import say_crash, say_error

    try:
        return _check(words)
    except EnvdoctorError as error:
        return say_error(error, as_json="json" in words)
    except Exception as error:  # noqa: BLE001 - as for every other command
        return say_crash(error, as_json="json" in words)


def _words(arguments: Sequence[str]) -> dict[str, str] | None:
    """Return option -> value ("1" for a switch); None where a word is unknown, twice there or without its value."""
    read: dict[str, str] = {}
    rest = iter(arguments[1:])
    for word in rest:
        if word in _SWITCHES:
            read[_SWITCHES[word]] = "1"
            continue
        if word.startswith("-") and word not in _VALUES:
            return None
        name, value = (_VALUES[word], next(rest, "")) if word in _VALUES else ("venv", word)
        if not value or value.startswith("-") or name in read:
            return None
        read[name] = value
    return read


def _configured() -> bool:
    """Tell whether a pyproject.toml has anything to say, or cannot be read: then the typer command says so."""
    from envdoctor.documents.project_config import ProjectConfig, load

    try:
        return load(Path.cwd()) != ProjectConfig()
    except (EnvdoctorError, OSError):
        return True


def _check(words: dict[str, str]) -> int:
    from envdoctor.app import check as app
    from envdoctor.cli.dialog import Terminal
    from envdoctor.cli.late import never_silent
    from envdoctor.cli.output import finish
    from envdoctor.cli.shown import Shown, show_as
    from envdoctor.doctor.workspace import Workspace

    show_as(Shown(quiet="quiet" in words, verbose="verbose" in words))
    workspace = Workspace.open(words.get("venv", ""), words.get("profile", ""))
    with never_silent("check: still reading"):
        done = app.check(workspace, app.CheckOptions(exit_zero="exit_zero" in words), Terminal())
        return finish(done, json="json" in words)
