"""The launch gate: one call in a train script that lets it start on the right stack and on no other.

    from envdoctor import gate
    gate.require("21k-toks")

It belongs before `import torch`, examines the running interpreter's own environment from its files, and costs a
fraction of a second. At import nearly nothing is loaded; neither torch nor a terminal library ever is.
"""

import importlib.util
import os
import sys
import time
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from envdoctor.model.frozen import frozen, replace

Mode = typing.Literal["enforce", "warn", "off"]
MODES: tuple[Mode, ...] = typing.get_args(Mode)
OTHER_TORCH = "torch-from-elsewhere"
"""Stands among the codes let through when the process would import another torch than the one examined."""
NOT_TOLD = "could-not-tell"
"""Stands among the codes let through when the environment could not be examined."""
_USAGE, _UNKNOWN = 2, 3  # of ExitCode, without importing it
END_SECONDS = 6.0
"""Seconds. A launcher ends all ranks when the first one fails: the others' end must not cut off the report."""
REPORT_SECONDS = 5.0
"""Of these, how long local rank 0 is waited for: where it passes, the report is another rank's."""
_WORD_SECONDS = 2.0
_COLLECTED = 100_000
"""Objects between two collections: an examination makes as many, which live to its end; cycles are not among them."""

if typing.TYPE_CHECKING:
    from envdoctor.doctor.once_a_node import Told
    from envdoctor.doctor.workspace import Workspace
    from envdoctor.model.fingerprint import Fingerprint
    from envdoctor.model.verdict import Verdict


@frozen
class Expected:
    """What a run of the stack does when all is well, as [expected] of its profile says; 0 where it says nothing."""

    tokens_per_second: float = 0.0
    memory_flat_within: float = 0.0
    """Largest growth of the memory high-water after warm-up, as a fraction (0.01 is 1 %)."""


@frozen
class Admitted:
    """What the profile says of the run that may start."""

    profile: str
    """Its name, however it was asked for."""
    preset: str | None
    """The trainer's preset; empty where the profile names none, None where it could not be read (a bypass)."""
    expected: Expected = Expected()


@frozen
class _Decision:
    """What the examination says of this process."""

    code: int
    found: tuple[str, ...]
    """Codes of the findings."""
    speaks: bool
    """This rank says for its node what was found, and keeps a bypass in the gate log."""


def require(profile: str, *, mode: Mode | None = None, reason: str = "") -> Admitted:
    """Return what the profile says when this process may start on it; else say why, cause first, and raise SystemExit.

    `profile` is a name or the path of a profile's file.

    `mode` (default: $ENVDOCTOR_GATE, else "enforce") may be "warn", which reports and goes on, or "off", which examines
    nothing. Both need a `reason` (or $ENVDOCTOR_GATE_REASON), said on stderr and kept in the gate log
    ($ENVDOCTOR_GATE_LOG, else .envdoctor/gate.log in the current folder).

    The exit code is the verdict's: 1 for findings, 3 when a check that matters could not tell; 2 is an unknown profile
    or a bypass without a reason. The ranks that torchrun, accelerate, Ray Train, srun or mpirun start on a node share
    one examination, and local rank 0 prints the report.
    """
    chosen: Mode = "enforce"
    admitted = Admitted(profile=Path(profile).stem, preset=None)
    told = _Decision(code=0, found=(), speaks=True)
    try:
        chosen, why = choose(mode, reason, os.environ)
        from envdoctor.facts.own_modules import found_quickly  # noqa: PLC0415 - none of ours before it is needed

        told = replace(told, speaks=not _local_rank())
        with _fewer_collections(), found_quickly():
            workspace = _open(profile)
            admitted = _admitted(workspace)
            if chosen != "off":
                told = _decide(workspace, profile, waits=chosen == "enforce")
    except Exception as error:  # noqa: BLE001 - a fault of ours must not end a training that is only warned
        _not_examined(error, profile, chosen)
        told = replace(told, found=(NOT_TOLD,))
    if chosen != "enforce":
        if told.speaks:
            record(profile, chosen, why, told.found)
    elif told.code:
        raise SystemExit(told.code)
    return admitted


def choose(mode: str | None, reason: str, environ: Mapping[str, str]) -> tuple[Mode, str]:
    """Return the mode and the reason that hold; raise UsageError for an unknown mode or a bypass without a reason."""
    wanted = mode if mode is not None else environ.get("ENVDOCTOR_GATE") or "enforce"
    why = " ".join((reason or environ.get("ENVDOCTOR_GATE_REASON", "")).split())  # one line of a log
    chosen = next((known for known in MODES if known == wanted), None)
    if chosen is None:
        from envdoctor.errors import UsageError  # noqa: PLC0415

        raise UsageError(f"`{wanted}` is not a gate mode", f"ENVDOCTOR_GATE is one of {', '.join(MODES)}")
    if chosen != "enforce" and not why:
        from envdoctor.errors import UsageError  # noqa: PLC0415

        raise UsageError(
            f"mode `{chosen}` needs a reason, which is logged",
            'say why: ENVDOCTOR_GATE_REASON="...", `envdoctor run --reason`, or `gate.require(reason=...)`',
        )
    return chosen, why


