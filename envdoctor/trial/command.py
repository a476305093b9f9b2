"""The user's command, run in a copy: with a time limit, a group of its own, and its output in a file."""

import contextlib
import math
import os
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from envdoctor.facts.children import start_child
from envdoctor.facts.left_running import ending_all
from envdoctor.facts.whole_file import appending
from envdoctor.model.frozen import frozen
from envdoctor.model.wording import counted
from envdoctor.standards import measured
from envdoctor.trial.delta import Outcome

SKIP = 125
"""As for `git bisect run`: it cannot be judged."""
_NOT_EXECUTABLE, _NOT_FOUND = 126, 127
"""What a shell ends with for a program that it cannot start (POSIX.1-2024, Shell Command Language, 2.8.2)."""
_LAST_LINES = 4096
_GRACE = 5.0


@frozen
class Criterion:
    """What makes a run bad."""

    runs: int = 1
    fails: int = 1
    """This many failing runs make a copy bad."""
    timeout: float = 600.0
    """Seconds; a run that takes longer fails."""
    pattern: str = ""
    """A regular expression whose first group is a number in the output; empty where the exit code decides."""
    drop: float = 0.0
    """The share of the good end's number by which a bad one is smaller; negative for larger."""


@frozen
class Run:
    """One run of the command."""

    code: int
    """Exit code; -N for signal N."""
    seconds: float
    """How long it ran; the time limit where it was ended."""
    timed_out: bool = False
    number: float | None = None
    """The last one that the pattern found."""
    said: str = ""
    """The last line of its output."""

    @property
    def ending(self) -> str:
        """Return how it ended, in words."""
        if self.timed_out:
            return f"did not end within {self.seconds:g} s"
        if self.code < 0:
            return f"was ended by {_signal_name(-self.code)}"
        if self.code in (_NOT_EXECUTABLE, _NOT_FOUND):
            return f"a program cannot be started (exit code {self.code})"
        return f"exit code {self.code}"


@frozen
class Judged:
    """What the runs in one copy say."""

    outcome: Outcome
    why: str
    runs: tuple[Run, ...]
    number: float | None = None
    """Median of the runs' numbers."""


def judge(
    command: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    log: Path,
    wanted: Criterion,
    reference: float | None,
    note: Callable[[str], None],
) -> Judged:
    """Run the command as often as it takes to judge it. `reference` is the good end's number, None to measure it.

    note: is told what is waited for.
    """
    runs: list[Run] = []
    while len(runs) < wanted.runs:
        runs.append(run(command, environment, cwd, log, wanted, note))
        if runs[-1].code == SKIP:
            said = f": {runs[-1].said}" if runs[-1].said else ""
            return Judged(outcome="skip", why=f"exit code {SKIP}{said}", runs=tuple(runs))
        failed = sum(one.code != 0 for one in runs)
        settled = failed >= wanted.fails or len(runs) - failed > wanted.runs - wanted.fails
        if not wanted.pattern and settled:
            break
    return _measured(tuple(runs), wanted, reference) if wanted.pattern else _counted(tuple(runs), wanted)


def _counted(runs: tuple[Run, ...], wanted: Criterion) -> Judged:
    failed = [one for one in runs if one.code != 0]
    bad = len(failed) >= wanted.fails
    why = failed[-1].ending + (f": {failed[-1].said}" if failed[-1].said else "") if failed else "exit code 0"
    if wanted.runs > 1:
        why = f"{len(failed)} of {counted(len(runs), 'run')} failed" + (f", {why}" if failed else "")
    return Judged(outcome="bad" if bad else "good", why=why, runs=runs)


def _measured(runs: tuple[Run, ...], wanted: Criterion, reference: float | None) -> Judged:
    numbers = [one.number for one in runs if one.number is not None and one.code == 0]
    if not numbers:
        last = runs[-1]
        why = last.ending if last.code else f"its output has nothing that fits {wanted.pattern}"
        return Judged(outcome="skip", why=f"no number: {why}{f': {last.said}' if last.said else ''}", runs=runs)
    number = statistics.median(numbers)
    if reference is None:
        # A share of nothing, or of what is not a number, is no limit.
        sound = math.isfinite(number) and number != 0
        why = f"{number:g}" if sound else f"{number:g}, of which no share can be taken"
        return Judged(outcome="good" if sound else "skip", why=why, runs=runs, number=number if sound else None)
    limit = reference - wanted.drop * abs(reference)
    bad = not math.isfinite(number) or (number <= limit if wanted.drop >= 0 else number >= limit)
    sign = "at most" if wanted.drop >= 0 else "at least"
    return Judged(
        outcome="bad" if bad else "good",
        why=f"{number:g}; bad is {sign} {limit:g}",
        runs=runs,
        number=number if math.isfinite(number) else None,
    )


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    log: Path,
    wanted: Criterion,
    note: Callable[[str], None],
) -> Run:
    """Run it once; what it says is appended to `log`. It and its children are ended after the time limit.

    environment: as `launch_environment` makes it. note: is told what is waited for.
    """
    started = time.monotonic()
    with appending(log, 0o600) as output, ending_all(note) as block:
        at = output.seek(0, os.SEEK_END)
        try:
            process = start_child(
                command,
                ending=signal.SIGKILL,
                env={**environment, **block.mark},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            said = f"{command[0]}: {error.strerror}"
            output.write(f"{said}\n".encode())
            code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
            return Run(code=code, seconds=0.0, said=said)
        timed_out = False
        try:
            process.wait(wanted.timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _end(process)
    seconds = wanted.timeout if timed_out else time.monotonic() - started
    said, number = _read(log, at, wanted.pattern)
    code = process.returncode
    return Run(code=code or (1 if timed_out else 0), seconds=seconds, timed_out=timed_out, number=number, said=said)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End what is left of the command's group."""
    for number, patience in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            if number == signal.SIGTERM and process.returncode is not None:
                continue


def _read(log: Path, start: int, pattern: str) -> tuple[str, float | None]:
    with log.open("rb") as file:
        # All of it only where a number is looked for: a run may print gigabytes.
        end = file.seek(0, os.SEEK_END)
        file.seek(start if pattern else max(start, end - _LAST_LINES))
        text = file.read().decode("utf-8", "replace")
    lines = [line.strip() for line in text[-_LAST_LINES:].splitlines() if line.strip()]
    found = [measured.number(match[1] or "") for match in re.finditer(pattern, text)] if pattern else []
    numbers = [one for one in found if one is not None]
    return (lines[-1][:300] if lines else ""), numbers[-1] if numbers else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
