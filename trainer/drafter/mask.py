"""The DFlash block mask, in three forms that agree: a rule, a dense table, and the tile lists of flex_attention.

Shapes: B rows, S context positions, N blocks a row, K positions a block, Q = N*K queries, KV = S + Q keys.
`anchors` [B, N] holds the context position each block starts at, ascending, -1 for a block that is absent.

Query q of block j = q // K sees key kv when block j is present and
    kv <  anchors[j]            context strictly before the anchor: the anchor's own target state does not
                                exist yet when the drafter runs at inference
 or kv >= S and (kv - S) // K == j    its own block, both ways
(DFlash, arXiv 2602.06036; the same rule in SpecForge and Model-Optimizer.)

A sliding layer with window W (published drafters of Qwen3.6; SpecForge counts the current token in the window) attends
as a causal sliding layer does at the true positions: query q of offset o = q % K stands at anchors[j] + o and sees
    anchors[j] + o - W < kv < anchors[j]
 or its own block up to itself.

In a packed row several documents follow each other. `starts` [B, N] is where the document of each anchor begins: its
blocks see no context before that, and positions count from it. Without `starts` a row is one document.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.attention.flex_attention import BlockMask

TILE = 128
"""Rows and columns of one flex_attention tile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShape:
    """The fixed sizes of one batch: everything a compiled step depends on."""

    context: int
    """S, padded context positions a row."""
    blocks: int
    """N, blocks a row, present or not."""
    width: int
    """K, positions a block (the anchor's token and K - 1 to predict)."""

    @property
    def queries(self) -> int:
        """Q = N*K."""
        return self.blocks * self.width

    @property
    def keys(self) -> int:
        """KV = S + Q."""
        return self.context + self.queries


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMask:
    """The mask as a table, for scaled_dot_product_attention.

    A softmax over nothing is NaN, so queries of absent blocks see their own block here and `present` zeroes
    their output afterwards: the same zero that flex_attention gives them.
    """

    visible: torch.Tensor
    """Bool [B, 1, Q, KV]."""
    present: torch.Tensor
    """Bool [B, 1, Q, 1]."""


