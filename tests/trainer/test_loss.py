"""The loss against a plain sum in float64, its gradients against autograd's, chunks against no chunks."""

import math

import pytest
import torch
from hypothesis import given, settings

from tests.trainer import reference
from tests.trainer.cases import EDGES, VOCABULARY, Problem, drawn, problems
from trainer.loss import block_loss, chunk_rows, decay, default_gamma, targets

GAMMA = 3.0


def check(problem: Problem, chunk: int) -> None:
    shape, (ids, loss_mask, anchors) = problem.shape, problem.tensors
    hidden = drawn(problem.seed, 1, shape.queries, 6).requires_grad_()
    head = drawn(problem.seed + 1, VOCABULARY, 6)
    parts = block_loss(hidden, head, targets(ids, loss_mask, anchors, shape, GAMMA), chunk=chunk)
    parts.loss_sum.backward()
    ours, hidden.grad = hidden.grad, None
    wanted = reference.loss_sum(hidden[0], head, problem.ids, problem.loss_mask, problem.anchors, shape.width, GAMMA)
    torch.testing.assert_close(parts.loss_sum, wanted, rtol=1e-6, atol=1e-9)
    if wanted.requires_grad:
        wanted.backward()
    assert ours is not None
    torch.testing.assert_close(
        ours, torch.zeros_like(ours) if hidden.grad is None else hidden.grad, rtol=1e-6, atol=1e-9
    )


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(problems())
def test_loss_and_gradient_equal_the_plain_sum(problem: Problem) -> None:
    check(problem, chunk=4)


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("chunk", [1, 3, 1000])
def test_loss_at_the_edges_in_chunks_of_any_size(name: str, chunk: int) -> None:
    check(EDGES[name], chunk)


def test_weights_of_a_block_decay_and_end_with_the_context() -> None:
    problem = EDGES["block reaches past the end"]
    ids, loss_mask, anchors = problem.tensors
    found = targets(ids, loss_mask, anchors, problem.shape, GAMMA)
    # Anchor 2 in a context of 4: only position 3 is left to predict.
    assert found.weights[0, 0].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert found.labels[0, 0, 0] == problem.ids[3]
    assert decay(5, GAMMA).tolist() == pytest.approx([1.0, math.exp(-1 / 3), math.exp(-2 / 3), math.exp(-1.0)])


@pytest.mark.parametrize(("width", "gamma"), [(8, 4.0), (16, 7.0), (32, 13.0), (2, 1.75), (1, 1.375)])
def test_default_decay_goes_through_the_published_points(width: int, gamma: float) -> None:
    assert default_gamma(width) == gamma


@pytest.mark.parametrize(("rows", "limit", "size"), [(7680, 2048, 1920), (10, 4, 4), (9, 3, 3), (5, 100, 5), (1, 1, 1)])
def test_chunks_are_even_and_few(rows: int, limit: int, size: int) -> None:
    assert chunk_rows(rows, limit) == size


def test_counts_of_right_positions_and_leading_runs() -> None:
    problem = EDGES["every position an anchor"]
    ids, loss_mask, anchors = problem.tensors
    wanted = targets(ids, loss_mask, anchors, problem.shape, GAMMA)
    # A head of one-hot rows: the hidden state names the predicted token.
    head = torch.eye(VOCABULARY, dtype=torch.float64)
    hidden = torch.zeros(1, problem.shape.queries, VOCABULARY, dtype=torch.float64)
    for block, right in enumerate([True, False, True, True]):
        label = int(wanted.labels[0, block, 0])
        hidden[0, block * 2 + 1, label if right else (label + 1) % VOCABULARY] = 9.0
    parts = block_loss(hidden.requires_grad_(), head, wanted)
    # The last anchor has nothing to predict, so its hit counts nowhere.
    assert (parts.correct.tolist(), parts.counted.tolist()) == ([2.0], [3.0])
    assert (float(parts.run_length), float(parts.blocks)) == (2.0, 3.0)
