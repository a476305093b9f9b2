"""`envdoctor run`: check, restore if allowed, then become the command."""

import math
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from envdoctor import gate
from envdoctor.app import provenance
from envdoctor.cli.options import ProfileOption, TrustVariablesOption, VenvOption
from envdoctor.cli.output import style_on
from envdoctor.cli.run_options import (
    GateModeOption,
    MeasureOption,
    MetricsOption,
    ProvenanceOption,
    ReasonOption,
    WatchOption,
)
from envdoctor.cli.terminal import say
from envdoctor.doctor.once_a_node import LONG_SECONDS, Node, Told, of_profile
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import EnvdoctorError, TargetError, UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.launch import local_rank, rank
from envdoctor.facts.stops import end_by_stops
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.header import Header
from envdoctor.model.verdict import Verdict
from envdoctor.report import as_text
from envdoctor.standards.redaction import redacted_words

if TYPE_CHECKING:
    from envdoctor.model.fingerprint import Fingerprint
    from envdoctor.watch.judgement import LaunchState

# Options of ours end where the command begins: `run -p P python train.py --lr 3e-4` needs no `--`.
CONTEXT_SETTINGS = {"allow_interspersed_args": False}


@frozen
class Examined:
    """A venv as the command will see it, and what the checks find there."""

    launch: Workspace
    header: Header
    verdict: Verdict


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD", help="The command and its arguments; `python` is the venv's.")
    ] = [],  # noqa: B006 - typer reads the default and never shares it
    profile: ProfileOption = "",
    venv: VenvOption = "",
    restore: Annotated[
        bool, typer.Option("--restore", help="Restore the profile's stack first when the check finds errors.")
    ] = False,
    yes_while_in_use: Annotated[
        bool,
        typer.Option("--yes-while-in-use", help="Let `--restore` swap the venv although other processes run from it."),
    ] = False,
    trust_variables: TrustVariablesOption = False,
    mode: GateModeOption = "enforce",
    reason: ReasonOption = "",
    watch: WatchOption = False,
    measure: MeasureOption = "",
    metrics: MetricsOption = "",
    provenance_file: ProvenanceOption = "",
) -> int:
    """Check a venv against a profile, then become the command: its exit code and signals are its own.

    The command gets the profile's environment variables, VIRTUAL_ENV, and the venv's bin folder first on PATH.
    Ranks that one launcher starts on a node share one check where their variables agree, and one restore; local rank 0
    prints the report.
    """
    if not command:
        raise UsageError("no command to run", "name it after `--`: `envdoctor run --profile NAME -- python -m trainer`")
    _refuse_unwatched(measure, metrics, watch=watch)
    workspace = Workspace.open(venv, profile)
    workspace.needs_profile("run on", "envdoctor run --profile NAME -- CMD")
    if not trust_variables:
        workspace.refuse_code_variables()
    chosen, why = gate.choose(mode, reason, os.environ)
    start = _Start(
        workspace=workspace,
        command=command,
        measure=measure,
        metrics=metrics if watch else None,
        provenance=provenance_file,
    )
    told, speaks = Told(code=0), False
    if chosen != "off" or restore:
        asked = ("run", chosen, restore, workspace.named, *of_profile(workspace))
        with Node(workspace.host, asked) as node:
            examine = partial(_found, workspace, restore=restore, while_in_use=yes_while_in_use, mode=chosen)
            told = _told(node, examine, restores=restore)
            if told.problem or (chosen == "enforce" and told.code):
                _refuse(start, profile, told, node)
                return told.code
            speaks = chosen == "warn" and node.reports(told, 0.0)
    if speaks and told.code:
        _report(told)
    launch = workspace.launched()
    if speaks or (chosen == "off" and not local_rank(os.environ)):
        found = told.found if chosen == "warn" else ()
        gate.record(profile, chosen, why, found, str(launch.target.prefix))
    return start.on(launch)


