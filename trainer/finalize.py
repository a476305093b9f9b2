"""What follows training: the export, then decoding held-out prompts with it, as table and JSON."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from trainer.assemble import Parts
from trainer.device import working_dtype
from trainer.evaluate import Evaluation, SpeculativeDecoder, evaluate
from trainer.export import export, published_config
from trainer.target import Target


@dataclass(slots=True, kw_only=True)
class Finalizer:
    """The last part of a run."""

    parts: Parts
    output: Path
    stop: Callable[[], bool]
    """Asked before each prompt of the evaluation."""
    evaluation: Evaluation | None = None
    cut: bool = False
    """Whether a stop request left the evaluation out."""

    def trained(self, masters: dict[str, torch.Tensor], target: Target) -> None:
        """Export these weights and, where asked for, evaluate them with `target`."""
        parts = self.parts
        dtype = working_dtype(target.device)
        described = published_config(
            parts.shape, block=parts.config.drafter.block, mask_token=parts.mask_token, layer_ids=parts.layer_ids,
            target=parts.target_config, dtype=dtype,
        )  # fmt: skip
        export(self.output / "drafter", masters, described, dtype)
        if parts.config.run.evaluate == 0:
            return
        drafter = parts.drafter(target.device)
        drafter.load_state_dict(masters)
        decoder = SpeculativeDecoder(
            target,
            drafter.eval(),
            block=parts.config.drafter.block,
            mask_token=parts.mask_token,
            stop=stop_tokens(parts),
        )
        found = evaluate(decoder, parts.prompts(), parts.config.run.evaluate_tokens, self.stop)
        if found is None:
            self.cut = True
            return
        self.evaluation = found
        told = json.dumps(dataclasses.asdict(self.evaluation), indent=1) + "\n"
        (self.output / "evaluation.json").write_text(told, encoding="utf-8")


def stop_tokens(parts: Parts) -> tuple[int, ...]:
    """Return the tokens that end the target's text."""
    ends = parts.target_config.eos_token_id
    if ends is None:
        return ()
    return tuple(ends) if isinstance(ends, list | tuple) else (int(ends),)
