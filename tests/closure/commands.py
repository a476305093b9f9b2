"""Running the command line and the printed commands as a user's shell would, without a network."""

import os
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envdoctor import __main__ as program
from tests.factories.run_envdoctor import COMMAND

SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What one command left."""

    code: int
    out: str
    err: str


def run_cli(*arguments: str | Path, environment: Mapping[str, str], folder: Path) -> Done:
    """Run the whole command line in a forked child: as a process of its own, without the start of another Python."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become(["envdoctor", *map(str, arguments)], environment, folder, (out.fileno(), err.fileno()))
        _, status = os.waitpid(child, 0)
        return Done(code=os.waitstatus_to_exitcode(status), out=_text(out), err=_text(err))


def _become(arguments: list[str], environment: Mapping[str, str], folder: Path, streams: tuple[int, int]) -> None:
    try:
        os.chdir(folder)
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        os.environ.update(environment)
        tempfile.tempdir = None
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - as short as it gets
            os.dup2(nothing.fileno(), 0)
        for number, stream in enumerate(streams, 1):
            os.dup2(stream, number)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")
        sys.argv = arguments
        program.main()
    except BaseException:  # noqa: BLE001 - whatever it is, the parent tells it
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(99)


def run_shell(command: str, environment: Mapping[str, str], folder: Path) -> tuple[Done, dict[str, str]]:
    """Run one printed command in a shell; return what it left and the environment the shell has after it.

    A command of ours that asks before it changes anything is answered with --yes.
    """
    words = _ours(command)
    if words is not None:
        return run_cli(*words, environment=environment, folder=folder), dict(environment)
    with tempfile.NamedTemporaryFile() as after:
        script = f"{command}\n/usr/bin/env -0 > {shlex.quote(after.name)}"
        done = subprocess.run(
            ["/bin/bash", "-ec", script],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        pairs = (entry.partition("=") for entry in Path(after.name).read_text().split("\0") if entry)
        left = {name: value for name, _, value in pairs if name not in ("_", "SHLVL", "PWD", "OLDPWD")}
    return Done(code=done.returncode, out=done.stdout, err=done.stderr), left or dict(environment)


def _ours(command: str) -> list[str] | None:
    if not command.startswith("envdoctor ") or any(mark in command for mark in "&|;<>$`"):
        return None
    words = shlex.split(command)[1:]
    return [*words, "--yes"] if words[0] in ("repair", "restore") else words


def write_shim(folder: Path) -> None:
    """Put an `envdoctor` program into a folder, for the commands that only a shell can run."""
    folder.mkdir(parents=True, exist_ok=True)
    shim = folder / "envdoctor"
    shim.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    shim.chmod(0o755)


def _text(stream: "tempfile._TemporaryFileWrapper[bytes]") -> str:  # type: ignore[name-defined]
    stream.seek(0)
    return str(stream.read().decode(errors="replace"))
