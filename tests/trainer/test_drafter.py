"""The drafter block by block: against plain float64 loops, and what may and may not change a block's output."""

import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings

from tests.trainer import reference
from tests.trainer.cases import EDGES, SHAPE, VOCABULARY, Problem, drawn, problems, small_drafter
from trainer.drafter.attention import require_dense_fits
from trainer.drafter.mask import BlockShape, block_mask, dense_mask, noise_tokens, positions
from trainer.drafter.model import Drafter, Masks
from trainer.errors import CompileStateError, DenseAttentionError, TargetModelError
from trainer.step.loss import block_loss, targets

GAMMA = 3.0
SIZES = {
    "heads": SHAPE.heads, "key_value_heads": SHAPE.key_value_heads, "head_dim": SHAPE.head_dim, "layers": SHAPE.layers,
    "epsilon": SHAPE.epsilon, "rope_theta": SHAPE.rope_theta,
}  # fmt: skip


def run(
    model: Drafter, features: torch.Tensor, ids: torch.Tensor, anchors: torch.Tensor, shape: BlockShape
) -> torch.Tensor:
    table = drawn(99, VOCABULARY + 1, SHAPE.hidden)
    block = table[noise_tokens(ids, anchors, shape, VOCABULARY)]
    sliding = dense_mask(anchors, shape, model.shape.window) if model.shape.sliding else None
    masks = Masks(full=dense_mask(anchors, shape), sliding=sliding)
    return model(features, block, positions(anchors, shape), masks)


def check(problem: Problem) -> None:
    for sliding in ((), (1,), (0, 1)):
        check_layers(problem, sliding)


def check_layers(problem: Problem, sliding: tuple[int, ...]) -> None:
    shape, (ids, loss_mask, anchors) = problem.shape, problem.tensors
    window = 4 if sliding else 0
    model = small_drafter(problem.seed, replace(SHAPE, sliding=sliding, window=window))
    features = drawn(problem.seed + 1, 1, shape.context, SHAPE.features * SHAPE.hidden)
    head = drawn(problem.seed + 2, VOCABULARY, SHAPE.hidden)
    hidden = run(model, features, ids, anchors, shape)
    weights = {name: parameter.detach().clone().requires_grad_() for name, parameter in model.named_parameters()}
    table = drawn(99, VOCABULARY + 1, SHAPE.hidden)
    tokens = noise_tokens(ids, anchors, shape, VOCABULARY)[0]
    sizes = reference.Sizes(context=shape.context, width=shape.width, sliding=sliding, window=window, **SIZES)
    wanted = reference.drafter(weights, features[0], table[tokens], problem.anchors, sizes)
    torch.testing.assert_close(hidden[0], wanted, rtol=1e-9, atol=1e-9)
    block_loss(hidden, head, targets(ids, loss_mask, anchors, shape, GAMMA)).loss_sum.backward()
    total = reference.loss_sum(wanted, head, problem.ids, problem.loss_mask, problem.anchors, shape.width, GAMMA)
    if total.requires_grad:
        total.backward()
    for name, parameter in model.named_parameters():
        mine, plain = parameter.grad, weights[name].grad
        expected = torch.zeros_like(parameter) if plain is None else plain
        # The loss weights are float32, so gradients agree to its precision.
        torch.testing.assert_close(
            torch.zeros_like(parameter) if mine is None else mine, expected, rtol=1e-5, atol=1e-7
        )


@pytest.mark.property
@settings(max_examples=10, deadline=None)
@given(problems(most=8))
def test_outputs_and_gradients_equal_plain_loops(problem: Problem) -> None:
    check(problem)


@pytest.mark.parametrize("name", EDGES)
def test_outputs_and_gradients_at_the_edges(name: str) -> None:
    check(EDGES[name])


