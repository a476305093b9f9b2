"""DFlash drafter for `AutoModel.from_pretrained(FOLDER, trust_remote_code=True)`; exported beside the weights.

It needs torch and transformers alone. The embedding and the LM head are the target's: embed the block's tokens with the
target's embedding, and multiply what this returns by the target's head. A drafter with a reduced vocabulary has its own
head, `lm_head`, whose token t is the target's t + d2t[t].
Shapes: B rows, S context positions, K block positions, H hidden, F selected target layers.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu
from transformers import PreTrainedModel, Qwen3Config


class DFlashNorm(nn.Module):
    """Root-mean-square norm with a weight, computed in fp32."""

    def __init__(self, size: int, epsilon: float) -> None:
        """Start as the identity scale."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the normed hidden in its own dtype."""
        wide = hidden.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return self.weight * normed.to(hidden.dtype)


class DFlashAttention(nn.Module):
    """Queries from the block; keys and values from the context and the block."""

    def __init__(self, config: Any, window: int) -> None:
        """Allocate the projections; `window` 0 is a full layer."""
        super().__init__()
        self.head_dim, self.window = config.head_dim, window
        wide, narrow = config.num_attention_heads * self.head_dim, config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, wide, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, narrow, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, narrow, bias=False)
        self.o_proj = nn.Linear(wide, config.hidden_size, bias=False)
        self.q_norm = DFlashNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = DFlashNorm(self.head_dim, config.rms_norm_eps)

    def forward(
        self, block: torch.Tensor, context: torch.Tensor, angles: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """Return [B, K, H]; angles [2, B, S + K, head_dim] are cos and sin of all positions [B, S + K]."""
        both = torch.cat([context, block], dim=1)
        query = self.q_norm(self.q_proj(block).unflatten(-1, (-1, self.head_dim))).transpose(1, 2)
        key = self.k_norm(self.k_proj(both).unflatten(-1, (-1, self.head_dim))).transpose(1, 2)
        value = self.v_proj(both).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        length = block.shape[1]
        query, key = _rotate(query, angles[:, :, -length:]), _rotate(key, angles)
        repeat = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeat, dim=1), value.repeat_interleave(repeat, dim=1)
        mask = None
        if self.window:
            behind = positions[:, -length:, None] - positions[:, None, :]
            mask = ((behind >= 0) & (behind < self.window))[:, None]
        attended = scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.o_proj(attended.transpose(1, 2).flatten(2))


class DFlashMLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: Any) -> None:
        """Allocate gate, up and down."""
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return [.., H]."""
        return self.down_proj(silu(self.gate_proj(hidden)) * self.up_proj(hidden))


class DFlashLayer(nn.Module):
    """Pre-norm attention and feed-forward, each with its residual."""

    def __init__(self, config: Any, window: int) -> None:
        """Allocate the layer."""
        super().__init__()
        self.self_attn = DFlashAttention(config, window)
        self.mlp = DFlashMLP(config)
        self.input_layernorm = DFlashNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = DFlashNorm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, block: torch.Tensor, context: torch.Tensor, angles: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """Return the block's hidden states after this layer; the context goes in as it came."""
        block = block + self.self_attn(self.input_layernorm(block), context, angles, positions)
        return block + self.mlp(self.post_attention_layernorm(block))


class DFlashDraftModel(PreTrainedModel):
    """Denoises one block a row."""

    config_class = Qwen3Config
    base_model_prefix = "model"
    _no_split_modules = ("DFlashLayer",)

    def __init__(self, config: Any) -> None:
        """Allocate the drafter of config.json."""
        super().__init__(config)
        features = len(config.dflash_config["target_layer_ids"])
        self.fc = nn.Linear(features * config.hidden_size, config.hidden_size, bias=False)
        self.hidden_norm = DFlashNorm(config.hidden_size, config.rms_norm_eps)
        windows = [config.sliding_window if kind == "sliding_attention" else 0 for kind in config.layer_types]
        self.layers = nn.ModuleList(DFlashLayer(config, window) for window in windows)
        self.norm = DFlashNorm(config.hidden_size, config.rms_norm_eps)
        reduced = getattr(config, "draft_vocab_size", None)
        if reduced:
            self.lm_head = nn.Linear(config.hidden_size, reduced, bias=False)
            self.register_buffer("d2t", torch.zeros(reduced, dtype=torch.int64))
            self.register_buffer("t2d", torch.zeros(config.vocab_size, dtype=torch.bool))
        self.post_init()

    def forward(
        self, position_ids: torch.Tensor, noise_embedding: torch.Tensor, target_hidden: torch.Tensor
    ) -> torch.Tensor:
        """Return hidden states [B, K, H] for the target's LM head.

        target_hidden [B, S, F*H] holds the outputs of the selected target layers for the context, concatenated;
        noise_embedding [B, K, H] the embedded last token and K - 1 mask tokens; position_ids [B, S + K].
        """
        context, block = self.hidden_norm(self.fc(target_hidden)), noise_embedding
        angles = _angles(position_ids, self.config, block.dtype)
        for layer in self.layers:
            block = layer(block, context, angles, position_ids)
        return self.norm(block)


def _angles(positions: torch.Tensor, config: Any, dtype: torch.dtype) -> torch.Tensor:
    rope = getattr(config, "rope_parameters", None) or {}
    theta = float(rope.get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0)
    exponent = torch.arange(0, config.head_dim, 2, device=positions.device, dtype=torch.float32) / config.head_dim
    angles = positions[:, :, None].float() * (1.0 / theta**exponent)
    angles = torch.cat([angles, angles], dim=-1)
    return torch.stack([angles.cos(), angles.sin()]).to(dtype)


def _rotate(states: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    cos, sin = angles[0][:, None], angles[1][:, None]
    first, second = states.chunk(2, dim=-1)
    return states * cos + torch.cat([-second, first], dim=-1) * sin
