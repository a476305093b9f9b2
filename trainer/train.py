"""One run from its arguments to its verdict."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from envdoctor.gate import Expected
from trainer import checkpoint, provenance
from trainer.arguments import Arguments
from trainer.assemble import Parts, assemble
from trainer.baseline import judge
from trainer.data.feature_cache import require_room
from trainer.device import choose
from trainer.display import Display, summary
from trainer.errors import ConfigError
from trainer.finalize import Finalizer
from trainer.launch import orphaned
from trainer.metrics import Journal, Progress
from trainer.runtime import data_parallel, inline, processes, threads
from trainer.runtime.loop import Outcome
from trainer.runtime.session import Session
from trainer.runtime.shutdown import StopRequest
from trainer.tracking import Tracker

RUNNERS: dict[str, Callable[[Parts, Session], Outcome | None]] = {
    "inline": inline.run,
    "threads": threads.run,
    "processes": processes.run,
    "data-parallel": data_parallel.run,
}


def train(arguments: Arguments) -> int:
    """Run to the end, to a stop request (exit 143 or 130 once saved) or to an error."""
    transformers_logging.disable_progress_bar()
    config = arguments.config
    if config.run.threads:
        torch.set_num_threads(config.run.threads)
    output = arguments.output
    rank = int(os.environ.get("RANK", "0")) if config.launched else 0
    parts = assemble(config)
    saved = _resume(arguments, output, parts)
    cache = parts.cache_spec(choose(config.run.device))
    planned = require_room(cache) if cache is not None else ""
    start = saved.step if saved else 0
    with (
        Journal(output / ("metrics.jsonl" if rank == 0 else f"workers/rank-{rank}.jsonl")) as journal,
        StopRequest() as stop,
    ):
        ending = Finalizer(parts=parts, output=output, stop=stop)
        cut = {"truncated": parts.plan.truncated, "dropped": parts.plan.dropped}
        journal.write("start", {"step": start, "config": dataclasses.asdict(config), **cut})
        with (
            Tracker(config, output if rank == 0 else None) as tracker,
            Display(config.run.steps, start, quiet=arguments.quiet or rank > 0) as display,
        ):
            for remark in filter(None, (parts.rows.skipped, parts.plan.overlong, planned)):
                display.say(remark)

            def report(progress: Progress) -> None:
                journal.write("step", progress.line())
                display.progress(progress)
                tracker.log(progress)

            if rank == 0:
                provenance.write(output, arguments.argv, parts.identity())
            session = Session(
                parts=parts, output=output, saved=saved, stop=lambda: stop() or orphaned(), report=report,
                after=ending.trained, journal=journal.write, lead=rank == 0,
            )  # fmt: skip
            outcome = RUNNERS[config.runtime](parts, session)
        if outcome is not None:
            _conclude(arguments.expected, output, journal, ending, session, outcome)
    return stop.exit_code if outcome is not None and (outcome.interrupted or ending.cut) else 0


def _conclude(
    expected: Expected, output: Path, journal: Journal, ending: Finalizer, session: Session, outcome: Outcome
) -> None:
    judged = judge(outcome, expected)
    if ending.evaluation is not None:
        journal.write("evaluation", dataclasses.asdict(ending.evaluation))
    journal.write("end", {"step": outcome.step, "interrupted": outcome.interrupted, "verdict": [
        {"name": line.name, "met": line.met, "text": line.text} for line in judged
    ]})  # fmt: skip
    summary(outcome, ending.evaluation, judged, [*session.notes, ("output", str(output))])


def _resume(arguments: Arguments, output: Path, parts: Parts) -> checkpoint.Saved | None:
    root = output / "checkpoints"
    if arguments.resume:
        saved = checkpoint.find(root)
        checkpoint.require_same(saved.state["identity"], parts.identity(), root)
        return saved
    if checkpoint.steps(root):
        raise ConfigError(
            f"--output {output}: holds checkpoints of an earlier run", "go on with --resume, or give another folder"
        )
    return None
