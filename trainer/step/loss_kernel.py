"""The cross entropy of a chunk of logits in one Triton kernel: its gradient takes the place of the logits.

A program has one row and goes over it twice: once for the normaliser, then, mostly from the cache, for the gradient.
"""

# ruff: noqa: ANN001, ANN202 - triton reads the annotations of a kernel

import torch
import triton
import triton.language as tl

from trainer.step.loss import ChunkResult

BLOCK, WARPS = 4096, 8


def chunk_loss_in_place(
    logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, teacher: torch.Tensor | None = None
) -> ChunkResult:
    """Return what chunk_loss returns for logits [R, V], contiguous; the gradient is in their memory."""
    del teacher
    rows, columns = logits.shape
    losses = torch.empty_like(weights)
    best = torch.empty_like(labels)
    with torch.cuda.device_of(logits):
        _cross_entropy[(rows,)](logits, labels, weights, losses, best, columns, BLOCK=BLOCK, num_warps=WARPS)
    return losses.sum(), logits, best


@triton.jit
def _cross_entropy(logits, labels, weights, losses, best, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803 - triton's way
    row = tl.program_id(0).to(tl.int64)
    logits += row * columns
    label = tl.load(labels + row)
    weight = tl.load(weights + row)
    # Before the first loop, whose reductions all threads meet in: the second loop overwrites it.
    picked = tl.load(logits + label).to(tl.float32)
    lane = tl.arange(0, BLOCK)
    peak = float("-inf")
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        value = tl.load(logits + start + lane, mask=start + lane < columns, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, tl.max(value, axis=0))
        total = total * tl.exp(peak - higher) + tl.exp(value - higher)
        peak = higher
    normaliser = peak + tl.log(tl.sum(total, axis=0))
    first = tl.full([BLOCK], columns, dtype=tl.int32)
    for start in range(0, columns, BLOCK):
        place = start + lane
        value = tl.load(logits + place, mask=place < columns, other=float("-inf")).to(tl.float32)
        first = tl.minimum(first, tl.where(value == peak, place, columns))
        gradient = (tl.exp(value - normaliser) - tl.where(place == label, 1.0, 0.0)) * weight
        tl.store(logits + place, gradient.to(logits.dtype.element_ty), mask=place < columns)
    tl.store(losses + row, (normaliser - picked) * weight)
    tl.store(best + row, tl.min(first, axis=0).to(tl.int64))
