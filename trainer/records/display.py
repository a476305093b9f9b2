"""What a person sees: a progress bar or plain lines on stderr while it runs, a summary on stdout at the end."""

import io
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from trainer.decoding.evaluate import FEWEST, Evaluation, vague
from trainer.records import metrics
from trainer.records.baseline import Judgement
from trainer.runtime.loop import Outcome


class _Stderr:
    """stderr, as far as it takes what is said: a pipe whose reader is gone or a full disk must not end a run."""

    def __init__(self) -> None:
        self._file = sys.stderr

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Display:
    """Progress on stderr: a bar on a terminal, a line a log interval elsewhere, nothing when quiet."""

    def __init__(self, steps: int, start: int, *, quiet: bool) -> None:
        """Prepare; enter it to show."""
        self.console = Console(file=cast("TextIO", _Stderr()), quiet=quiet)
        self._bar = Progress(
            TextColumn("[bold]training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"),
            TimeRemainingColumn(), console=self.console, disable=not self.console.is_terminal, transient=False,
        )  # fmt: skip
        self._task: TaskID = self._bar.add_task("training", total=steps, completed=start, told="")

    def __enter__(self) -> Self:
        """Start the bar."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the bar."""
        self._bar.stop()

    def say(self, text: str) -> None:
        """Show a line, whole and as it is: a path may hold what rich takes for markup."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def progress(self, now: metrics.Progress) -> None:
        """Show a log line."""
        speed = f"{now.tokens_per_second:,.0f} tok/s  MFU {now.utilisation:.0%}"
        told = f"loss {now.loss:.3f}  acc {now.accuracy:.0%}  {speed}"
        self._bar.update(self._task, completed=now.step, told=told)
        if not self.console.is_terminal:
            self.say(f"step {now.step:>6}  {told}")


def summary(
    outcome: Outcome,
    evaluations: tuple[Evaluation | None, Evaluation | None],
    judged: list[Judgement],
    facts: list[tuple[str, str]],
) -> str:
    """Return the closing table and the verdict as stdout shows them; the evaluations are at temperature 0 and 1."""
    evaluation, sampled = evaluations
    terminal = sys.stdout is not None and sys.stdout.isatty()
    console = Console() if terminal else Console(file=io.StringIO(), width=140)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, text in [*_facts(outcome, evaluation, sampled), *facts]:
        table.add_row(name, Text(text))
    for line in judged:
        table.add_row("", f"{'✔' if line.met else '✘'} {line.name}: {line.text}")
    with console.capture() as captured:
        console.print(table, highlight=False)
        if evaluation is not None:
            console.print(acceptance_table(evaluation), highlight=False)
    return captured.get()


def _facts(outcome: Outcome, evaluation: Evaluation | None, sampled: Evaluation | None) -> list[tuple[str, str]]:
    first, last = outcome.first, outcome.last
    found = [("steps", f"{outcome.step}{' (interrupted, saved)' if outcome.interrupted else ''}")]
    if first is not None and last is not None:
        found += [
            ("loss", f"{first.loss:.3f} -> {last.loss:.3f}, accuracy {last.accuracy:.1%}"),
            ("throughput", f"{outcome.tokens_per_second:,.0f} tok/s, MFU {outcome.utilisation:.1%}"),
            ("memory", f"{last.memory.peak / 1e9:.2f} GB high-water, growth {outcome.growth:.1%}"),
        ]
    if evaluation is not None:
        same = f"{evaluation.identical} of {evaluation.prompts} texts identical to the target's own"
        found.append(("acceptance", f"{_length(evaluation)} tokens a target pass; {same}"))
        if not evaluation.vague:
            found.append(("speed-up", f"{evaluation.speedup:.2f} x plain decoding in wall-clock, greedy, one user"))
    if sampled is not None:
        speed = "" if sampled.vague else f", {sampled.speedup:.2f} x"
        same = f"{sampled.identical} of {sampled.prompts} texts identical"
        found.append(("sampled", f"{_length(sampled)} tokens a target pass{speed} at temperature 1; {same}"))
    return found


def _length(evaluation: Evaluation) -> str:
    low, high = evaluation.interval
    if evaluation.vague:
        return _between(evaluation.acceptance_length, low, high, evaluation.prompts)
    return f"{evaluation.acceptance_length:.2f} ({low:.2f} to {high:.2f}, 95 %)"


def _between(length: float, low: float, high: float, prompts: int) -> str:
    few = f"{prompts} prompt{'' if prompts == 1 else 's'}"
    if prompts < FEWEST or high <= low:
        return f"about {length:.2f} ({few}: too few or too alike for an interval)"
    return f"between {low:.2f} and {high:.2f} (95 %; {few} tell no more)"


def judged_line(values: Mapping[str, Any]) -> str:
    """Return an evaluation made while it trains as one line."""
    greedy, sampled = _told(values), _told(values["sampled"])
    return f"step {values['step']:>6}  acceptance length {greedy}, at temperature 1 {sampled}"


def _told(values: Mapping[str, Any]) -> str:
    low, high = values["interval"]
    if vague(values["acceptance_length"], values["interval"], values["prompts"]):
        return _between(values["acceptance_length"], low, high, values["prompts"])
    return f"{values['acceptance_length']:.2f} ({low:.2f} to {high:.2f}, {values['speedup']:.2f} x)"


def acceptance_table(evaluation: Evaluation) -> Table:
    """Return acceptance by block position, with a bar each."""
    table = Table(title="accepted at block position", title_justify="left", box=None, pad_edge=False)
    table.add_column("position", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    for position, share in enumerate(evaluation.by_position, start=1):
        table.add_row(str(position), f"{share:.1%}", "█" * round(share * 30))
    return table
