"""The DFlash loss: weighted cross-entropy of every block position, without a full logits tensor.

Offset k of block j predicts ids[anchors[j] + k]. Its weight is
    present * in range * (k > 0) * loss_mask[anchors[j] + k] * exp(-(k - 1) / gamma)
(gamma 7 at width 16 and 4 at width 8 in the paper's setting, by way of Model-Optimizer's description), and
loss = sum(weight * CE) / sum(weight), pooled over every micro-batch and drafter of an optimizer step.

The LM head is frozen, so the gradient of the hidden states is all the backward needs: both are computed chunk
by chunk in the forward. That is one matmul forward and one for the gradient, with nothing recomputed; a
checkpointed objective runs the forward one twice.
Shapes: B rows, N blocks, K width, R = B*N*(K-1) predicted positions, H hidden, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from trainer.drafter.mask import BlockShape
from trainer.fp8 import Narrow, product, quantise

ChunkResult = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
ChunkKernel = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None], ChunkResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What each block position must predict, position 0 (the anchor itself) left out."""

    labels: torch.Tensor
    """int64 [B, N, K-1]."""
    weights: torch.Tensor
    """float32 [B, N, K-1]; 0 where there is nothing to predict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossParts:
    """Sums over one micro-batch; dividing is the optimizer step's business."""

    loss_sum: torch.Tensor
    """sum(weight * CE), a scalar with the graph behind it."""
    correct: torch.Tensor
    """Positions predicted right, float32 [K-1], counted where the weight is positive."""
    counted: torch.Tensor
    """Positions with a positive weight, float32 [K-1]."""
    run_length: torch.Tensor
    """Sum over blocks of how many leading positions are all right: a simulated count of accepted tokens."""
    blocks: torch.Tensor
    """Blocks with at least one counted position."""


def decay(width: int, gamma: float, device: torch.device | None = None) -> torch.Tensor:
    """Return exp(-(k - 1) / gamma) for k = 1..K-1, float32."""
    return torch.exp(-torch.arange(width - 1, dtype=torch.float32, device=device) / gamma)


def default_gamma(width: int) -> float:
    """Return the line through the two published points: 4 at width 8, 7 at width 16."""
    return max(1.0, 4.0 + (width - 8) * 3.0 / 8.0)


def targets(
    ids: torch.Tensor,
    loss_mask: torch.Tensor,
    anchors: torch.Tensor,
    shape: BlockShape,
    gamma: float,
    *,
    ends: torch.Tensor | None = None,
    index: torch.Tensor | None = None,
) -> Targets:
    """Return labels and weights for ids and loss_mask [B, S] and anchors [B, N].

    Of packed rows `ends` [B, N] is where the document of each anchor ends: nothing is predicted past it. `index` [V]
    says which place a token has among those that the drafter can say; one with -1 is not a label and has no weight.
    """
    offset = torch.arange(1, shape.width, device=ids.device)
    place = anchors.clamp(min=0)[:, :, None] + offset
    inside = (place < (shape.context if ends is None else ends[:, :, None])) & (anchors >= 0)[:, :, None]
    flat = place.clamp(max=shape.context - 1).flatten(1)
    labels = ids.gather(1, flat).view_as(place)
    wanted = loss_mask.gather(1, flat).view_as(place).to(torch.float32) * inside
    if index is not None:
        labels = index[labels]
        wanted, labels = wanted * (labels >= 0), labels.clamp(min=0)
    return Targets(labels=labels, weights=wanted * decay(shape.width, gamma, ids.device))


def chunk_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    weights: torch.Tensor,
    teacher: torch.Tensor | None = None,  # noqa: ARG001 - other objectives need it
) -> ChunkResult:
    """Return (weighted CE sum, its gradient by the logits, the argmax) for logits [R, V].

    Written so that a compiler makes one pass for the reductions and one for the gradient.
    """
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    normaliser = torch.logsumexp(wide, dim=-1)
    picked = wide.gather(-1, labels[:, None]).squeeze(-1)
    total = ((normaliser - picked) * weights).sum()
    hit = torch.arange(wide.shape[-1], device=wide.device) == labels[:, None]
    probability = torch.exp(wide - normaliser[:, None])
    gradient = (probability - hit.to(wide.dtype)) * weights[:, None]
    return total, gradient.to(logits.dtype), wide.argmax(-1)


