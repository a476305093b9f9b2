"""The drafter's maths once more, in float64 and plain loops over positions; nothing shared with the trainer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the loops need to know."""

    context: int
    width: int
    heads: int
    key_value_heads: int
    head_dim: int
    layers: int
    epsilon: float
    rope_theta: float
    sliding: tuple[int, ...] = ()
    window: int = 0


def sees(anchors: list[int], context: int, width: int, query: int, key: int) -> bool:
    """Say whether a query sees a key."""
    block = query // width
    anchor = anchors[block]
    if anchor < 0:
        return False
    if key < context:
        return key < anchor
    return (key - context) // width == block


def place(anchors: list[int], context: int, width: int, key: int) -> int:
    """Return a key's position."""
    if key < context:
        return key
    block, offset = divmod(key - context, width)
    return max(anchors[block], 0) + offset


def weight(loss_mask: list[bool], anchors: list[int], width: int, query: int, gamma: float) -> float:
    """Return the loss weight of a block position."""
    block, offset = divmod(query, width)
    anchor = anchors[block]
    at = anchor + offset
    if anchor < 0 or offset == 0 or at >= len(loss_mask) or not loss_mask[at]:
        return 0.0
    return math.exp(-(offset - 1) / gamma)


def norm(row: Tensor, scale: Tensor, epsilon: float) -> Tensor:
    """Return the RMS norm of a vector."""
    return row / torch.sqrt((row * row).mean() + epsilon) * scale


def turn(row: Tensor, position: int, theta: float) -> Tensor:
    """Return a head's vector rotated to a position."""
    half = row.shape[0] // 2
    out = []
    for i in range(2 * half):
        angle = position * theta ** (-2 * (i % half) / (2 * half))
        other = -row[i + half] if i < half else row[i - half]
        out.append(row[i] * math.cos(angle) + other * math.sin(angle))
    return torch.stack(out)


def attention(
    weights: Mapping[str, Tensor],
    prefix: str,
    normed: Tensor,
    context: Tensor,
    anchors: list[int],
    sizes: Sizes,
    window: int,
) -> Tensor:
    """Return one layer's attention output [Q, H] for one row."""
    keys = torch.cat([context, normed])
    size, group = sizes.head_dim, sizes.heads // sizes.key_value_heads

    def head(kind: str, row: Tensor, index: int) -> Tensor:
        return weights[f"{prefix}.{kind}_proj.weight"][index * size : (index + 1) * size] @ row

    out = []
    for query in range(normed.shape[0]):
        parts = []
        for index in range(sizes.heads):
            at = place(anchors, sizes.context, sizes.width, sizes.context + query)
            q = norm(head("q", normed[query], index), weights[f"{prefix}.q_norm.weight"], sizes.epsilon)
            q = turn(q, at, sizes.rope_theta)
            scores, values = [], []
            for key in range(keys.shape[0]):
                if not sees(anchors, sizes.context, sizes.width, query, key):
                    continue
                if window and not 0 <= at - place(anchors, sizes.context, sizes.width, key) < window:
                    continue
                k = norm(head("k", keys[key], index // group), weights[f"{prefix}.k_norm.weight"], sizes.epsilon)
                k = turn(k, place(anchors, sizes.context, sizes.width, key), sizes.rope_theta)
                scores.append(q @ k / math.sqrt(size))
                values.append(head("v", keys[key], index // group))
            if scores:
                share = torch.softmax(torch.stack(scores), dim=0)
                parts.append((share[:, None] * torch.stack(values)).sum(0))
            else:
                parts.append(torch.zeros(size, dtype=torch.float64))
        out.append(weights[f"{prefix}.o_proj.weight"] @ torch.cat(parts))
    return torch.stack(out)


def drafter(weights: Mapping[str, Tensor], features: Tensor, block: Tensor, anchors: list[int], sizes: Sizes) -> Tensor:
    """Return the drafter's output [Q, H] for one row of features [S, F*H] and embedded block tokens [Q, H]."""
    context = torch.stack(
        [norm(weights["fc.weight"] @ row, weights["hidden_norm.weight"], sizes.epsilon) for row in features]
    )
    for layer in range(sizes.layers):
        name = f"layers.{layer}"
        window = sizes.window if layer in sizes.sliding else 0
        normed = torch.stack([norm(row, weights[f"{name}.input_layernorm.weight"], sizes.epsilon) for row in block])
        block = block + attention(weights, f"{name}.self_attn", normed, context, anchors, sizes, window)
        out = []
        for row in block:
            mid = norm(row, weights[f"{name}.post_attention_layernorm.weight"], sizes.epsilon)
            gate, up = weights[f"{name}.mlp.gate_proj.weight"] @ mid, weights[f"{name}.mlp.up_proj.weight"] @ mid
            out.append(row + weights[f"{name}.mlp.down_proj.weight"] @ (gate / (1 + torch.exp(-gate)) * up))
        block = torch.stack(out)
    return torch.stack([norm(row, weights["norm.weight"], sizes.epsilon) for row in block])


def loss_sum(
    hidden: Tensor, head: Tensor, ids: list[int], loss_mask: list[bool], anchors: list[int], width: int, gamma: float
) -> Tensor:
    """Return sum(weight * cross-entropy) over one row's block positions."""
    total = torch.zeros((), dtype=torch.float64)
    for query in range(hidden.shape[0]):
        share = weight(loss_mask, anchors, width, query, gamma)
        if share:
            logits = head @ hidden[query]
            wanted = ids[anchors[query // width] + query % width]
            total = total + share * (torch.logsumexp(logits, 0) - logits[wanted])
    return total
