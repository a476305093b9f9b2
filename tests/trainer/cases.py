"""Random small problems for the property tests, and the edges that random draws may miss."""

from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from trainer.drafter.mask import BlockShape
from trainer.drafter.model import Drafter, DrafterShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One row of everything."""

    shape: BlockShape
    ids: list[int]
    loss_mask: list[bool]
    anchors: list[int]
    seed: int

    @property
    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """ids, loss_mask and anchors as a batch of one."""
        return torch.tensor([self.ids]), torch.tensor([self.loss_mask]), torch.tensor([self.anchors])


VOCABULARY = 11


@st.composite
def problems(draw: st.DrawFn, most: int = 12) -> Problem:
    """Draw a row: any context, any blocks, anchors anywhere a position is left, absent ones at the end."""
    context = draw(st.integers(2, most))
    blocks, width = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    present = draw(st.lists(st.integers(0, context - 1), max_size=blocks, unique=True))
    return Problem(
        shape=BlockShape(context=context, blocks=blocks, width=width),
        ids=draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=context, max_size=context)),
        loss_mask=draw(st.lists(st.booleans(), min_size=context, max_size=context)),
        anchors=sorted(present) + [-1] * (blocks - len(present)),
        seed=draw(st.integers(0, 1000)),
    )


def edge(context: int, anchors: list[int], width: int) -> Problem:
    """Return a problem with these anchors, every position spoken by the assistant."""
    return Problem(
        shape=BlockShape(context=context, blocks=len(anchors), width=width),
        ids=[(3 * i + 1) % VOCABULARY for i in range(context)],
        loss_mask=[True] * context,
        anchors=anchors,
        seed=7,
    )


EDGES = {
    "anchor at 0": edge(6, [0, 3], 3),
    "anchor at the last position": edge(6, [2, 5], 3),
    "fewer anchors than blocks": edge(6, [1, -1, -1], 4),
    "no anchor at all": edge(5, [-1, -1], 3),
    "block reaches past the end": edge(4, [2], 5),
    "every position an anchor": edge(4, [0, 1, 2, 3], 2),
}

SHAPE = DrafterShape(
    hidden=8, layers=2, heads=4, key_value_heads=2, head_dim=4, intermediate=12, features=2, rope_theta=100.0
)


def small_drafter(seed: int, shape: DrafterShape = SHAPE) -> Drafter:
    """Return a float64 drafter with all weights, norms included, drawn wide enough to matter."""
    model = Drafter(shape).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(drawn * 0.4 if parameter.dim() > 1 else 1 + 0.2 * drawn)
    return model


def drawn(seed: int, *sizes: int) -> torch.Tensor:
    """Return a float64 normal tensor."""
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
