"""The block mask against its rule in plain loops, and flex's tile lists against torch's own."""

import pytest
import torch
from hypothesis import given, settings
from torch.nn.attention.flex_attention import create_block_mask

from tests.trainer import reference
from tests.trainer.cases import EDGES, Problem, problems
from trainer.model.mask import (
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
def test_tile_lists_are_those_torch_computes_from_every_pair(
    context: int, blocks: int, width: int, window: int
) -> None:
    generator = torch.Generator().manual_seed(context)
    shape = BlockShape(context=context, blocks=blocks, width=width)
    full = torch.stack([torch.randperm(context - 1, generator=generator)[:blocks].sort().values for _ in range(4)])
    full[1, blocks // 2 :] = -1
    full[2] = -1
    full[3, 0], full[3, -1] = 0, context - 2
    ours = block_mask(full, shape, window)
    theirs = create_block_mask(mask_rule(full, shape, window), 4, None, shape.queries, shape.keys, device="cpu")
    for kind in ("kv", "full_kv", "q", "full_q"):
        mine, wanted = (
            listed(getattr(mask, f"{kind}_num_blocks"), getattr(mask, f"{kind}_indices")) for mask in (ours, theirs)
        )
        assert mine == wanted, kind
    assert ours.seq_lengths == theirs.seq_lengths
    assert torch.equal(ours.to_dense(), theirs.to_dense())
