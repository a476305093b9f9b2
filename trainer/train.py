"""One run from its arguments to its verdict."""

import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers.utils import logging as transformers_logging

from trainer import checkpoint
from trainer.arguments import Arguments
from trainer.assemble import Parts, assemble
from trainer.device import working_dtype
from trainer.display import Display, summary
from trainer.errors import ConfigError
from trainer.evaluate import Evaluation, SpeculativeDecoder, evaluate
from trainer.export import export, published_config
from trainer.metrics import Journal, Progress
from trainer.runtime import inline
from trainer.runtime.session import Session
from trainer.runtime.shutdown import StopRequest
from trainer.runtime.steps import DrafterStep
from trainer.target import Target


def train(arguments: Arguments) -> int:
    """Run to the end, to a stop request (exit 143 or 130 once saved) or to an error."""
    transformers_logging.disable_progress_bar()
    config = arguments.config
    output = arguments.output or Path("runs") / f"{config.profile}-{time.strftime('%Y%m%d-%H%M%S')}"
    if config.run.threads:
        torch.set_num_threads(config.run.threads)
    with Display(config.run.steps, 0, quiet=arguments.quiet) as display:
        parts = assemble(config)
        saved = _resume(arguments, output, parts)
        ending = _Ending(parts=parts, output=output, display=display)
        journal = Journal(output / "metrics.jsonl")
        journal.write("start", {"step": saved.step if saved else 0, "config": dataclasses.asdict(config)})

        def report(progress: Progress) -> None:
            journal.write("step", progress.line())
            display.progress(progress)

        with StopRequest() as stop:
            session = Session(parts=parts, output=output, saved=saved, stop=stop, report=report, after=ending.trained)
            outcome = inline.run(parts, session)
        if ending.evaluation is not None:
            journal.write("evaluation", dataclasses.asdict(ending.evaluation))
        journal.close()
    summary(outcome, ending.evaluation, [("output", str(output))])
    return stop.exit_code if outcome.interrupted else 0


def _resume(arguments: Arguments, output: Path, parts: Parts) -> checkpoint.Checkpoint | None:
    root = output / "checkpoints"
    if arguments.resume:
        if arguments.output is None:
            raise ConfigError("--resume: no folder to resume from", "give the run's folder with --output")
        saved = checkpoint.load(root)
        checkpoint.require_same(saved.identity, parts.identity(), root)
        return saved
    if checkpoint.steps(root):
        raise ConfigError(
            f"--output {output}: holds checkpoints of an earlier run", "go on with --resume, or give another folder"
        )
    return None


@dataclass(slots=True, kw_only=True)
class _Ending:
    """What follows training: the export, then decoding held-out prompts with it."""

    parts: Parts
    output: Path
    display: Display
    evaluation: Evaluation | None = None

    def trained(self, step: DrafterStep, target: Target) -> None:
        parts = self.parts
        dtype = working_dtype(target.device)
        described = published_config(
            parts.shape, block=parts.config.drafter.block, mask_token=parts.mask_token, layer_ids=parts.layer_ids,
            target=parts.target_config, dtype=dtype,
        )  # fmt: skip
        export(self.output / "drafter", step.parameters.masters(), described, dtype)
        if parts.config.run.evaluate == 0:
            return
        decoder = SpeculativeDecoder(
            target, step.model, block=parts.config.drafter.block, mask_token=parts.mask_token,
            stop=_stop_tokens(parts),
        )  # fmt: skip
        self.evaluation = evaluate(decoder, prompts(parts), parts.config.run.evaluate_tokens)
        found = json.dumps(dataclasses.asdict(self.evaluation), indent=1) + "\n"
        (self.output / "evaluation.json").write_text(found, encoding="utf-8")


def prompts(parts: Parts) -> list[list[int]]:
    """Return the held-out conversations up to where the assistant first speaks."""
    chosen = parts.held_out or tuple(range(min(parts.config.run.evaluate, len(parts.rows.lengths))))
    rows = [parts.rows[index] for index in chosen]
    return [list(row.ids[: list(row.wanted).index(1)]) for row in rows if 1 in row.wanted]


def _stop_tokens(parts: Parts) -> tuple[int, ...]:
    ends = parts.target_config.eos_token_id
    return tuple(ends) if isinstance(ends, list | tuple) else (() if ends is None else (int(ends),))