def record(profile: str, mode: Mode, reason: str, found: tuple[str, ...], prefix: str = sys.prefix) -> None:
    """Say a bypass on stderr and append it to the gate log; `found` are the codes of the findings let through.

    Where that fails it is said, and ends nothing.
    """
    try:
        from envdoctor.doctor import bypass  # noqa: PLC0415 - few starts are bypassed

        bypass.record(profile, mode, reason, found, prefix, _say)
    except Exception as error:  # noqa: BLE001 - as in `require`
        _say_bare(f"warning: envdoctor gate: mode {mode} for profile {profile} is not logged: {type(error).__name__}")


def _open(profile: str) -> "Workspace":
    from envdoctor.doctor.workspace import Workspace  # noqa: PLC0415
    from envdoctor.facts.target import Target  # noqa: PLC0415

    return Workspace.open(profile=profile, target=Target(prefix=Path(sys.prefix), interpreter=Path(sys.executable)))


def _admitted(workspace: "Workspace") -> Admitted:
    wanted = workspace.needs_profile("start on", 'gate.require("NAME")').profile
    return Admitted(
        profile=wanted.name,
        preset=wanted.trainer.preset,
        expected=Expected(
            tokens_per_second=wanted.expected.tokens_per_second,
            memory_flat_within=wanted.expected.memory_flat_within,
        ),
    )


def _decide(workspace: "Workspace", profile: str, *, waits: bool) -> "_Decision":
    """Examine, and say what was found where this rank is to; `waits`: say too that this process does not start."""
    from envdoctor.doctor.once_a_node import Node  # noqa: PLC0415
    from envdoctor.gate_ranks import DIFFERENT, Own, compared, job_here  # noqa: PLC0415

    job = job_here(workspace.host)
    with Node(workspace.host, _question(workspace)) as node:
        told = node.told(lambda: _examine_aloud(workspace, profile, has_ranks=job is not None), _note)
        if told.problem:
            raise told.error()
        elsewhere = _other_torch(told.torch)
        code = told.code or int(bool(elsewhere))
        if elsewhere:
            # Each process has a search path of its own, so this is nothing that another rank could say.
            hint = "take what puts it there out of sys.path, or examine that one"
            _say(f"error: envdoctor gate: {elsewhere}\n\nhint: {hint}")
        refused = _refused(profile)
        later = waits and code and _local_rank()
        said_at = time.monotonic()
        if later:
            _say(refused)
        # A healthy start that is enforced leaves nothing to say.
        speaks = bool(told.code or not waits) and node.reports(told, REPORT_SECONDS if later else 0.0)
        if told.code and speaks:
            _say(told.shown_on(sys.stderr, os.environ))
    found = (*told.found, OTHER_TORCH) if elsewhere else told.found
    # What starts all the same is refused by nobody.
    own = Own(code=code if waits else 0, found=found, sheet=told.sheet, starts=not waits)
    of_job = compared(job, workspace.host, own, profile, _say) if job else 0
    if later:
        time.sleep(max(0.0, said_at + END_SECONDS - time.monotonic()))
    elif waits and (code or of_job):
        _say(refused)
    return _Decision(code=code or of_job, found=(*found, DIFFERENT) if of_job else found, speaks=speaks)


def _not_examined(error: Exception, profile: str, mode: Mode) -> None:
    """Say why nothing was examined, and let the ranks of the job know; raise SystemExit where this process ends.

    Bad input is wrong in any mode; what could not be read is let through where findings are. Nothing else is raised.
    """
    code = int(getattr(error, "exit_code", _UNKNOWN))
    ends = mode == "enforce" or code == _USAGE
    said_at, later = time.monotonic(), False
    try:
        from envdoctor.doctor.unexamined import said_of, say_once  # noqa: PLC0415 - few starts come here

        later = bool(ends and _local_rank())
        text = said_of(error, sys.prefix, profile)
        say_once(text, code, _refused(profile) if ends else "", REPORT_SECONDS, _say)
        if mode != "off":
            with suppress(Exception):  # the other ranks name this one when their time is up
                from envdoctor.gate_ranks import Own, not_examined  # noqa: PLC0415 - as above

                not_examined(Own(code=code if ends else 0, starts=not ends), profile, _say)
    except Exception as another:  # noqa: BLE001 - what the gate itself needs may be what the interpreter lacks
        faults = " and ".join(dict.fromkeys(type(one).__name__ for one in (error, another)))
        _say_bare(f"error: envdoctor gate: {faults}; nothing is known about {sys.prefix}")
    if ends:
        if later:
            time.sleep(max(0.0, said_at + END_SECONDS - time.monotonic()))
        raise SystemExit(code) from None


