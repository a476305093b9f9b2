"""`envdoctor run`: check, restore if allowed, then become the command."""

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from envdoctor import gate
from envdoctor.cli.options import Color, ColorOption, ProfileOption
from envdoctor.cli.patient import Request, examine_request, locate
from envdoctor.cli.terminal import say, style_for
from envdoctor.documents import profile_store
from envdoctor.errors import TargetError, UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen
from envdoctor.model.profile import Profile
from envdoctor.model.verdict import Verdict
from envdoctor.report import as_text

# Options of ours end where the command begins: `run -p P python train.py --lr 3e-4` needs no `--`.
CONTEXT_SETTINGS = {"allow_interspersed_args": False}


@frozen
class Launch:
    """One command that is to start in one venv on one profile."""

    venv: str
    profile: Profile
    prefix: Path
    host: Host
    """The machine with the environment the command starts in, so that what the profile sets counts as set."""


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD...", help="The command and its arguments; `python` is the venv's.")
    ] = [],  # noqa: B006 - typer reads the default and never shares it
    profile: ProfileOption = "",
    venv: Annotated[str, typer.Option("--venv", metavar="VENV", help="Default: $VIRTUAL_ENV, else ./.venv.")] = "",
    restore: Annotated[
        bool, typer.Option("--restore", help="Restore the profile's stack first when the check finds errors.")
    ] = False,
    yes_while_in_use: Annotated[
        bool,
        typer.Option("--yes-while-in-use", help="Let `--restore` swap the venv although other processes run from it."),
    ] = False,
    mode: Annotated[
        gate.Mode,
        typer.Option(
            "--gate",
            envvar="ENVDOCTOR_GATE",
            help="What findings do: stop the start, be reported, or not be looked for.",
        ),
    ] = "enforce",
    reason: Annotated[
        str,
        typer.Option(
            "--reason", envvar="ENVDOCTOR_GATE_REASON", help="Why the gate is bypassed; `warn` and `off` need one."
        ),
    ] = "",
    color: ColorOption = "auto",
) -> int:
    """Check a venv against a profile, then become the command: its exit code and signals are its own.

    The command gets the profile's environment variables, VIRTUAL_ENV, and the venv's bin folder first on PATH.
    """
    if not command:
        raise UsageError("no command to run", "name it after `--`: `envdoctor run --profile P -- python -m trainer`")
    if not profile:
        raise UsageError("no profile to run on", "`envdoctor profiles` lists them: `envdoctor run --profile P -- CMD`")
    chosen, why = gate.choose(mode, reason, os.environ)
    if restore:
        _restore_where_needed(venv, profile, while_in_use=yes_while_in_use)
    launch = prepare(venv, profile, Host.current())
    if chosen == "off":
        gate.record(profile, chosen, why, (), str(launch.prefix))
    else:
        verdict = _verdict(launch, color)
        if chosen == "warn":
            gate.record(profile, chosen, why, tuple(finding.code for finding in verdict.findings), str(launch.prefix))
        elif code := verdict.exit_code():
            say(f"error: `{shlex.join(command)}` was not started on {launch.prefix} (profile {profile})")
            return code
    return become(command, launch.host.environ)


def prepare(venv: str, profile: str, host: Host) -> Launch:
    """Return the launch with the environment its command will see."""
    wanted = profile_store.find(profile, host.cwd).profile
    prefix = locate(venv, host).prefix
    environ = {name: value for name, value in host.environ.items() if name != "PYTHONHOME"}
    environ |= wanted.environment.set
    environ["VIRTUAL_ENV"] = str(prefix)
    environ["PATH"] = os.pathsep.join((str(prefix / "bin"), host.environ.get("PATH", os.defpath)))
    return Launch(venv=str(prefix), profile=wanted, prefix=prefix, host=replace(host, environ=environ))


def become(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the command; raise UsageError when it cannot be started."""
    # Python ignores these two at its start, and exec would hand that on: the command's `| head` would not end it.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], list(command), dict(environ))  # noqa: S606 - becoming the command is the product
    except OSError as error:
        raise UsageError(
            f"cannot start `{command[0]}`: {error.strerror}", "name a program on the venv's PATH, or its path"
        ) from error


def _verdict(launch: Launch, color: Color) -> Verdict:
    request = Request(venv=launch.venv, profile=launch.profile.name)
    header, verdict = examine_request(request, launch.host)
    if verdict.exit_code():
        style = style_for(sys.stderr, os.environ, color=color)
        say(as_text.render(header, verdict, style))
    return verdict


def _restore_where_needed(venv: str, profile: str, *, while_in_use: bool) -> None:
    try:
        launch = prepare(venv, profile, Host.current())
        verdict = examine_request(Request(venv=launch.venv, profile=profile), launch.host)[1]
        needed = verdict.exit_code() is ExitCode.FINDINGS
    except TargetError:
        # A venv that is not there yet is what `--restore` builds; any other bad input stops the run.
        needed = True
    if needed:
        from envdoctor.cli.commands.restore import restore

        # stdout belongs to the command that is about to start.
        with contextlib.redirect_stdout(sys.stderr):
            restore(profile=profile, venv=venv, yes=True, unless_in_use=not while_in_use)
