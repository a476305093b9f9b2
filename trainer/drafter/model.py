"""The DFlash drafter: N Qwen3-style layers whose keys and values come from [target features ; block].

Parameter names are the published ones (z-lab/dflash, SpecForge, speculators), so an export needs no renaming.
There is no embedding and no LM head here: the target's frozen ones are used.
Shapes: B rows, S context, Q = N*K queries, H hidden, F = number of selected target layers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import silu
from torch.utils.checkpoint import checkpoint

from trainer.compile.private_code import private
from trainer.drafter.attention import AttentionMask, attend
from trainer.errors import TargetModelError
from trainer.fp8 import Float8TrainedLinear, copy_shell, multiply_together, replace_linears

Rotary = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Masks:
    """The masks of one batch, one a kind of layer."""

    full: AttentionMask
    sliding: AttentionMask | None = None
    """None where no layer slides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterShape:
    """Sizes of a drafter; hidden and vocabulary are the target's."""

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head_dim: int
    intermediate: int
    features: int
    """F, how many target layers are concatenated."""
    epsilon: float = 1e-6
    rope_theta: float = 10_000.0
    sliding: tuple[int, ...] = ()
    """Layers that attend within `window`, counted from 0."""
    window: int = 0
    """Positions a sliding layer's query sees, itself included."""


class RMSNorm(nn.Module):
    """Root-mean-square norm with a weight, computed in at least fp32."""

    def __init__(self, size: int, epsilon: float) -> None:
        """Start as the identity scale."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the normed hidden in its own dtype."""
        wide = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return self.weight * normed.to(hidden.dtype)


def rotary(positions: torch.Tensor, inverse_frequency: torch.Tensor, dtype: torch.dtype) -> Rotary:
    """Return cos and sin [B, KV, head_dim] of RoPE at these positions, computed in at least fp32."""
    angles = positions[:, :, None].to(inverse_frequency.dtype) * inverse_frequency
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(states: torch.Tensor, angles: Rotary) -> torch.Tensor:
    """Apply RoPE to [B, heads, L, head_dim] with cos and sin [B, L, head_dim]."""
    cos, sin = angles
    first, second = states.chunk(2, dim=-1)
    return states * cos[:, None] + torch.cat([-second, first], dim=-1) * sin[:, None]


class Attention(nn.Module):
    """Queries from the block; keys and values from the context and the block."""

    def __init__(self, shape: DrafterShape) -> None:
        """Allocate the four projections and the two per-head norms."""
        super().__init__()
        self.head_dim = shape.head_dim
        wide, narrow = shape.heads * shape.head_dim, shape.key_value_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, wide, bias=False)
        self.k_proj = nn.Linear(shape.hidden, narrow, bias=False)
        self.v_proj = nn.Linear(shape.hidden, narrow, bias=False)
        self.o_proj = nn.Linear(wide, shape.hidden, bias=False)
        self.q_norm = RMSNorm(shape.head_dim, shape.epsilon)
        self.k_norm = RMSNorm(shape.head_dim, shape.epsilon)

    def forward(
        self, block: torch.Tensor, context: torch.Tensor, angles: Rotary, mask: AttentionMask, *, small_tiles: bool
    ) -> torch.Tensor:
        """Return [B, Q, H] from block [B, Q, H] and context [B, S, H]; angles cover S + Q positions."""
        queries = block.shape[1]
        both = torch.cat([context, block], dim=1)
        query = self.q_norm(self._heads(self.q_proj(block))).transpose(1, 2)
        # One product of twice the width is faster than two narrow ones, forward and backward.
        keys, values = multiply_together(both, self.k_proj, self.v_proj).chunk(2, dim=-1)
        key = self.k_norm(self._heads(keys)).transpose(1, 2)
        value = self._heads(values).transpose(1, 2)
        cos, sin = angles
        query = rotate(query, (cos[:, -queries:], sin[:, -queries:]))
        output = attend(query, rotate(key, angles), value, mask, small_tiles=small_tiles)
        return self.o_proj(output.transpose(1, 2).flatten(2))

    def _heads(self, states: torch.Tensor) -> torch.Tensor:
        return states.unflatten(-1, (-1, self.head_dim))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: DrafterShape) -> None:
        """Allocate gate, up and down."""
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return [.., H]."""
        return self.down_proj(silu(self.gate_proj(hidden)) * self.up_proj(hidden))


class DrafterLayer(nn.Module):
    """Pre-norm attention and feed-forward, each with its residual."""

    def __init__(self, shape: DrafterShape) -> None:
        """Allocate the layer."""
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = FeedForward(shape)
        self.input_layernorm = RMSNorm(shape.hidden, shape.epsilon)
        self.post_attention_layernorm = RMSNorm(shape.hidden, shape.epsilon)

    def forward(
        self,
        block: torch.Tensor,
        context: torch.Tensor,
        angles: Rotary,
        mask: AttentionMask,
        small_tiles: bool = False,  # noqa: FBT001, FBT002 - checkpoint() passes positions only
    ) -> torch.Tensor:
        """Return the block's hidden states [B, Q, H] after this layer; the context goes in as it came."""
        attended = self.self_attn(self.input_layernorm(block), context, angles, mask, small_tiles=small_tiles)
        block = block + attended
        return block + self.mlp(self.post_attention_layernorm(block))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Regions:
    """The three kinds of region that are compiled apart, or not at all."""

    project: Callable[..., torch.Tensor]
    layers: tuple[Callable[..., torch.Tensor], ...]
    finish: Callable[..., torch.Tensor]


