"""The fp8 target: a bounded error, the model itself untouched, small layers left alone, other devices refused."""

from pathlib import Path

import pytest
import torch
from torch import nn

from trainer import fp8
from trainer.__main__ import main
from trainer.flops import target_cost
from trainer.fp8 import Float8Linear, quantise, replace_linears
from trainer.target import Target

CPU = torch.device("cpu")


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


def test_a_row_of_zeros_and_a_row_of_large_values_keep_their_scale() -> None:
    rows = torch.stack([torch.zeros(32), torch.linspace(-3e4, 3e4, 32), torch.linspace(-1e-3, 1e-3, 32)])
    values, scale = quantise(rows)
    assert bool(values.float().isfinite().all())
    # e4m3 has 3 bits of mantissa: half a step of 1/8 at most.
    assert bool(((values.float() * scale - rows).abs() <= rows.abs() / 16 + scale / 512).all())


def test_a_layer_with_bias_is_the_linear_one_within_its_error() -> None:
    generator = torch.Generator().manual_seed(3)
    linear = nn.Linear(256, 512).requires_grad_(requires_grad=False)
    with torch.no_grad():
        linear.weight.copy_(torch.randn(512, 256, generator=generator))
    hidden = torch.randn(3, 7, 256, generator=generator)
    made = Float8Linear(linear.to(torch.bfloat16))(hidden.to(torch.bfloat16))
    assert made.shape == (3, 7, 512)
    assert made.dtype == torch.bfloat16
    assert error(made.float(), linear.float()(hidden)) < 0.05


def test_features_are_close_and_the_model_stays_as_it_is(target_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = torch.tensor([[3, 50, 53, 5, 4, 60, 61, 62]])
    plain = Target.load(target_folder, (0, 1, 2), CPU, torch.bfloat16)
    wanted = plain.features(ids)
    monkeypatch.setattr("trainer.target.require_fp8", lambda _device: None)
    monkeypatch.setattr("trainer.target.replace_linears", lambda layer: replace_linears(layer, 1))
    made = Target(plain.model, (0, 1, 2), fp8=True)
    # Four projections of attention and three of the feed-forward in each of three layers.
    assert sum(isinstance(module, Float8Linear) for module in made.trunk.modules()) == 21
    assert not any(isinstance(module, Float8Linear) for module in made.model.modules())
    found = made.features(ids)
    assert 0.001 < error(found.float(), wanted.float()) < 0.1
    assert torch.equal(plain.features(ids), wanted)
    config = plain.config
    assert target_cost(made.layers, config) == target_cost(plain.layers, config)


def test_small_and_odd_layers_are_left_alone() -> None:
    assert fp8.fits(nn.Linear(1024, 1024))
    assert not fp8.fits(nn.Linear(1024, 48))
    assert not fp8.fits(nn.Linear(4096, 1032))
    experts = nn.Module()
    experts.gate, experts.up = nn.Linear(1024, 1024), nn.Linear(1024, 1024)
    assert replace_linears(experts) == 1
    assert type(experts.gate) is nn.Linear


def test_a_device_without_fp8_is_refused(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--profile", "cpu-smoke", "--quiet", "--set", "target.fp8=true", "--output", str(tmp_path / "run")]
    assert main(command) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "error: target.fp8: a CPU does not multiply fp8",
        "hint: set target.fp8=false, or use a GPU of compute capability 8.9 on",
    ]
