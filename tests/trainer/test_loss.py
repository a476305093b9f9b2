"""The loss against a plain sum in float64, its gradients against autograd's, chunks against no chunks."""

import math
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings

from tests.trainer import reference
from tests.trainer.cases import EDGES, VOCABULARY, Problem, drawn, problems
from trainer.runtime import steps
from trainer.settings.sections import DrafterConfig, LossConfig
from trainer.step.loss import block_loss, chunk_loss, chunk_rows, decay, default_gamma, targets
from trainer.step.objectives import Objective, choose_vocabulary, dpace

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


def loss_of(problem: Problem, objective: Objective, teacher: torch.Tensor | None, chunk: int) -> list[torch.Tensor]:
    """Return (loss, gradient of the hidden states, weights before the objective's own) of a problem."""
    shape, (ids, loss_mask, anchors) = problem.shape, problem.tensors
    hidden = drawn(problem.seed, 1, shape.queries, 6).requires_grad_()
    head = drawn(problem.seed + 1, VOCABULARY, 6)
    wanted = targets(ids, loss_mask, anchors, shape, objective.gamma)
    parts = block_loss(hidden, head, wanted, chunk=chunk, kernel=objective.kernel(), teacher=teacher)
    parts.loss_sum.backward()
    assert hidden.grad is not None
    return [parts.loss_sum.detach(), hidden.grad, wanted.weights]


def plain_loss(problem: Problem, loss: LossConfig, gamma: float, teacher: torch.Tensor | None) -> list[torch.Tensor]:
    """Return (loss, gradient) summed position by position, with autograd's gradient."""
    shape, (ids, loss_mask, anchors) = problem.shape, problem.tensors
    hidden = drawn(problem.seed, 1, shape.queries, 6).requires_grad_()
    head = drawn(problem.seed + 1, VOCABULARY, 6)
    wanted = targets(ids, loss_mask, anchors, shape, gamma)
    total = torch.zeros((), dtype=torch.float64)
    predicted = shape.width - 1
    for block in range(shape.blocks):
        logs = [torch.log_softmax(head @ hidden[0, block * shape.width + k], 0) for k in range(1, shape.width)]
        labels, counted = wanted.labels[0, block], wanted.weights[0, block].double()
        shares = [float(share) for share in counted]
        if loss.positions == "dpace":
            chain, prefix = 1.0, []
            for k in range(predicted):
                smooth = (1 - loss.alpha) * float(logs[k][labels[k]].detach().exp()) + loss.alpha
                chain *= smooth if counted[k] else 1.0
                prefix.append(chain if counted[k] else 0.0)
            shares = [sum(prefix[k:]) if counted[k] else 0.0 for k in range(predicted)]
        for k in range(predicted):
            if loss.kind == "kl":
                assert teacher is not None
                told = torch.log_softmax(head @ teacher[block * predicted + k], 0)
                term = (told.exp() * (told - logs[k])).sum()
            else:
                term = -logs[k][labels[k]]
            total = total + shares[k] * term
    if total.requires_grad:
        total.backward()
    return [total.detach(), torch.zeros_like(hidden) if hidden.grad is None else hidden.grad]


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize(
    "loss",
    [
        LossConfig(positions="dpace"), LossConfig(positions="dpace", alpha=0.0), LossConfig(kind="kl"),
        LossConfig(kind="kl", positions="dpace", alpha=0.25),
    ],
    ids=["dpace", "dpace unsmoothed", "kl", "kl with dpace"],
)  # fmt: skip
@pytest.mark.parametrize("chunk", [1, 1000])
def test_objectives_equal_their_plain_sums(name: str, loss: LossConfig, chunk: int) -> None:
    problem = EDGES[name]
    objective = Objective.of(loss, DrafterConfig(block=problem.shape.width, gamma=GAMMA))
    teacher = drawn(5, problem.shape.blocks * (problem.shape.width - 1), 6) if objective.teacher else None
    found, gradient, _ = loss_of(problem, objective, teacher, chunk)
    wanted, by_autograd = plain_loss(problem, loss, objective.gamma, teacher)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(gradient, by_autograd, rtol=1e-6, atol=1e-9)


def test_the_default_objective_is_the_published_one() -> None:
    objective = Objective.of(LossConfig(), DrafterConfig())
    assert (objective.kernel(), objective.gamma, objective.teacher) == (chunk_loss, 7.0, False)
    assert Objective.of(LossConfig(positions="dpace"), DrafterConfig()).gamma == math.inf


