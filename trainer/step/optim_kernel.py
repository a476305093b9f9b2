"""AdamW of a whole flat buffer in one Triton kernel: each value is read once and written once."""

# ruff: noqa: ANN001, ANN202 - triton reads the annotations of a kernel

import torch
import triton
import triton.language as tl

from trainer.step.optim import Update

_BLOCK = 2048


def apply(
    master: torch.Tensor,
    working: torch.Tensor,
    gradient: torch.Tensor,
    mean: torch.Tensor,
    square: torch.Tensor,
    divisor: torch.Tensor,
    update: Update,
) -> None:
    """Make one update of a group in place; `divisor` stays on the device."""
    size = master.numel()
    first, second = update.betas
    with torch.cuda.device_of(master):
        _adamw[(triton.cdiv(size, _BLOCK),)](
            master, working, gradient, mean, square, divisor, update.shrink, update.size, update.root,
            1.0 - first, second, 1.0 - second, update.epsilon, size, BLOCK=_BLOCK, num_warps=8,
        )  # fmt: skip


@triton.jit
def _adamw(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917 - a kernel has no objects
    master, working, gradient, mean, square, divisor, shrink, step, root, fresh, second, fresh_square, epsilon, size,
    BLOCK: tl.constexpr,  # noqa: N803 - triton's way
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    given = tl.load(gradient + place, mask=inside) / tl.load(divisor)
    held = tl.load(mean + place, mask=inside)
    held += (given - held) * fresh
    spread = tl.load(square + place, mask=inside) * second + given * given * fresh_square
    weight = tl.load(master + place, mask=inside) * shrink
    weight -= step * held / (tl.sqrt(spread) / root + epsilon)
    tl.store(mean + place, held, mask=inside)
    tl.store(square + place, spread, mask=inside)
    tl.store(master + place, weight, mask=inside)
    tl.store(working + place, weight.to(working.dtype.element_ty), mask=inside)