def test_a_block_depends_on_its_past_and_on_nothing_else() -> None:
    shape = BlockShape(context=10, blocks=3, width=4)
    anchors, ids = torch.tensor([[2, 5, 8]]), torch.arange(10)[None]
    model = small_drafter(1)
    features = drawn(2, 1, 10, SHAPE.features * SHAPE.hidden)
    base = run(model, features, ids, anchors, shape).view(3, 4, -1)

    def changed(at: int) -> list[bool]:
        other = features.clone()
        other[0, at] += 1.0
        moved = run(model, other, ids, anchors, shape).view(3, 4, -1)
        return [not torch.equal(moved[block], base[block]) for block in range(3)]

    assert [changed(at) for at in (1, 2, 4, 5, 7, 8, 9)] == [
        [True, True, True], [False, True, True], [False, True, True], [False, False, True], [False, False, True],
        [False, False, False], [False, False, False],
    ]  # fmt: skip
    tokens = ids.clone()
    tokens[0, 5] = 0
    moved = run(model, features, tokens, anchors, shape).view(3, 4, -1)
    assert [torch.equal(moved[block], base[block]) for block in range(3)] == [True, False, True]


def test_padding_a_row_or_adding_rows_changes_nothing() -> None:
    model, ids = small_drafter(3), torch.arange(6)[None]
    features = drawn(4, 1, 6, SHAPE.features * SHAPE.hidden)
    narrow = run(model, features, ids, torch.tensor([[1, 4]]), BlockShape(context=6, blocks=2, width=3))
    wide = run(
        model,
        torch.cat([torch.cat([features, drawn(5, 1, 3, 16)], 1), drawn(6, 1, 9, 16)]),
        torch.cat([torch.cat([ids, torch.zeros(1, 3, dtype=ids.dtype)], 1), torch.ones(1, 9, dtype=ids.dtype)]),
        torch.tensor([[1, 4, -1], [0, 2, 7]]),
        BlockShape(context=9, blocks=3, width=3),
    )
    torch.testing.assert_close(wide[0, :6], narrow[0], rtol=1e-12, atol=1e-12)


def test_recomputing_activations_gives_the_same_gradients() -> None:
    gradients = []
    for recompute in (False, True):
        model = small_drafter(5)
        model.recompute = recompute
        features = drawn(6, 1, 6, 16)
        anchors, shape = torch.tensor([[1, 3]]), BlockShape(context=6, blocks=2, width=3)
        run(model, features, torch.arange(6)[None], anchors, shape).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(plain, again) for plain, again in zip(*gradients, strict=True))


def test_features_of_another_shape_are_named() -> None:
    model = Drafter(SHAPE)
    with pytest.raises(TargetModelError) as caught:
        model(
            torch.zeros(1, 20, 2, 8),
            torch.zeros(1, 4, 8),
            torch.zeros(1, 24),
            Masks(full=dense_mask(torch.tensor([[1]]), BlockShape(context=20, blocks=1, width=4))),
        )
    assert caught.value.message == (
        "target features have shape [1, 20, 2, 8]; the drafter takes [rows, positions, 16] (2 layers x hidden 8 on the"
        " last axis)"
    )
    assert caught.value.hint == "concatenate the selected layers on the last axis instead of stacking them"


def test_dense_attention_that_would_not_fit_says_how_much_it_takes() -> None:
    with pytest.raises(DenseAttentionError) as caught:
        require_dense_fits(1, 32, BlockShape(context=40_000, blocks=1024, width=32), 4_000_000_000)
    assert caught.value.message == (
        "dense attention would not fit: 1 rows x 32 heads x 32,768 queries x 72,768 keys x 4 bytes = 305.2 GB of scores"
        " a layer, and 4.0 GB are allowed"
    )


def test_uncompiled_flex_is_refused_not_run() -> None:
    anchors, shape = torch.tensor([[1, 3]]), BlockShape(context=6, blocks=2, width=3)
    with pytest.raises(CompileStateError, match=re.escape("outside a compiled region")):
        Drafter(SHAPE)(
            torch.zeros(1, 6, 16),
            torch.zeros(1, 6, 8),
            positions(anchors, shape),
            Masks(full=block_mask(anchors, shape)),
        )


def test_weights_come_from_the_seed_and_not_from_the_global_generator() -> None:
    drawn_weights = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        model = Drafter(SHAPE)
        model.reset(3)
        drawn_weights.append({name: parameter.detach() for name, parameter in model.named_parameters()})
    assert all(torch.equal(drawn_weights[0][name], drawn_weights[1][name]) for name in drawn_weights[0])
    assert sorted(drawn_weights[0])[:3] == ["fc.weight", "hidden_norm.weight", "layers.0.input_layernorm.weight"]
