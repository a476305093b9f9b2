"""Evaluation while a run trains and after it, and the export: what a run leaves besides its checkpoints.

OUTPUT/drafter/           the export of the last step
OUTPUT/evaluation.json    how it does on held-out prompts (its `rows` says where none could be), at temperature 0 and 1
OUTPUT/best/              the export with the greatest acceptance length (temperature 0) while it trained, best.json
"""

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainer.assemble import Parts
from trainer.decoding.evaluate import Evaluation, SpeculativeDecoder, evaluate
from trainer.device import working_dtype
from trainer.drafter.model import Drafter
from trainer.errors import CheckpointError, ConfigError, memory_for
from trainer.saved.checkpoint import identity_digest
from trainer.saved.export import export, published_config, vocabulary_tensors
from trainer.target.model import Target
from trainer.writing import write_whole

TEMPERATURES = (0.0, 1.0)
QUIET_SECONDS = 10.0
"""After which an evaluation says that it goes on."""


@dataclass(slots=True, kw_only=True)
class Finalizer:
    """The parts of a run that look at its drafter."""

    parts: Parts
    output: Path
    stop: Callable[[], bool]
    """Asked before each prompt of an evaluation."""
    report: Callable[[str, Mapping[str, object]], None] = lambda _event, _values: None
    """Gets "evaluation" events while it trains."""
    say: Callable[[str], None] = lambda _words: None
    """Shows a person what is under way."""
    evaluation: Evaluation | None = None
    sampled: Evaluation | None = None
    """The same at temperature 1."""
    cut: bool = False
    """Whether a stop request left the evaluation out."""

    def during(self, step: int, drafter: Drafter, target: Target) -> None:
        """Evaluate the drafter as it is after `step`, and keep it if it is the best so far."""
        found = self._evaluate(drafter, target, f"the evaluation after step {step}")
        if found is not None and _writes(target):
            weights = {name: parameter.detach() for name, parameter in drafter.named_parameters()}
            self._judge(step, found, weights, target)

    def _judge(
        self, step: int, found: tuple[Evaluation, Evaluation], weights: dict[str, torch.Tensor], target: Target
    ) -> None:
        greedy, sampled = found
        told = {"step": step, **_told(greedy, whole=False), "sampled": _told(sampled, whole=False)}
        self.report("evaluation", told)
        best = self.output / "best"
        before = _best(best / "best.json")
        if before is None or greedy.acceptance_length > before["acceptance_length"]:
            self._export(best, weights, target)
            told["identity"] = identity_digest(self.parts.identity())
            write_whole(best / "best.json", json.dumps(told, indent=1) + "\n")

    def trained(self, masters: dict[str, torch.Tensor], target: Target) -> None:
        """Export these weights and, where asked for, evaluate them with `target`."""
        parts = self.parts
        if _writes(target):
            self._export(self.output / "drafter", masters, target)
        if parts.config.run.evaluate == 0:
            return
        drafter = Drafter(parts.shape).to(device=target.device, dtype=working_dtype(target.device))
        drafter.load_state_dict(masters)
        found = self._evaluate(drafter.eval(), target)
        if found is None:
            self.cut = True
            return
        self.evaluation, self.sampled = found
        if not _writes(target):
            return
        told = {
            **_told(found[0]), "held_out": len(parts.held_out), "rows": parts.evaluated_on, "sampled": _told(found[1]),
        }  # fmt: skip
        write_whole(self.output / "evaluation.json", json.dumps(told, indent=1) + "\n")
        run = parts.config.run
        if run.evaluate_every and run.steps % run.evaluate_every == 0:
            self._judge(run.steps, found, masters, target)

    def _evaluate(
        self, drafter: Drafter, target: Target, doing: str = "the closing evaluation"
    ) -> tuple[Evaluation, Evaluation] | None:
        parts, group, run = self.parts, target.group, self.parts.config.run
        began = spoke = time.monotonic()

        def asked() -> bool:
            nonlocal spoke
            if (now := time.monotonic()) - spoke > QUIET_SECONDS:
                spoke = now
                self.say(f"{doing}: decoding for {now - began:.0f} s (run.evaluate, run.evaluate_tokens)")
            return self.stop()

        # Those that hold a target together decode the same text in step: all of them, or none.
        stop = asked if group is None else group.asked(asked)
        decoder = SpeculativeDecoder(
            target, drafter, block=parts.config.drafter.block, mask_token=parts.mask_token,
            stop=parts.stop, kept=parts.kept,
        )  # fmt: skip
        found, prompts = [], parts.prompts()
        self.say(
            f"{doing}: {len(prompts)} prompts of up to {run.evaluate_tokens} new tokens, at temperature 0 and at 1"
        )
        for temperature in TEMPERATURES:
            hint = f"lower run.evaluate_positions (now {run.evaluate_positions}), then go on with --resume"
            with memory_for(doing, hint):
                made = evaluate(
                    decoder, prompts, run.evaluate_tokens, stop, temperature=temperature,
                    most=run.evaluate_positions,
                )  # fmt: skip
            if made is None:
                return None
            found.append(made)
        return found[0], found[1]

    def _export(self, place: Path, weights: dict[str, torch.Tensor], target: Target) -> None:
        parts, dtype = self.parts, working_dtype(target.device)
        described = published_config(
            parts.shape, block=parts.config.drafter.block, mask_token=parts.mask_token, layer_ids=parts.layer_ids,
            target=parts.target_config, dtype=dtype, kept=parts.kept,
        )  # fmt: skip
        export(place, {**weights, **vocabulary_tensors(parts.kept, target.shared.head)}, described, dtype)


def _writes(target: Target) -> bool:
    """Return whether this process writes what is found: of those that hold a target together, the first."""
    return target.group is None or target.group.place == 0


def _told(evaluation: Evaluation, *, whole: bool = True) -> dict[str, object]:
    told = {**dataclasses.asdict(evaluation), "speedup": evaluation.speedup}
    if not whole:
        # Of each prompt in evaluation.json alone: a log line goes to the trackers too.
        del told["by_prompt"]
    return told


def require_own_best(output: Path, identity: Mapping[str, object] | None) -> None:
    """Raise an error for the best drafter of another run in `output`: of any, where `identity` is None (a new run)."""
    place = output / "best"
    if identity is None and place.exists():
        raise ConfigError(
            f"--output {output}: holds best/ of an earlier run", f"remove {place}, or give another folder"
        )
    found = _best(place / "best.json")
    if found is not None and identity is not None and found.get("identity") != identity_digest(identity):
        raise CheckpointError(f"{place}: the best drafter of another run", "move it away: another one is kept there")


def _best(place: Path) -> dict[str, Any] | None:
    """Return what was written of the best drafter so far; None where there is none."""
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
        return {**found, "acceptance_length": float(found["acceptance_length"])}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{place}: {error}", f"remove {place.parent}: another one is kept there") from error