def visible(
    anchors: torch.Tensor, shape: BlockShape, window: int = 0, starts: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the rule as a bool table [B, Q, KV]; rows of absent blocks are empty. `window` 0 is a full layer's."""
    context, own = _context_and_own(anchors, shape, window, starts)
    present = (anchors >= 0).repeat_interleave(shape.width, dim=1)[:, :, None]
    return (context | own) & present


def visible_pairs(anchors: torch.Tensor, shape: BlockShape, window: int = 0, starts: torch.Tensor | None = None) -> int:
    """Return how many pairs are visible, without the table."""
    held = (anchors if starts is None else anchors - starts)[anchors >= 0]
    if not window:
        return int((held + shape.width).sum()) * shape.width
    offset = torch.arange(shape.width, device=anchors.device)
    seen = torch.minimum(held[:, None], (window - 1 - offset).clamp(min=0))
    return int(seen.sum()) + len(held) * int((offset + 1).clamp(max=window).sum())


def dense_mask(
    anchors: torch.Tensor, shape: BlockShape, window: int = 0, starts: torch.Tensor | None = None
) -> DenseMask:
    """Return the mask for the dense path."""
    context, own = _context_and_own(anchors, shape, window, starts)
    present = (anchors >= 0).repeat_interleave(shape.width, dim=1)
    return DenseMask(visible=(context | own)[:, None], present=present[:, None, :, None])


def _context_and_own(
    anchors: torch.Tensor, shape: BlockShape, window: int, starts: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    device = anchors.device
    key = torch.arange(shape.keys, device=device)
    query_block = torch.arange(shape.queries, device=device) // shape.width
    anchor = anchors[:, query_block, None]
    # An absent block has anchor -1, so no key is before it.
    context = key < anchor
    if starts is not None:
        context = context & (key >= starts[:, query_block, None])
    own = (key >= shape.context) & ((key - shape.context) // shape.width == query_block[:, None])
    if window:
        offset = (torch.arange(shape.queries, device=device) % shape.width)[:, None]
        behind = offset - (key - shape.context) % shape.width
        context = context & (key > anchor + offset - window)
        own = own & (behind >= 0) & (behind < window)
    return context, own.expand_as(context)


def mask_rule(
    anchors: torch.Tensor, shape: BlockShape, window: int = 0, starts: torch.Tensor | None = None
) -> Callable[..., torch.Tensor]:
    """Return the rule as flex_attention's mask_mod(b, h, q, kv).

    `kv < anchor` implies kv < S, because an anchor is a context position; -1 sees nothing.
    """
    context, width = shape.context, shape.width

    def rule(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:  # noqa: ARG001 - flex_attention's signature
        block = q // width
        anchor = anchors[b, block]
        own = (kv >= context) & ((kv - context) // width == block) & (anchor >= 0)
        return (kv < anchor) | own

    def sliding(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:  # noqa: ARG001 - as above
        block, offset = q // width, q % width
        anchor = anchors[b, block]
        behind = offset - (kv - context) % width
        own = (kv >= context) & ((kv - context) // width == block) & (anchor >= 0) & (behind >= 0) & (behind < window)
        return ((kv < anchor) & (kv > anchor + offset - window)) | own

    chosen = sliding if window else rule
    if starts is None:
        return chosen

    def packed(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        return chosen(b, h, q, kv) & (kv >= starts[b, q // width])

    return packed


def block_mask(
    anchors: torch.Tensor, shape: BlockShape, window: int = 0, starts: torch.Tensor | None = None, tile: int = TILE
) -> BlockMask:
    """Return flex_attention's tile lists, by arithmetic on tiles alone.

    create_block_mask evaluates all Q x KV pairs (2.4 GB of bools at 1024 x 32 blocks over 40,000 positions)
    unless it is compiled, and a compiled one is one more thing to compile beside other threads. Here the
    work is one comparison a tile and nothing is compiled or traced.
    """
    partial, full = tile_table(anchors, shape, window, starts, tile)
    mask = BlockMask.from_kv_blocks(
        *_ordered(partial),
        *_ordered(full),
        BLOCK_SIZE=tile,
        mask_mod=mask_rule(anchors, shape, window, starts),
        seq_lengths=(shape.queries, shape.keys),
        compute_q_blocks=False,
    )
    # torch would derive these through fx.traceback.annotate, which fails beside another thread's compile
    # (KeyError 'custom', torch 2.13); transposing the tiles gives the same lists.
    mask.q_num_blocks, mask.q_indices = _ordered(partial.transpose(-2, -1))
    mask.full_q_num_blocks, mask.full_q_indices = _ordered(full.transpose(-2, -1))
    return mask


def tile_table(
    anchors: torch.Tensor, shape: BlockShape, window: int = 0, starts: torch.Tensor | None = None, tile: int = TILE
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which tiles hold some visible pairs and which only visible pairs: bool [B, 1, Q tiles, KV tiles] each."""
    device = anchors.device
    query_tiles, key_tiles = -(-shape.queries // tile), -(-shape.keys // tile)
    query_low = torch.arange(query_tiles, device=device) * tile
    query_high = (query_low + tile).clamp(max=shape.queries) - 1
    first, last = query_low // shape.width, query_high // shape.width
    # Blocks of each query tile, as a small rectangle: `width` need not divide the tile.
    reach = (tile - 1) // shape.width + 2
    member = first[:, None] + torch.arange(reach, device=device)
    inside = member <= last[:, None]
    anchor = anchors[:, member.clamp(max=shape.blocks - 1)]
    anchor = torch.where(inside, anchor, -1)
    key_low = torch.arange(key_tiles, device=device) * tile
    key_high = (key_low + tile).clamp(max=shape.keys) - 1
    # As in torch: a tile that reaches past the last query is never full. (A full one ends before its anchors,
    # so it cannot reach past the last key.)
    whole = (query_low + tile <= shape.queries)[:, None]

    low = ((key_low - shape.context).clamp(min=0)) // shape.width
    high = (key_high - shape.context) // shape.width
    overlap = (member[:, :, None] >= low) & (member[:, :, None] <= high) & (key_high >= shape.context)
    overlap = overlap & inside[:, :, None] & (anchor >= 0)[..., None]
    # The offsets of each block that are in the query tile, from its first to its last.
    begins = (query_low[:, None] - member * shape.width).clamp(min=0)[..., None]
    ends = (query_high[:, None] - member * shape.width).clamp(max=shape.width - 1)[..., None]
    if window:
        own_first = (key_low - shape.context - member[..., None] * shape.width).clamp(min=0)
        own_last = (key_high - shape.context - member[..., None] * shape.width).clamp(max=shape.width - 1)
        overlap = overlap & (own_first <= ends) & (own_last > begins - window)
    start = torch.zeros_like(anchor) if starts is None else starts[:, member.clamp(max=shape.blocks - 1)]
    anchor, start, inside = anchor[..., None], start[..., None], inside[..., None]
    # The first context position that a query of the lowest and of the highest offset sees.
    furthest, nearest = start, start
    if window:
        furthest, nearest = (torch.maximum(start, anchor + offset - window + 1) for offset in (begins, ends))
    some = inside & (key_low < anchor) & (key_high >= furthest) & (furthest < anchor) & (key_low < shape.context)
    every = inside & (anchor >= 0) & (key_high < anchor) & (key_low >= nearest)
    found, whole = some.any(2) | overlap.any(2), (every | ~inside).all(2) & whole
    return (found & ~whole)[:, None], whole[:, None]


def document_mask(places: torch.Tensor, tile: int = TILE) -> BlockMask:
    """Return the tile lists of a frozen target over packed rows: a position sees those before it in its document.

    `places` int64 [B, S] are the positions within their documents. As in `block_mask`, by arithmetic on tiles alone.
    """
    length, device = places.shape[1], places.device
    starts = torch.arange(length, device=device) - places

    def rule(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:  # noqa: ARG001 - flex_attention's signature
        return (kv <= q) & (kv >= starts[b, q])

    partial, full = document_tiles(starts, tile)
    return BlockMask.from_kv_blocks(
        *_ordered(partial), *_ordered(full), BLOCK_SIZE=tile, mask_mod=rule, seq_lengths=(length, length),
        compute_q_blocks=False,
    )  # fmt: skip


def document_tiles(starts: torch.Tensor, tile: int = TILE) -> tuple[torch.Tensor, torch.Tensor]:
    """Return which tiles hold some visible pairs and which only visible pairs: bool [B, 1, tiles, tiles] each.

    `starts` [B, S] is where the document of each position begins; it never falls along a row.
    """
    length = starts.shape[1]
    low = torch.arange(-(-length // tile), device=starts.device) * tile
    high = (low + tile).clamp(max=length) - 1
    earliest, latest = starts[:, low, None], starts[:, high, None]
    found = (low <= low[:, None]) & (high >= earliest)
    # As in torch: a tile that reaches past the last position is never full.
    whole = (high < low[:, None]) & (low >= latest) & (low + tile <= length)[:, None]
    return (found & ~whole)[:, None], whole[:, None]


def _ordered(tiles: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the count of set tiles a row and their columns first, the layout that BlockMask keeps."""
    order = torch.argsort(tiles.to(torch.int8), dim=-1, descending=True, stable=True)
    return tiles.sum(-1, dtype=torch.int32).contiguous(), order.to(torch.int32).contiguous()


def positions(
    anchors: torch.Tensor, shape: BlockShape, starts: torch.Tensor | None = None, places: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the true positions of all keys, int64 [B, KV]: 0..S-1, then anchor + 0..K-1 for each block.

    Of a packed row `places` [B, S] are the context's positions within their documents.
    """
    rows = anchors.shape[0]
    context = torch.arange(shape.context, device=anchors.device).expand(rows, -1) if places is None else places
    offset = torch.arange(shape.width, device=anchors.device)
    at = anchors.clamp(min=0)
    blocks = (at if starts is None else at - starts)[:, :, None] + offset
    return torch.cat([context, blocks.flatten(1)], dim=1)


def noise_tokens(ids: torch.Tensor, anchors: torch.Tensor, shape: BlockShape, mask_token: int) -> torch.Tensor:
    """Return the tokens the drafter sees, int64 [B, Q]: the anchor's own, then K - 1 mask tokens."""
    tokens = torch.full((*anchors.shape, shape.width), mask_token, dtype=ids.dtype, device=ids.device)
    tokens[:, :, 0] = torch.where(anchors >= 0, ids.gather(1, anchors.clamp(min=0)), mask_token)
    return tokens.flatten(1)
