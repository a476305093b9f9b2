"""Every bucket's step once, before anything counts: what is compiled then is not compiled later."""

import torch

from trainer.data.loader import BatchMaker
from trainer.runtime.steps import DrafterStep, TargetStep


def warm_target(step: TargetStep, maker: BatchMaker, buckets: tuple[int, ...]) -> None:
    """Run the target over every bucket."""
    for length in buckets:
        step.run(maker.blank(length).to(step.target.device))


def warm_drafter(step: DrafterStep, maker: BatchMaker, buckets: tuple[int, ...]) -> None:
    """Run the drafter forward and backward over every bucket, on zero features, and forget the gradients."""
    for length in buckets:
        batch = maker.blank(length).to(step.device)
        features = torch.zeros(*batch.ids.shape, step.width, dtype=step.shared.embedding.dtype, device=step.device)
        step.run(batch, features)
    step.parameters.discard()
