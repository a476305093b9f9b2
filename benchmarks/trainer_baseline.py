"""The same training step written plainly: Hugging Face modules, compiled flex_attention, full logits, torch's AdamW.

What a person writes first: the target keeps all hidden states, the drafter's layers run eagerly but for the compiled
flex_attention, the logits of a micro-batch exist at once. The maths is the trainer's. create_block_mask is called as it
is: compiled for these sizes (2 x 8,192 x 12,288), Triton was still busy with its kernel after 110 s on torch 2.11.
"""

from typing import Any

import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import cross_entropy, embedding
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP, Qwen3RMSNorm, Qwen3RotaryEmbedding, rotate_half

compiled_flex = torch.compile(flex_attention, dynamic=False)


class PlainLayer(nn.Module):
    """One drafter layer of Hugging Face parts."""

    def __init__(self, config: Qwen3Config) -> None:
        """Allocate."""
        super().__init__()
        wide, narrow = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
        self.head_dim = config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, wide, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, narrow, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, narrow, bias=False)
        self.o_proj = nn.Linear(wide, config.hidden_size, bias=False)
        self.q_norm = Qwen3RMSNorm(config.head_dim, eps=config.rms_norm_eps)
        self.k_norm = Qwen3RMSNorm(config.head_dim, eps=config.rms_norm_eps)
        self.mlp = Qwen3MLP(config)
        self.input_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self, block: torch.Tensor, context: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: Any
    ) -> Any:
        """Return the block's next hidden states."""
        normed = self.input_layernorm(block)
        rows, queries = block.shape[:2]

        def heads(states: torch.Tensor) -> torch.Tensor:
            return states.view(rows, states.shape[1], -1, self.head_dim)

        query = self.q_norm(heads(self.q_proj(normed))).transpose(1, 2)
        key = torch.cat([self.k_proj(context), self.k_proj(normed)], dim=1)
        value = torch.cat([self.v_proj(context), self.v_proj(normed)], dim=1)
        key, value = self.k_norm(heads(key)).transpose(1, 2), heads(value).transpose(1, 2)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        query = query * cos[:, :, -queries:] + rotate_half(query) * sin[:, :, -queries:]
        key = key * cos + rotate_half(key) * sin
        # Under autocast the norms' fp32 weights widen queries and keys; flex wants one dtype.
        query, key = query.to(value.dtype), key.to(value.dtype)
        attended = compiled_flex(query, key, value, block_mask=mask, enable_gqa=True)
        block = block + self.o_proj(attended.transpose(1, 2).reshape(rows, queries, -1))
        return block + self.mlp(self.post_attention_layernorm(block))


class PlainDrafter(nn.Module):
    """The drafter of Hugging Face parts."""

    def __init__(self, config: Qwen3Config, features: int) -> None:
        """Allocate."""
        super().__init__()
        self.fc = nn.Linear(features * config.hidden_size, config.hidden_size, bias=False)
        self.hidden_norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.layers = nn.ModuleList(PlainLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary = Qwen3RotaryEmbedding(config)

    def forward(self, features: torch.Tensor, block: torch.Tensor, positions: torch.Tensor, mask: Any) -> torch.Tensor:
        """Return hidden states for the head."""
        context = self.hidden_norm(self.fc(features))
        cos, sin = self.rotary(block, positions)
        for layer in self.layers:
            block = layer(block, context, cos, sin, mask)
        return self.norm(block)


def plain_step(
    model: nn.Module,
    drafter: PlainDrafter,
    adam: Any,
    batch: Any,
    layer_ids: tuple[int, ...],
    gamma: float,
    mask_token: int,
) -> torch.Tensor:
    """Run one optimizer step on a trainer Batch; returns the loss."""
    ids, anchors, shape = batch.ids, batch.anchors, batch.shape
    context, width = shape.context, shape.width
    with torch.no_grad():
        states = model(input_ids=ids, output_hidden_states=True, use_cache=False, logits_to_keep=1).hidden_states
        features = torch.cat([states[layer + 1] for layer in layer_ids], dim=-1)
        del states

    def rule(b: Any, h: Any, q: Any, kv: Any) -> Any:  # noqa: ARG001 - flex_attention's signature
        anchor = anchors[b, q // width]
        own = (kv >= context) & ((kv - context) // width == q // width)
        return (anchor >= 0) & (((kv < context) & (kv < anchor)) | own)

    mask = create_block_mask(rule, ids.shape[0], None, shape.queries, shape.keys, device=ids.device)
    offset = torch.arange(width, device=ids.device)
    place = anchors.clamp(min=0)[:, :, None] + offset
    tokens = torch.full_like(place, mask_token)
    tokens[:, :, 0] = ids.gather(1, anchors.clamp(min=0))
    line = torch.arange(context, device=ids.device).expand(ids.shape[0], -1)
    positions = torch.cat([line, place.flatten(1)], dim=1)
    block = embedding(tokens.flatten(1), model.get_input_embeddings().weight)
    with torch.autocast("cuda", torch.bfloat16):
        hidden = drafter(features, block, positions, mask)
    hidden = hidden.unflatten(1, (-1, width))[:, :, 1:].to(torch.bfloat16)
    logits = hidden @ model.get_output_embeddings().weight.t()
    wanted = place[:, :, 1:]
    inside = (wanted < context) & (anchors >= 0)[:, :, None]
    flat = wanted.clamp(max=context - 1).flatten(1)
    weights = torch.exp(-(offset[1:] - 1) / gamma) * inside * batch.loss_mask.gather(1, flat).view_as(wanted)
    losses = cross_entropy(logits.flatten(0, 2).float(), ids.gather(1, flat).flatten(), reduction="none")
    loss = (losses * weights.flatten()).sum() / weights.sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
    adam.step()
    adam.zero_grad(set_to_none=True)
    return loss.detach()