def _told(node: Node, examine: Callable[[], Told], *, restores: bool) -> Told:
    """Return what the check finds, in this rank or another one of the node.

    Raises what it raises in either, in the rank that is to print it; the others return it as a `problem`.
    """
    own = None
    try:
        # Who restores may take long, and nobody else can meanwhile.
        told = (
            node.told(examine, _note, math.inf, "checks the same venv and restores it")
            if restores
            else node.told(examine, _note)
        )
    except EnvdoctorError as error:
        own, told = error, Told(code=int(error.exit_code), problem=error.message, hint=error.hint)
    if told.problem and node.reports(told, gate.REPORT_SECONDS if local_rank(os.environ) else 0.0):
        raise own or told.error()
    return told


def _refuse(start: "_Start", profile: str, told: Told, node: Node) -> None:
    """Say that the command is not started, and the report once a node, before the launcher ends the other ranks."""
    named = shlex.join(redacted_words(start.command))
    if told.problem:
        say(f"error: `{named}` was not started (profile {profile}): another rank of this node says why")
        time.sleep(gate.END_SECONDS)
        return
    refused = f"error: `{named}` was not started on {start.workspace.launched().target.prefix} (profile {profile})"
    begun, later = time.monotonic(), local_rank(os.environ)
    if later:
        say(refused)
    if node.reports(told, gate.REPORT_SECONDS if later else 0.0):
        _report(told)
    if later:
        time.sleep(max(0.0, begun + gate.END_SECONDS - time.monotonic()))
    else:
        say(refused)


def _report(told: Told) -> None:
    say(told.colored if style_on(sys.stderr).color else told.report)


def _note(text: str, waited: float) -> None:
    if not local_rank(os.environ) or waited > LONG_SECONDS:
        say(f"note: {text}")


@frozen
class _Start:
    """How the command is started once it may."""

    workspace: Workspace
    command: Sequence[str]
    measure: str
    metrics: str | None
    """None: the command is not watched."""
    provenance: str = ""
    """The file that says what the command is started on; empty for none."""

    def on(self, launch: Workspace) -> int:
        """Become the command, or run it and watch."""
        # One rank speaks for a launch, as its trainer does.
        first = rank(os.environ) in {"", "0"}
        begun = provenance.begun(launch, self.command, self.provenance) if first and self._is_kept() else None
        if self.metrics is None or not first:
            become(self.command, launch.host.environ)
        if begun is not None and not self.provenance and (said := provenance.kept(launch, begun, self.command)):
            say(said)
        from envdoctor.watch import supervise

        profile = self.workspace.needs_profile("run on", "envdoctor run --profile NAME -- CMD").profile
        wanted = supervise.Watching(
            expected=profile.expected.tokens_per_second,
            flat_within=profile.expected.memory_flat_within,
            profile=profile.name,
            pattern=self.measure,
            metrics=launch.host.cwd / self.metrics if self.metrics else None,
            ended=None if begun is None else lambda state: self._ended(launch, begun, state),
        )
        code = supervise.watched(self.command, launch.host, launch.target.prefix, wanted, say)
        return supervise.end_as(code)

    def _is_kept(self) -> bool:
        expected = self.workspace.profile.profile.expected.tokens_per_second if self.workspace.profile else 0.0
        return bool(self.provenance or (self.metrics is not None and expected))

    def _ended(self, launch: Workspace, begun: "Fingerprint", state: "LaunchState") -> None:
        if said := provenance.good(launch, begun, state.share, state.tokens_per_second):
            say(said)


def _refuse_unwatched(measure: str, metrics: str, *, watch: bool) -> None:
    """Raise UsageError for options that say how to watch where nothing is watched, and for a wrong pattern."""
    if (measure or metrics) and not watch:
        name = "--measure" if measure else "--metrics"
        raise UsageError(f"{name} says how to watch, and nothing is watched", "add `--watch`")
    if measure:
        from envdoctor.standards.measured import compiled

        compiled(measure)


