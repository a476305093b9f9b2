"""Copies of functions: separate code, one copy for the many bindings of one function, the same behaviour."""

import pytest
import torch

from trainer.compile.private_code import private
from trainer.drafter.model import Drafter, DrafterShape
from trainer.errors import ConfigError

SHAPE = DrafterShape(hidden=8, layers=3, heads=2, key_value_heads=1, head_dim=4, intermediate=8, features=1)


def scaled(value: int, *, by: int = 3) -> int:
    """Multiply."""
    return value * by


def test_a_copy_has_code_of_its_own_and_does_the_same() -> None:
    first, second = private([scaled]) + private([scaled])
    assert len({id(function.__code__) for function in (scaled, first, second)}) == 3
    assert (first(2), first(2, by=5), first.__name__) == (6, 10, "scaled")


def test_the_layers_of_a_model_share_one_copy_and_stay_bound() -> None:
    model, other = Drafter(SHAPE), Drafter(SHAPE)
    made = private(layer.forward for layer in model.layers)
    assert len({id(function.__func__.__code__) for function in made}) == 1
    assert [function.__self__ for function in made] == list(model.layers)
    (foreign,) = private([other.layers[0].forward])
    assert foreign.__func__.__code__ is not made[0].__func__.__code__


def test_closures_keep_what_they_close_over() -> None:
    offset = torch.tensor(2)

    def shifted(states: torch.Tensor) -> torch.Tensor:
        return states + offset

    (copy,) = private([shifted])
    offset += 1
    assert copy(torch.tensor(1)) == 4


def test_what_has_no_code_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        private([len])
    assert (caught.value.message, caught.value.hint) == (
        "run.compile: <built-in function len> is not a Python function, so it cannot be compiled for one worker alone",
        "load the model without what wraps its layers (quantisation or offload hooks), or use --compile off",
    )
