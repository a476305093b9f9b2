"""The block mask against its rule in plain loops, and flex's tile lists against torch's own."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask

from tests.trainer import reference
from tests.trainer.cases import EDGES, Problem, problems
from trainer.drafter.mask import (
    BlockShape,
    block_mask,
    dense_mask,
    mask_rule,
    noise_tokens,
    positions,
    visible,
    visible_pairs,
)


def check_window(problem: Problem, window: int) -> None:
    shape, (_, _, anchors) = problem.shape, problem.tensors
    places = [reference.place(problem.anchors, shape.context, shape.width, key) for key in range(shape.keys)]
    expected = [
        [
            reference.sees(problem.anchors, shape.context, shape.width, query, key)
            and (not window or 0 <= places[shape.context + query] - places[key] < window)
            for key in range(shape.keys)
        ]
        for query in range(shape.queries)
    ]
    assert visible(anchors, shape, window)[0].tolist() == expected
    assert visible_pairs(anchors, shape, window) == sum(map(sum, expected))
    rule, zero = mask_rule(anchors, shape, window), torch.tensor(0)
    asked = [
        [bool(rule(zero, zero, torch.tensor(query), torch.tensor(key))) for key in range(shape.keys)]
        for query in range(shape.queries)
    ]
    assert asked == expected
    dense = dense_mask(anchors, shape, window)
    assert (dense.visible & dense.present)[0, 0].tolist() == expected
    assert dense.visible.any(-1).all()


def check(problem: Problem) -> None:
    shape, (ids, _, anchors) = problem.shape, problem.tensors
    expected = [
        [reference.sees(problem.anchors, shape.context, shape.width, query, key) for key in range(shape.keys)]
        for query in range(shape.queries)
    ]
    assert visible(anchors, shape)[0].tolist() == expected
    for window in (0, 1, 3, shape.width, 2 * shape.width + 1):
        check_window(problem, window)
    rule = mask_rule(anchors, shape)
    zero = torch.tensor(0)
    asked = [
        [bool(rule(zero, zero, torch.tensor(query), torch.tensor(key))) for key in range(shape.keys)]
        for query in range(shape.queries)
    ]
    assert asked == expected
    dense = dense_mask(anchors, shape)
    assert (dense.visible & dense.present)[0, 0].tolist() == expected
    # A softmax over nothing is NaN: even rows of absent blocks see something until `present` zeroes them.
    assert dense.visible.any(-1).all()
    assert positions(anchors, shape)[0].tolist() == [
        reference.place(problem.anchors, shape.context, shape.width, key) for key in range(shape.keys)
    ]
    assert noise_tokens(ids, anchors, shape, 99)[0].tolist() == [
        problem.ids[anchor] if anchor >= 0 and offset == 0 else 99
        for anchor in problem.anchors
        for offset in range(shape.width)
    ]


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(problems())
def test_mask_positions_and_tokens_follow_the_rule(problem: Problem) -> None:
    check(problem)


@pytest.mark.parametrize("name", EDGES)
def test_mask_at_the_edges(name: str) -> None:
    check(EDGES[name])


def listed(count: torch.Tensor, index: torch.Tensor) -> list[list[list[int]]]:
    return [
        [sorted(columns[:number].tolist()) for number, columns in zip(counts[0], indices[0], strict=True)]
        for counts, indices in zip(count, index, strict=True)
    ]


@pytest.mark.parametrize(
    ("context", "blocks", "width"),
    [(256, 16, 8), (100, 5, 3), (130, 33, 10), (64, 2, 16), (40, 1, 2), (300, 40, 7), (512, 8, 32), (128, 16, 16)],
)
@pytest.mark.parametrize("window", [0, 1, 2, 7, 40, 150, 200, 1000])
@pytest.mark.parametrize("packed", [False, True], ids=["one document", "packed"])
def test_tile_lists_are_those_torch_computes_from_every_pair(
    context: int, blocks: int, width: int, window: int, *, packed: bool
) -> None:
    generator = torch.Generator().manual_seed(context)
    shape = BlockShape(context=context, blocks=blocks, width=width)
    full = torch.stack([torch.randperm(context - 1, generator=generator)[:blocks].sort().values for _ in range(4)])
    full[1, blocks // 2 :] = -1
    full[2] = -1
    full[3, 0], full[3, -1] = 0, context - 2
    # Documents of a third of the row: each anchor's begins at the last third before it.
    starts = torch.where(full >= 0, full - full % (context // 3), 0) if packed else None
    ours = block_mask(full, shape, window, starts)
    rule = mask_rule(full, shape, window, starts)
    theirs = create_block_mask(rule, 4, None, shape.queries, shape.keys, device="cpu")
    for kind in ("kv", "full_kv", "q", "full_q"):
        mine, wanted = (
            listed(getattr(mask, f"{kind}_num_blocks"), getattr(mask, f"{kind}_indices")) for mask in (ours, theirs)
        )
        assert mine == wanted, kind
    assert ours.seq_lengths == theirs.seq_lengths
    assert torch.equal(ours.to_dense(), theirs.to_dense())


@pytest.mark.property
@settings(max_examples=40, deadline=None)
@given(problems(), problems(), st.sampled_from([0, 1, 3, 7]))
def test_documents_packed_in_one_row_see_what_they_see_alone(first: Problem, second: Problem, window: int) -> None:
    width = first.shape.width
    alone = [first, replace(second, shape=replace(second.shape, width=width))]
    starts, at, anchors, begins = [0, first.shape.context], 0, [], []
    for start, problem in zip(starts, alone, strict=True):
        anchors += [anchor + start if anchor >= 0 else -1 for anchor in problem.anchors]
        begins += [start] * len(problem.anchors)
        at += problem.shape.context
    shape = BlockShape(context=at, blocks=len(anchors), width=width)
    held, begun = torch.tensor([anchors]), torch.tensor([begins])
    together = visible(held, shape, window, begun)[0]
    places = torch.cat([torch.arange(problem.shape.context) for problem in alone])[None]
    where = positions(held, shape, begun, places)[0]
    rule, zero = mask_rule(held, shape, window, begun), torch.tensor(0)
    assert visible_pairs(held, shape, window, begun) == int(together.sum())
    query_at = 0
    for start, problem in zip(starts, alone, strict=True):
        own = problem.tensors[2]
        queries, context = problem.shape.queries, problem.shape.context
        keys = [*range(start, start + context), *range(at + query_at, at + query_at + queries)]
        mine = together[query_at : query_at + queries]
        assert torch.equal(mine[:, keys], visible(own, problem.shape, window)[0])
        assert int(mine.sum()) == int(mine[:, keys].sum())
        present = torch.tensor([anchor >= 0 for anchor in problem.anchors]).repeat_interleave(width)
        blocks = where[at + query_at : at + query_at + queries]
        assert torch.equal(blocks[present], positions(own, problem.shape)[0, context:][present])
        query_at += queries
    asked = [
        [bool(rule(zero, zero, torch.tensor(query), torch.tensor(key))) for key in range(shape.keys)]
        for query in range(shape.queries)
    ]
    assert asked == together.tolist()
    dense = dense_mask(held, shape, window, begun)
    assert torch.equal((dense.visible & dense.present)[0, 0], together)
