"""One run from its arguments to its verdict."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from envdoctor.gate import Expected
from trainer.assemble import Parts, assemble
from trainer.data.feature_cache import require_room
from trainer.device import choose
from trainer.errors import ConfigError, OutputError, WorkerFailedError
from trainer.records.baseline import judge
from trainer.records.display import Display, judged_line, summary
from trainer.records.metrics import Journal, Progress
from trainer.records.tracking import Tracker, require_packages
from trainer.runtime import data_parallel, inline, processes, threads
from trainer.runtime.finalize import Finalizer, require_own_best
from trainer.runtime.launch import orphaned, under_launcher
from trainer.runtime.loop import Outcome
from trainer.runtime.meetings import connect, end_alike, meet
from trainer.runtime.session import Session
from trainer.runtime.shutdown import AFTER_PROMPT, AFTER_TRAINING, StopRequest
from trainer.saved import checkpoint, provenance
from trainer.saved.ancestry import lineage, parent_of, require_extendable
from trainer.settings.arguments import Arguments
from trainer.settings.config import TrainConfig
from trainer.writing import locked, say, write_result

RUNNERS: dict[str, Callable[[Parts, Session], Outcome | None]] = {
    "inline": inline.run,
    "threads": threads.run,
    "processes": processes.run,
    "data-parallel": data_parallel.run,
}


def train(arguments: Arguments, stop: StopRequest) -> int:
    """Run to the end, to a stop request (exit 143 or 130 once saved) or to an error.

    Raises Interrupted for a stop request before the first step.
    """
    transformers_logging.disable_progress_bar()
    if arguments.config.run.threads:
        torch.set_num_threads(arguments.config.run.threads)
    if not (arguments.config.launched and under_launcher()):
        return _train(arguments, stop)
    connect(arguments.config)
    try:
        return _train(arguments, stop)
    except WorkerFailedError as error:
        if not stop.saves and not error.told:
            stop.require_none()
        raise
    except Exception as error:
        # From the first step on, and once a signal has come, nobody waits for an answer.
        if stop.saves or stop.signal is not None:
            raise
        end_alike(error)


def _rank(config: TrainConfig) -> int:
    return int(os.environ.get("RANK", "0")) if config.launched else 0


def _train(arguments: Arguments, stop: StopRequest) -> int:
    """Train, where this is the process that writes as the only one that does so in this folder."""
    launched = arguments.config.launched and under_launcher()
    if _rank(arguments.config):
        meet()  # nothing of this run is written where rank 0 is refused
        return _trained(arguments, stop)
    taken = f"--output {arguments.output}: another run writes there"
    with locked(arguments.output / ".lock", taken, "wait until it has ended, or give another folder"):
        if launched:
            meet()
        return _trained(arguments, stop)


def _trained(arguments: Arguments, stop: StopRequest) -> int:
    config, output = arguments.config, arguments.output
    require_packages(config)
    rank = _rank(config)
    parts = assemble(config)
    config = parts.config
    saved, parent, parts = _start(arguments, output, parts)
    device = choose(config.run.device)
    cache, fp8 = parts.cache_spec(device), parts.in_fp8(device)
    planned = require_room(cache) if cache is not None else ""
    start = saved.step if saved else 0
    stop.require_none()
    stop.told = rank == 0 and not arguments.quiet
    with Journal(output / ("metrics.jsonl" if rank == 0 else f"workers/rank-{rank}.jsonl")) as journal:
        ending = Finalizer(parts=parts, output=output, stop=stop)
        cut = {"truncated": parts.plan.truncated, "dropped": parts.plan.dropped}
        told_fp8 = {key: {"narrow": split.narrow, "wide": split.wide} for key, split in fp8.items()}
        journal.write("start", {"step": start, "config": dataclasses.asdict(config), **cut, "fp8": told_fp8})
        with (
            Tracker(config, output if rank == 0 else None) as tracker,
            Display(config.run.steps, start, quiet=arguments.quiet or rank > 0) as display,
        ):
            evaluated = parts.evaluated_on and f"evaluations take their prompts from {parts.evaluated_on}"
            remarks = [f"training {parts.trained_on}", parts.rows.skipped, parts.plan.overlong, evaluated, planned]
            for remark in filter(None, [*remarks, *(split.told(key) for key, split in fp8.items())]):
                display.say(remark)

            def report(progress: Progress) -> None:
                journal.write("step", progress.line())
                display.progress(progress)
                tracker.log(progress)

            def told(event: str, values: Mapping[str, object]) -> None:
                journal.write(event, values)
                tracker.evaluation(values)
                display.say(judged_line(values))

            ending.report, ending.say = told, display.say
            if rank == 0:
                provenance.write(output, arguments.argv, parts.identity())
            session = Session(
                parts=parts, output=output, saved=saved, parent=parent, stop=lambda: stop() or orphaned(),
                report=report, after=stop.saying(AFTER_TRAINING, ending.trained), journal=journal.write,
                lead=rank == 0, say=display.say,
                quality=stop.saying(AFTER_PROMPT, ending.during) if config.run.evaluate_every else None,
            )  # fmt: skip
            outcome = _run(parts, session, stop)
        if outcome is not None:
            _conclude(arguments.expected, output, journal, ending, session, outcome)
    return stop.exit_code if outcome is not None and (outcome.interrupted or ending.cut) else 0


def _run(parts: Parts, session: Session, stop: StopRequest) -> Outcome | None:
    try:
        return RUNNERS[parts.config.runtime](parts, session)
    except WorkerFailedError as error:
        # All were asked to stop, and one of them was before its first step: there it ended, and so do the others.
        if not (session.lead and session.begun) and not error.told:
            stop.require_none()
        raise


def _conclude(
    expected: Expected, output: Path, journal: Journal, ending: Finalizer, session: Session, outcome: Outcome
) -> None:
    judged = judge(outcome, expected)
    if ending.evaluation is not None:
        sampled = dataclasses.asdict(ending.sampled) if ending.sampled is not None else None
        journal.write("evaluation", {**dataclasses.asdict(ending.evaluation), "sampled": sampled})
    journal.write("end", {"step": outcome.step, "interrupted": outcome.interrupted, "verdict": [
        {"name": line.name, "met": line.met, "text": line.text} for line in judged
    ]})  # fmt: skip
    parts = session.parts
    facts = [("trained", parts.trained_on), *session.notes, ("output", str(output))]
    if ending.evaluation is not None:
        facts.insert(1, ("prompts", parts.evaluated_on))
    told = summary(outcome, (ending.evaluation, ending.sampled), judged, facts)
    try:
        write_result(told)
    except OutputError as error:
        # Nothing of the run is lost by it.
        say(f"note: {error.message}; what it would show is in {output}")


def _start(
    arguments: Arguments, output: Path, parts: Parts
) -> tuple[checkpoint.Saved | None, checkpoint.Saved | None, Parts]:
    """Return the checkpoint to resume, or the one to extend, and the parts with the stages before."""
    root = output / "checkpoints"
    if arguments.resume:
        saved = checkpoint.find(root)
        # The earlier run may have gone on or away since: what came before is in this one's own checkpoints.
        parts = parts.resuming(saved.state)
        checkpoint.require_same(saved.state["identity"], parts.identity(), root)
        require_own_best(output, saved.state["identity"])
        return saved, None, parts
    if checkpoint.steps(root):
        raise ConfigError(
            f"--output {output}: holds checkpoints of an earlier run", "go on with --resume, or give another folder"
        )
    require_own_best(output, None)
    if not arguments.config.run.extends:
        return None, None, parts
    folder = Path(arguments.config.run.extends)
    parent = parent_of(folder)
    parts = parts.speaking(parent.state)
    require_extendable(parent, parts.identity(), folder)
    return None, parent, dataclasses.replace(parts, ancestry=lineage(parent, folder))
