"""`check` and `restore` with their plainest options, read without typer: loading it takes a fifth of a check's time.

Only what cannot be misread is read here. Any other word, a variable of ours, a pyproject.toml that sets an option, and
every mistake go to the typer command, which does the same for these options.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from envdoctor.errors import EnvdoctorError

_SHOWN = {
    "--json": "json",
    "--quiet": "quiet",
    "-q": "quiet",
    "--verbose": "verbose",
    "-v": "verbose",
}
_PLACES = {"--venv": "venv", "--profile": "profile", "-p": "profile"}
# typer's own variables (completion) and ours, of which some set an option.
_VARIABLES = ("ENVDOCTOR_", "_ENVDOCTOR_")


def run(arguments: Sequence[str]) -> int | None:
    """Run a `check` or a `restore` and return its exit code; None for a command line that is not read here.

    arguments: what follows the program's name. Raises KeyboardInterrupt.
    """
    command = _COMMANDS.get(arguments[0]) if arguments else None
    if command is None:
        return None
    words = _words(arguments, command)
    if words is None or any(name.startswith(_VARIABLES) for name in os.environ) or _configured():
        return None
    from envdoctor.cli.endings import say_crash, say_error
    from envdoctor.cli.shown import Shown, show_as

    show_as(Shown(quiet="quiet" in words, verbose="verbose" in words))
    try:
        return command.run(words)
    except EnvdoctorError as error:
        return say_error(error, as_json="json" in words)
    except Exception as error:  # noqa: BLE001 - as for every other command
        return say_crash(error, as_json="json" in words)


def _words(arguments: Sequence[str], command: "_Command") -> dict[str, str] | None:
    """Return option -> value ("1" for a switch); None where a word is unknown, twice there or without its value."""
    read: dict[str, str] = {}
    rest = iter(arguments[1:])
    for word in rest:
        if word in command.switches:
            read[command.switches[word]] = "1"
            continue
        if word.startswith("-") and word not in command.values:
            return None
        name, value = (command.values[word], next(rest, "")) if word in command.values else ("venv", word)
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
    from envdoctor.doctor.workspace import Workspace

    workspace = Workspace.open(words.get("venv", ""), words.get("profile", ""))
    with never_silent("check: still reading"):
        done = app.check(workspace, app.CheckOptions(exit_zero="exit_zero" in words), Terminal())
        return finish(done, json="json" in words)


def _restore(words: dict[str, str]) -> int:
    from envdoctor.app import restore as app
    from envdoctor.cli.dialog import Terminal
    from envdoctor.cli.output import finish
    from envdoctor.doctor.workspace import Workspace

    wishes = app.RestoreOptions(
        python=words.get("python", ""),
        dry_run="dry_run" in words,
        offline="offline" in words,
        yes="yes" in words,
        unless_in_use="unless_in_use" in words,
        force="force" in words,
    )
    workspace = Workspace.open(words.get("venv", ""), words.get("profile", ""))
    return finish(app.restore(workspace, wishes, Terminal()), json="json" in words)


class _Command(NamedTuple):
    """A command that is read here."""

    switches: dict[str, str]
    values: dict[str, str]
    run: Callable[[dict[str, str]], int]


_COMMANDS = {
    "check": _Command({**_SHOWN, "--exit-zero": "exit_zero"}, _PLACES, _check),
    "restore": _Command(
        {
            **_SHOWN,
            "--yes": "yes",
            "-y": "yes",
            "--dry-run": "dry_run",
            "--force": "force",
            "--offline": "offline",
            "--unless-in-use": "unless_in_use",
        },
        {**_PLACES, "--python": "python"},
        _restore,
    ),
}
