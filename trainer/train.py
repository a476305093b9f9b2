"""One run from its arguments to its verdict."""

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from trainer import checkpoint, provenance, toy
from trainer.arguments import Arguments
from trainer.assemble import Parts, assemble
from trainer.config import TrainConfig
from trainer.display import Display, summary
from trainer.ending import Ending
from trainer.errors import ConfigError
from trainer.expected import expected_of, judge
from trainer.metrics import Journal, Progress
from trainer.runtime import inline, processes, threads
from trainer.runtime.launch import launch, orphaned, under_launcher
from trainer.runtime.loop import Outcome
from trainer.runtime.session import Session
from trainer.runtime.shutdown import StopRequest
from trainer.tracking import Tracker

RUNNERS: dict[str, Callable[[Parts, Session], Outcome | None]] = {
    "inline": inline.run,
    "threads": threads.run,
    "processes": processes.run,
}


def train(arguments: Arguments) -> int:
    """Run to the end, to a stop request (exit 143 or 130 once saved) or to an error."""
    transformers_logging.disable_progress_bar()
    config = arguments.config
    if config.run.threads:
        torch.set_num_threads(config.run.threads)
    output = _output(arguments)
    if config.runtime == "processes" and not under_launcher():
        if not config.target.path:
            # Taught once here, not by every worker at the same time.
            toy.folder(toy.cache_folder())
        return launch([*arguments.argv, "--output", str(output)], config.topology.targets + config.topology.drafters)
    return _work(arguments, output)


def _output(arguments: Arguments) -> Path:
    if arguments.output is not None:
        return arguments.output
    if under_launcher():
        raise ConfigError("--output: every process must be given the same folder", "add --output DIR to the command")
    return Path("runs") / f"{arguments.config.profile}-{time.strftime('%Y%m%d-%H%M%S')}"


def _work(arguments: Arguments, output: Path) -> int:
    config = arguments.config
    rank = int(os.environ.get("RANK", "0")) if config.runtime == "processes" else 0
    parts = assemble(config)
    saved = _resume(arguments, output, parts)
    start = saved.step if saved else 0
    ending = Ending(parts=parts, output=output)
    journal = Journal(output / ("metrics.jsonl" if rank == 0 else f"workers/rank-{rank}.jsonl"))
    journal.write("start", {"step": start, "config": dataclasses.asdict(config)})
    with (
        StopRequest() as stop,
        Tracker(config, output if rank == 0 else None) as tracker,
        Display(config.run.steps, start, quiet=arguments.quiet or rank > 0) as display,
    ):
        if rank == 0:
            provenance.write(output, arguments.argv, parts.identity())

        def report(progress: Progress) -> None:
            journal.write("step", progress.line())
            display.progress(progress)
            tracker.log(progress)

        session = Session(
            parts=parts, output=output, saved=saved, stop=lambda: stop() or orphaned(), report=report,
            after=ending.trained, journal=journal.write, lead=rank == 0,
        )  # fmt: skip
        outcome = RUNNERS[config.runtime](parts, session)
    if outcome is not None:
        _conclude(config, output, journal, ending, session, outcome)
    journal.close()
    return stop.exit_code if outcome is not None and outcome.interrupted else 0


def _conclude(
    config: TrainConfig, output: Path, journal: Journal, ending: Ending, session: Session, outcome: Outcome
) -> None:
    judged = judge(outcome, expected_of(config.profile))
    if ending.evaluation is not None:
        journal.write("evaluation", dataclasses.asdict(ending.evaluation))
    journal.write("end", {"step": outcome.step, "interrupted": outcome.interrupted, "verdict": [
        {"name": line.name, "met": line.met, "text": line.text} for line in judged
    ]})  # fmt: skip
    summary(outcome, ending.evaluation, judged, [*session.notes, ("output", str(output))])


def _resume(arguments: Arguments, output: Path, parts: Parts) -> checkpoint.Checkpoint | None:
    root = output / "checkpoints"
    if arguments.resume:
        saved = checkpoint.load(root)
        checkpoint.require_same(saved.identity, parts.identity(), root)
        return saved
    if checkpoint.steps(root):
        raise ConfigError(
            f"--output {output}: holds checkpoints of an earlier run", "go on with --resume, or give another folder"
        )
    return None
