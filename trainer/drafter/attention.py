"""The one place that calls an attention kernel: flex_attention over tiles, or a dense table of bounded size.

flex_attention has no backward on CPU and, uncompiled, computes all scores at once. So there are two paths and
no silent way from one to the other: compiled flex on CUDA, dense where its scores fit (tests, CPU).
"""

from typing import TypeAlias

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from trainer.drafter.mask import BlockShape, DenseMask
from trainer.errors import CompileStateError, DenseAttentionError

AttentionMask: TypeAlias = BlockMask | DenseMask

SMALL_SHARED_MEMORY = 128 * 1024
"""Bytes of shared memory a block below which flex's default tiles do not fit (consumer GPUs have 101,376)."""


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: AttentionMask,
    *,
    small_tiles: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Return attention [B, heads, Q, D] of query [B, heads, Q, D] over key and value [B, kv heads, KV, D].

    With a BlockMask this must run inside a compiled region. `small_tiles` is for GPUs with little shared memory.
    `scale` multiplies the scores (default: 1 / sqrt(D)).
    """
    if isinstance(mask, DenseMask):
        return _dense(query, key, value, mask, scale)
    # A compiled region answers this while it is traced. Whenever torch runs the function itself instead (a
    # passed recompile limit, a stuck tracing flag), uncompiled flex would compute every score in silence.
    if not torch.compiler.is_dynamo_compiling():
        raise CompileStateError(
            "flex_attention was called outside a compiled region: torch fell back to running this layer uncompiled",
            "see what else compiles in this process; --runtime processes keeps them apart",
        )
    grouped = query.shape[1] != key.shape[1]
    options = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_M1": 32, "BLOCK_N1": 32, "BLOCK_M2": 32, "BLOCK_N2": 32}
    return flex_attention(
        query, key, value, block_mask=mask, scale=scale, enable_gqa=grouped,
        kernel_options=options if small_tiles else None,
    )  # fmt: skip


def _dense(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: DenseMask, scale: float | None
) -> torch.Tensor:
    repeat = query.shape[1] // key.shape[1]
    if repeat > 1:
        key, value = key.repeat_interleave(repeat, dim=1), value.repeat_interleave(repeat, dim=1)
    output = scaled_dot_product_attention(query, key, value, attn_mask=mask.visible, scale=scale)
    return output * mask.present


def needs_small_tiles(device: torch.device) -> bool:
    """Return whether this device has too little shared memory for flex's default tiles."""
    if device.type != "cuda":
        return False
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", 1 << 20)) < SMALL_SHARED_MEMORY


def dense_bytes(rows: int, heads: int, shape: BlockShape) -> int:
    """Return the bytes of one layer's fp32 scores on the dense path."""
    return rows * heads * shape.queries * shape.keys * 4


def require_dense_fits(rows: int, heads: int, shape: BlockShape, limit: int) -> None:
    """Raise DenseAttentionError when one layer's scores would take more than `limit` bytes."""
    needed = dense_bytes(rows, heads, shape)
    if needed <= limit:
        return
    raise DenseAttentionError(
        f"dense attention would not fit: {rows} rows x {heads} heads x {shape.queries:,} queries x {shape.keys:,} keys"
        f" x 4 bytes = {needed / 1e9:,.1f} GB of scores a layer, and {limit / 1e9:,.1f} GB are allowed",
        "train on a CUDA device with compiled flex_attention (--device cuda), or lower drafter.anchors,"
        " drafter.block or data.buckets; run.dense_limit_gb raises the limit",
    )