class Drafter(nn.Module):
    """Projects the target's features, then denoises all blocks of a batch at once."""

    def __init__(self, shape: DrafterShape) -> None:
        """Allocate uninitialised layers; call `reset` to draw the weights from a seed."""
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(shape.features * shape.hidden, shape.hidden, bias=False)
        self.hidden_norm = RMSNorm(shape.hidden, shape.epsilon)
        self.layers = nn.ModuleList(DrafterLayer(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.epsilon)
        self.recompute = False
        """Whether each layer's activations are recomputed in the backward (torch.utils.checkpoint)."""
        self.small_tiles = False
        self._compiled: _Regions | None = None

    def reset(self, seed: int, deviation: float = 0.02) -> None:
        """Draw every matrix from a generator of this seed, independent of any process-global state."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in sorted(self.named_parameters()):
                if parameter.dim() == 1:
                    parameter.fill_(1.0)
                elif "norm" not in name:
                    drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float32) * deviation
                    parameter.copy_(drawn)

    def compile_layers(self, backend: str, *, fp8: bool = False) -> None:
        """Compile one layer, the feature projection and the last norm; every layer reuses the first one's code.

        A region a layer compiles in a fifth of the time of the whole model. fullgraph makes a graph break an
        error here, so that no part can fall back to eager unseen. The code is this drafter's own (see private_code).
        With `fp8` the large linear layers of the compiled regions are fp8 products; `eager` stays as it is.
        """
        own = self._in_fp8() if fp8 else self
        options = {"fullgraph": True, "dynamic": False, "backend": backend}
        project, finish, *layers = (
            torch.compile(function, **options)
            for function in private([own.project, own.norm.forward, *(layer.forward for layer in own.layers)])
        )
        self._compiled = _Regions(project=project, layers=tuple(layers), finish=finish)

    def _in_fp8(self) -> "Drafter":
        own = copy_shell(self)
        replace_linears(own, Float8TrainedLinear)
        return own

    def inverse_frequency(self, device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return RoPE's inverse frequencies [head_dim / 2]."""
        exponent = torch.arange(0, self.shape.head_dim, 2, device=device, dtype=dtype) / self.shape.head_dim
        return 1.0 / (self.shape.rope_theta**exponent)

    def forward(
        self, features: torch.Tensor, block: torch.Tensor, positions: torch.Tensor, masks: Masks
    ) -> torch.Tensor:
        """Return hidden states [B, Q, H] ready for the target's LM head.

        features [B, S, F*H] from the target, block [B, Q, H] the embedded noise tokens, positions [B, S+Q].
        """
        return self._forward(self._compiled or self._eager_regions(), features, block, positions, masks)

    def eager(self, features: torch.Tensor, block: torch.Tensor, positions: torch.Tensor, masks: Masks) -> torch.Tensor:
        """Return the same without compiled code: decoding's shapes change with every token."""
        return self._forward(self._eager_regions(), features, block, positions, masks)

    def _forward(
        self,
        regions: "_Regions",
        features: torch.Tensor,
        block: torch.Tensor,
        positions: torch.Tensor,
        masks: Masks,
    ) -> torch.Tensor:
        self._check(features, block, positions)
        wide = torch.promote_types(block.dtype, torch.float32)
        angles = rotary(positions, self.inverse_frequency(block.device, wide), block.dtype)
        context = regions.project(features)
        for place, run in enumerate(regions.layers):
            mask = masks.sliding if place in self.shape.sliding else masks.full
            arguments = (block, context, angles, mask, self.small_tiles)
            block = checkpoint(run, *arguments, use_reentrant=False) if self.recompute else run(*arguments)
        return regions.finish(block)

    def _eager_regions(self) -> "_Regions":
        return _Regions(
            project=self.project, layers=tuple(layer.forward for layer in self.layers), finish=self.norm.forward
        )

    def project(self, features: torch.Tensor) -> torch.Tensor:
        """Return the context [B, S, H] of the target's features [B, S, F*H]."""
        return self.hidden_norm(self.fc(features))

    def _check(self, features: torch.Tensor, block: torch.Tensor, positions: torch.Tensor) -> None:
        wanted = self.shape.features * self.shape.hidden
        if features.dim() != 3 or features.shape[-1] != wanted:
            raise TargetModelError(
                f"target features have shape {list(features.shape)}; the drafter takes [rows, positions, {wanted}]"
                f" ({self.shape.features} layers x hidden {self.shape.hidden} on the last axis)",
                "concatenate the selected layers on the last axis instead of stacking them",
            )
        if positions.shape[1] != features.shape[1] + block.shape[1]:
            raise TargetModelError(
                f"{positions.shape[1]} positions for {features.shape[1]} context and {block.shape[1]} block tokens"
            )