class _FrozenHeadLoss(torch.autograd.Function):
    """Weighted CE through a frozen head: the hidden states' gradient is made in the forward."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        hidden: torch.Tensor,
        head: torch.Tensor,
        labels: torch.Tensor,
        weights: torch.Tensor,
        how: tuple[int, ChunkKernel, Narrow | None],
        teacher: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        chunk, kernel, narrow = how
        wide = torch.promote_types(hidden.dtype, torch.float32)
        total = torch.zeros((), dtype=wide, device=hidden.device)
        gradient = torch.empty_like(hidden)
        predicted = torch.empty_like(labels)
        for start in range(0, hidden.shape[0], chunk):
            part = slice(start, start + chunk)
            if narrow is None:
                logits = hidden[part] @ head.t()
            else:
                logits = product(*quantise(hidden[part]), *narrow, hidden.dtype)
            told = None if teacher is None else teacher[part] @ head.t()
            loss, by_logits, best = kernel(logits, labels[part], weights[part], told)
            total += loss
            predicted[part] = best
            torch.matmul(by_logits, head, out=gradient[part])
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(predicted)
        return total, predicted

    @staticmethod
    @once_differentiable
    def backward(
        ctx: torch.autograd.function.FunctionCtx, by_total: torch.Tensor, _by_predicted: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * by_total.to(gradient.dtype), None, None, None, None, None


def chunk_rows(rows: int, limit: int) -> int:
    """Return the chunk size that splits `rows` into the fewest chunks of at most `limit`, evenly.

    Equal chunks mean one shape to compile; the last rows are padded up to it.
    """
    chunks = -(-rows // limit)
    return -(-rows // chunks)


def block_loss(
    hidden: torch.Tensor,
    head: torch.Tensor,
    wanted: Targets,
    *,
    chunk: int = 4096,
    kernel: ChunkKernel = chunk_loss,
    teacher: torch.Tensor | None = None,
    narrow: Narrow | None = None,
) -> LossParts:
    """Return the loss parts for drafter output [B, Q, H] and the head's weight [V, H].

    `chunk` bounds the rows of logits that exist at a time: whole blocks, at least one. `kernel` is chunk_loss, another
    objective's, or a compiled form. `teacher` [B * N * (K-1), H] are the target's states for these positions. With
    `narrow`, the head in fp8, the drafter's logits are an fp8 product; the teacher's and the states' gradient are not.
    """
    rows, blocks, predicted_width = wanted.labels.shape
    states = hidden.unflatten(1, (blocks, predicted_width + 1))[:, :, 1:].reshape(-1, hidden.shape[-1])
    size = chunk_rows(rows * blocks, max(1, chunk // predicted_width)) * predicted_width
    extra = -states.shape[0] % size
    labels, weights = wanted.labels.flatten(), wanted.weights.flatten()
    if extra:
        states, labels, weights = pad(states, (0, 0, 0, extra)), pad(labels, (0, extra)), pad(weights, (0, extra))
        teacher = None if teacher is None else pad(teacher, (0, 0, 0, extra))
    total, predicted = _FrozenHeadLoss.apply(states, head, labels, weights, (size, kernel, narrow), teacher)
    count = rows * blocks * predicted_width
    right = (predicted[:count] == labels[:count]).view(-1, predicted_width)
    return _parts(total, right, wanted.weights.view(-1, predicted_width) > 0)


def _parts(total: torch.Tensor, right: torch.Tensor, counted: torch.Tensor) -> LossParts:
    right = right & counted
    leading = right.to(torch.float32).cumprod(dim=1).sum()
    return LossParts(
        loss_sum=total,
        correct=right.sum(0, dtype=torch.float32),
        counted=counted.sum(0, dtype=torch.float32),
        run_length=leading,
        blocks=counted.any(1).sum(dtype=torch.float32),
    )