def become(command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the command; raise UsageError when it cannot be started."""
    # Python ignores these two at its start, and exec would hand that on: the command's `| head` would not end it.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    end_by_stops()  # one that came is not lost with this program
    try:
        os.execvpe(command[0], list(command), dict(environ))  # noqa: S606 - becoming the command is the product
    except OSError as error:
        raise UsageError(
            f"cannot start `{command[0]}`: {error.strerror}", "name a program on the venv's PATH, or its path"
        ) from error


def _found(workspace: Workspace, *, restore: bool, while_in_use: bool, mode: gate.Mode) -> Told:
    """Examine the venv, restored first where that is asked for and needed, for all ranks of the node.

    mode: what is only restored is not examined once more ("off"); an examination that fails is reported ("warn"), but
    for bad input, which is wrong in any mode.
    """
    examined = _restored(workspace, while_in_use=while_in_use) if restore else None
    if mode == "off":
        return Told(code=0)
    try:
        examined = examined or _examine(workspace)
    except Exception as error:
        if mode != "warn" or getattr(error, "exit_code", ExitCode.UNKNOWN) == ExitCode.USAGE:
            raise
        from envdoctor.doctor.unexamined import said_of

        said = said_of(error, str(workspace.target.prefix), workspace.profile.asked if workspace.profile else "")
        return Told(code=int(ExitCode.UNKNOWN), found=(gate.NOT_TOLD,), report=said, colored=said)
    code, style = int(examined.verdict.exit_code()), style_on(sys.stderr)
    plain, colored = (
        as_text.render(examined.header, examined.verdict, replace(style, color=color)) if code else ""
        for color in (False, True)
    )
    return Told(code=code, found=tuple(item.code for item in examined.verdict.findings), report=plain, colored=colored)


def _examine(workspace: Workspace) -> Examined:
    from envdoctor.app.check import with_sources

    launch = workspace.launched()
    facts = launch.facts()
    verdict = with_sources(launch.verdict(facts, launching=True), launch)
    return Examined(launch=launch, header=launch.header(facts), verdict=verdict)


def _restored(workspace: Workspace, *, while_in_use: bool) -> Examined | None:
    """Restore the venv where the check finds errors; return what the check found where nothing had to be restored."""
    if (examined := _sound(workspace)) is not None:
        return examined
    from envdoctor.app.restore import RestoreOptions, restore
    from envdoctor.cli.dialog import Terminal

    # Ranks whose variables differ (each sees a GPU of its own) are asked questions of their own, about one venv.
    question = ("restore", str(workspace.folder), *of_profile(workspace))
    with (
        Node(workspace.host, question, whatever_variables=True) as node,
        node.alone(_note, "restores the same venv") as one_of_several,
    ):
        if one_of_several and (examined := _sound(workspace)) is not None:
            return examined
        # stdout belongs to the command that is about to start.
        terminal = Terminal()
        terminal.show(restore(workspace, RestoreOptions(yes=True, unless_in_use=not while_in_use), terminal))
    return None


def _sound(workspace: Workspace) -> Examined | None:
    """Return what the check finds; None for errors, and for a venv that is not there: they are to be restored."""
    try:
        examined = _examine(workspace)
    except TargetError:
        # A venv that is not there yet is what `--restore` builds; it refuses a folder that is something else.
        if (workspace.folder / "pyvenv.cfg").is_file():
            raise
        return None
    if examined.verdict.exit_code() is not ExitCode.FINDINGS:
        return examined
    _refuse_another(workspace, examined)
    return None


def _refuse_another(workspace: Workspace, examined: Examined) -> None:
    """Refuse to restore another venv than the one that was checked and would be started on: an active conda's."""
    checked = examined.launch.target.prefix
    if checked != workspace.folder:
        say(
            as_text.render(
                examined.header,
                examined.verdict,
                style_on(sys.stderr),
            )
        )
        raise UsageError(
            f"`--restore` does not rebuild {checked}, the conda environment that is active and was checked",
            f"name the venv to start on: `--venv {shlex.quote(str(workspace.folder))}`",
        )
