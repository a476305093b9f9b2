"""What a drafter is asked for: the text's token or the target's distribution, and how much each block position counts.

`loss.kind` "ce" is the cross entropy with the text's token (DFlash); "kl" is the divergence KL(target || drafter) from
the target's distribution after the token before, whose logits are made from its last hidden state.
`loss.positions` "decay" weighs offset k by exp(-(k - 1) / gamma). "dpace" weighs it by what the block still yields once
it is accepted (D-PACE, as in SpecForge's and speculators' trainers): with q the drafter's probability of the text's
token, s = (1 - alpha) * q + alpha and c_k = s_1 * .. * s_k over the counted positions,
    weight_k = c_k + c_(k+1) + .. + c_(K-1)
without a gradient, and the sum is divided by the number of counted positions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trainer.settings.sections import DrafterConfig, LossConfig
from trainer.step.loss import ChunkKernel, ChunkResult, chunk_loss, default_gamma


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The loss of a run."""

    loss: LossConfig
    width: int
    """K."""
    gamma: float
    """Decay of the fixed weights; infinite where they are all 1."""
    kept: torch.Tensor | None = None
    """int64 [V'], ascending: the target's tokens that the drafter can say; None for all."""
    vocabulary: int = 0
    """V, where not all are kept."""

    @classmethod
    def of(
        cls, loss: LossConfig, drafter: DrafterConfig, kept: torch.Tensor | None = None, vocabulary: int = 0
    ) -> "Objective":
        """Return the objective of a config; `kept` are those of the target's `vocabulary` that the drafter can say."""
        decays = loss.positions == "decay"
        gamma = (drafter.gamma or default_gamma(drafter.block)) if decays else math.inf
        return cls(loss=loss, width=drafter.block, gamma=gamma, kept=kept, vocabulary=vocabulary)

    @property
    def teacher(self) -> bool:
        """Whether the target's last hidden state is needed."""
        return self.loss.kind == "kl"

    def index(self) -> torch.Tensor | None:
        """Return int64 [V]: the place of each of the target's tokens among those kept, -1 for the others."""
        if self.kept is None:
            return None
        found = torch.full((self.vocabulary,), -1, dtype=torch.int64)
        found[self.kept] = torch.arange(len(self.kept))
        return found

    def kernel(self) -> ChunkKernel:
        """Return the function that makes loss and gradient of a chunk of logits; whole blocks a chunk for D-PACE."""
        if self.loss == LossConfig():
            return chunk_loss
        kl, alpha = self.teacher, self.loss.alpha if self.loss.positions == "dpace" else None
        predicted = self.width - 1

        def kernel(
            logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, teacher: torch.Tensor | None
        ) -> ChunkResult:
            wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
            log_normal = torch.logsumexp(wide, dim=-1, keepdim=True)
            entropy = (log_normal - wide.gather(-1, labels[:, None])).squeeze(-1)
            if alpha is not None:
                weights = dpace(torch.exp(-entropy), weights, predicted, alpha)
            probability = torch.exp(wide - log_normal)
            if kl and teacher is not None:
                told = teacher.to(wide.dtype)
                told = told - torch.logsumexp(told, dim=-1, keepdim=True)
                wanted = torch.exp(told)
                entropy = (wanted * (told - wide + log_normal)).sum(-1)
            else:
                wanted = (torch.arange(wide.shape[-1], device=wide.device) == labels[:, None]).to(wide.dtype)
            gradient = (probability - wanted) * weights[:, None]
            return (entropy * weights).sum(), gradient.to(logits.dtype), wide.argmax(-1)

        return kernel


def dpace(confidence: torch.Tensor, counted: torch.Tensor, predicted: int, alpha: float) -> torch.Tensor:
    """Return D-PACE's weights [R] for confidences [R] of whole blocks of `predicted` positions; `counted` is 0 or 1."""
    counted = counted.view(-1, predicted)
    smooth = (1.0 - alpha) * confidence.view(-1, predicted) + alpha
    prefix = torch.where(counted > 0, smooth, 1.0).cumprod(dim=-1) * counted
    suffix = prefix.flip(-1).cumsum(-1).flip(-1)
    return (suffix * counted).flatten().to(counted.dtype)


def choose_vocabulary(counts: Sequence[int], size: int, always: Sequence[int]) -> torch.Tensor:
    """Return the `size` most frequent tokens, int64 ascending, those of `always` among them; lower ids win ties."""
    order = sorted(range(len(counts)), key=lambda token: (token not in always, -counts[token], token))
    return torch.tensor(sorted(order[:size]), dtype=torch.int64)
