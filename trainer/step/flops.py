"""Useful floating-point operations of a micro-batch: what MFU counts.

A multiply-add is two. Recomputed activations, padding, absent blocks and masked scores are work done, not work counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

from trainer.drafter.model import DrafterShape
from trainer.fp8 import Float8Linear


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCost:
    """The parts of the target that run: the layers up to the last selected one, no head."""

    matrix_elements: int
    """Weights of the linear layers that every token meets."""
    attention_width: int
    """Layers x heads x head_dim."""

    def forward(self, lengths: Iterable[int]) -> float:
        """Return the FLOPs of the features of rows with these real lengths under causal attention."""
        return sum(
            2.0 * length * self.matrix_elements + 2.0 * length * length * self.attention_width for length in lengths
        )


def target_cost(layers: nn.ModuleList, config: object) -> TargetCost:
    """Return the cost of these decoder layers; a mixture of experts is counted as if all experts ran."""
    elements = sum(
        module.weight.numel()
        for layer in layers
        for module in layer.modules()
        if isinstance(module, nn.Linear | Float8Linear)
    )
    heads = int(getattr(config, "num_attention_heads", 0))
    width = int(getattr(config, "head_dim", 0) or getattr(config, "hidden_size", 0) // max(heads, 1))
    return TargetCost(matrix_elements=elements, attention_width=len(layers) * heads * width)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWork:
    """What of a micro-batch is work: padding and absent blocks are left out."""

    lengths: tuple[int, ...]
    """Real tokens of each row."""
    blocks: int
    """Blocks present over all rows."""
    width: int
    """K."""
    visible: int
    """Visible query-key pairs of a full layer."""
    sliding: int = 0
    """Visible pairs of a sliding layer."""


def drafter_step(shape: DrafterShape, work: BatchWork, vocabulary: int, *, teacher: bool = False) -> float:
    """Return the FLOPs of one forward and backward of the drafter, the frozen head included.

    `teacher` is for a loss that needs the target's own logits: one more product with the head.
    """
    wide, narrow = shape.heads * shape.head_dim, shape.key_value_heads * shape.head_dim
    context, queries = sum(work.lengths), work.blocks * work.width
    # Forward, gradient of the input, gradient of the weight: 6 a weight and token; features are frozen: 4.
    project = 4.0 * context * shape.features * shape.hidden * shape.hidden
    each_query = 2 * shape.hidden * wide + 2 * shape.hidden * narrow + 3 * shape.hidden * shape.intermediate
    layers = 6.0 * shape.layers * (queries * each_query + context * 2 * shape.hidden * narrow)
    # The first layer's queries come from frozen embeddings.
    layers -= 2.0 * queries * shape.hidden * wide
    # Two products forward, four backward, each 2 a visible pair and channel; the fifth is the scores once more.
    sliding = len(shape.sliding)
    attention = 12.0 * wide * (work.visible * (shape.layers - sliding) + work.sliding * sliding)
    head = (6.0 if teacher else 4.0) * work.blocks * (work.width - 1) * shape.hidden * vocabulary
    return project + layers + attention + head