def test_dpace_weights_add_up_what_a_block_still_yields() -> None:
    found = dpace(torch.tensor([0.5, 0.5, 0.5, 0.2]), torch.tensor([1.0, 1.0, 1.0, 0.0]), 4, 0.0)
    assert found.tolist() == pytest.approx([0.5 + 0.25 + 0.125, 0.25 + 0.125, 0.125, 0.0])
    # Confidence of 1 everywhere: each position is worth those that are left.
    assert dpace(torch.ones(4), torch.ones(4), 4, 0.5).tolist() == [4.0, 3.0, 2.0, 1.0]


def test_a_token_outside_the_vocabulary_is_no_label() -> None:
    problem = EDGES["every position an anchor"]
    ids, loss_mask, anchors = problem.tensors
    kept = torch.tensor([1, 4, 10])
    objective = Objective.of(LossConfig(), DrafterConfig(block=2, gamma=GAMMA), kept, VOCABULARY)
    index = objective.index()
    assert index is not None
    found = targets(ids, loss_mask, anchors, problem.shape, GAMMA, index=index)
    # The row says 1, 4, 7, 10: anchor 0 predicts 4, anchor 1 the 7 that is not kept, anchor 2 the 10.
    assert problem.ids == [1, 4, 7, 10]
    assert found.labels[0, :, 0].tolist()[:3] == [1, 0, 2]
    assert found.weights[0, :, 0].tolist() == [1.0, 0.0, 1.0, 0.0]


def test_the_vocabulary_is_of_the_most_frequent_tokens_and_those_that_end_a_text() -> None:
    assert choose_vocabulary([5, 0, 9, 9, 0, 1], 3, always=(4,)).tolist() == [2, 3, 4]
    assert choose_vocabulary([1, 1, 1, 1], 2, always=()).tolist() == [0, 1]


def test_only_inductor_on_a_gpu_takes_the_kernel_that_needs_half_the_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def in_place(*_: object) -> None: ...

    name = "trainer.step.loss_kernel"
    plain = Objective.of(LossConfig(kind="kl"), DrafterConfig()).kernel()
    steps._in_place.cache_clear()
    try:
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, name, SimpleNamespace(chunk_loss_in_place=in_place))
            assert steps.quick_kernel(chunk_loss, "cuda", "inductor") == (in_place, 4096)
            for kernel, kind, backend in (
                (chunk_loss, "cuda", "eager"), (chunk_loss, "cpu", "inductor"), (plain, "cuda", "inductor")
            ):  # fmt: skip
                found, rows = steps.quick_kernel(kernel, kind, backend)
                assert found is not in_place
                assert rows == 2048
        steps._in_place.cache_clear()
        monkeypatch.setitem(sys.modules, "triton", None)
        monkeypatch.delitem(sys.modules, name, raising=False)
        assert capsys.readouterr().err == ""
        assert [steps.quick_kernel(chunk_loss, "cuda", "inductor")[1] for _ in range(2)] == [2048, 2048]
    finally:
        steps._in_place.cache_clear()
    assert capsys.readouterr().err == (
        "note: no triton (import of triton halted; None in sys.modules): the loss is left to torch.compile\n"
    )


def test_the_kernel_on_gpus_does_the_same_where_triton_is_there() -> None:
    pytest.importorskip("triton")
    told = subprocess.run(
        [sys.executable, "-c", _KERNEL], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr


_KERNEL = """
import torch
from trainer.step.loss import chunk_loss
from trainer.step.loss_kernel import BLOCK, chunk_loss_in_place

generator = torch.Generator().manual_seed(0)
for size in (BLOCK, BLOCK + 1000, 50):
    logits = torch.randn(4, size, generator=generator) * 3
    logits[3, [7, 40]] = 50.0
    labels, weights = torch.tensor([size - 1, 0, 9, 40]), torch.tensor([1.0, 0.25, 0.0, 0.5])
    loss, gradient, best = chunk_loss(logits, labels, weights)
    found = chunk_loss_in_place(logits, labels, weights)
    torch.testing.assert_close(found[0], loss)
    torch.testing.assert_close(found[1], gradient)
    assert found[1].data_ptr() == logits.data_ptr()
    assert found[2].tolist() == best.tolist()
    logits[1, 5] = float("nan")
    assert chunk_loss_in_place(logits, labels, weights)[0].isnan()
"""