def _question(workspace: "Workspace") -> tuple[object, ...]:
    """Return what the verdict depends on beside the variables: the environment, the profile's and the lock's files."""
    from envdoctor.doctor.once_a_node import of_profile  # noqa: PLC0415

    return (str(workspace.target.prefix), str(workspace.target.interpreter), *of_profile(workspace))


def _note(text: str, waited: float = 0.0) -> None:
    from envdoctor.doctor.once_a_node import LONG_SECONDS  # noqa: PLC0415

    if not _local_rank() or waited > LONG_SECONDS:
        _say(f"note: envdoctor gate: {text}")


def _examine_aloud(workspace: "Workspace", profile: str, *, has_ranks: bool) -> "Told":
    """Examine, and say so where it takes long: the first time, and on a network file system."""
    import _thread  # noqa: PLC0415 - `threading` takes longer to load than most probes run

    from envdoctor.facts.second_process import start_thread  # noqa: PLC0415

    done = _thread.allocate_lock()
    done.acquire()

    def say() -> None:
        if not done.acquire(timeout=_WORD_SECONDS):
            _note(f"examining {sys.prefix}, which takes long where its files are slow or were not read before")

    start_thread(say)
    try:
        return _examine(workspace, profile, has_ranks=has_ranks)
    finally:
        done.release()


def _examine(workspace: "Workspace", profile: str, *, has_ranks: bool) -> "Told":
    from envdoctor.doctor.once_a_node import Told  # noqa: PLC0415
    from envdoctor.facts.context import Options  # noqa: PLC0415
    from envdoctor.probes.loading.torch_build import TorchBuild  # noqa: PLC0415

    # The driver is asked through NVML in a child process, which costs more than the whole gate may; so does binding
    # every symbol, which the last `check` remembers.
    facts = workspace.facts(Options(ask_nvml=False, only_remembered=True, contents=has_ranks))
    verdict = workspace.verdict(facts, launching=True)
    build = facts.get(TorchBuild)
    code = int(verdict.exit_code())
    plain, colored = _reports(facts, verdict, profile) if code else ("", "")
    return Told(
        code=code,
        found=tuple(item.code for item in verdict.findings),
        torch=build.folder if build is not None else None,
        report=plain,
        colored=colored,
        sheet=_sheet(facts) if has_ranks else "",
    )


def _sheet(facts: "Fingerprint") -> str:
    from envdoctor.gate_ranks import sheet_text  # noqa: PLC0415

    return sheet_text(facts)


def _reports(facts: "Fingerprint", verdict: "Verdict", profile: str) -> tuple[str, str]:
    """Return the report without and with colour: which one is printed is for the rank that prints it."""
    from envdoctor.doctor.heading import heading  # noqa: PLC0415
    from envdoctor.report import as_text, style  # noqa: PLC0415

    head = heading(facts, profile)
    plain, colored = (as_text.render(head, verdict, style.Style(color=color)) for color in (False, True))
    return plain, colored


def _other_torch(folder: str | None) -> str:
    """Say which torch this process would import when it is not that of the examined folder; empty when it is."""
    # sys.path as it is now, script folder and later insertions included; a top-level spec is found without importing.
    try:
        spec = importlib.util.find_spec("torch")
    except ValueError:  # a module that somebody put into sys.modules, without a spec
        spec = None
    taken = os.path.realpath(Path(spec.origin).parent) if spec is not None and spec.origin else ""
    examined = os.path.realpath(folder) if folder else ""
    if taken == examined or folder is None:
        return ""
    return (
        f"`import torch` takes {taken or 'nothing'} in this process; examined was {examined or 'a venv without torch'}"
    )


def _refused(profile: str) -> str:
    from envdoctor.facts.launch import rank  # noqa: PLC0415

    number = rank(os.environ)
    who = f"rank {number}" if number else "this process"
    return f"error: envdoctor gate: {who} does not start on {sys.prefix} (profile {profile})"


def _local_rank() -> int:
    from envdoctor.facts.launch import local_rank  # noqa: PLC0415

    return local_rank(os.environ)


@contextmanager
def _fewer_collections() -> Iterator[None]:
    import gc  # noqa: PLC0415

    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _COLLECTED) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _say_bare(text: str) -> None:
    """Say a line with nothing that is still to be loaded; no value of a variable is in it."""
    with suppress(Exception):
        sys.stderr.write(f"{ascii(text)[1:-1]}\n")


def _say(text: str) -> None:
    from envdoctor.report.style import on_terminal, write_line  # noqa: PLC0415
    from envdoctor.standards.redaction import redacted, secrets_of  # noqa: PLC0415

    write_line(sys.stderr, redacted(on_terminal(text), secrets_of(os.environ)))  # the trainer's log
