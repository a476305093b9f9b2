"""The fp8 target: a bounded error, the model itself untouched, small layers left alone, other devices refused."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from trainer import fp8
from trainer.__main__ import main
from trainer.assemble import Parts, assemble
from trainer.errors import ConfigError
from trainer.fp8 import Float8Linear, Float8TrainedLinear, multiply_together, narrow_head, quantise, replace_linears
from trainer.runtime.steps import DrafterStep, OpenDoor
from trainer.settings.config import build
from trainer.settings.presets import preset
from trainer.step.flops import target_cost
from trainer.step.loss import Targets, block_loss
from trainer.target.model import Target

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
    monkeypatch.setattr("trainer.target.model.require_fp8", lambda _device, _key: None)
    monkeypatch.setattr(fp8, "FEWEST", 1)
    made = Target(plain.model, (0, 1, 2), fp8=True)
    # Four projections of attention and three of the feed-forward in each of three layers.
    assert sum(isinstance(module, Float8Linear) for module in made.trunk.modules()) == 21
    assert not any(isinstance(module, Float8Linear) for module in made.model.modules())
    found = made.features(ids)
    assert 0.001 < error(found.float(), wanted.float()) < 0.1
    assert torch.equal(plain.features(ids), wanted)
    config = plain.config
    assert target_cost(made.layers, config) == target_cost(plain.layers, config)


def test_what_is_left_alone_is_named_with_the_reason() -> None:
    experts = nn.Module()
    experts.gate, experts.up, experts.norm = nn.Linear(1024, 1024), nn.Linear(1024, 1024), nn.LayerNorm(1024)
    experts.packed = nn.Parameter(torch.empty(4, 1024, 1024))
    with torch.device("meta"):
        layers = nn.ModuleList([experts, nn.Sequential(nn.Linear(1024, 48), nn.Linear(4097, 1030))])
    found = fp8.Split.of(layers, torch.Size([151_669, 1024]))
    assert found == fp8.Split(
        narrow=1,
        wide={
            "*.packed": "not a linear layer",
            "*.gate": "it chooses experts",
            "*.0": "49,152 weights are too few to gain",
            "*.1": "1,030 and 4,097 are no multiples of 16",
            "logits": "151,669 is no multiple of 16",
        },
        layers=1024 * 1024 + 4 * 1024,
        head=0,
    )
    assert found.told("x.fp8") == (
        "x.fp8: in bf16 stay *.packed (not a linear layer); *.gate (it chooses experts);"
        " *.0 (49,152 weights are too few to gain);"
        " *.1 (1,030 and 4,097 are no multiples of 16); logits (151,669 is no multiple of 16)"
    )
    replace_linears(experts)
    assert (type(experts.gate), type(experts.up)) == (nn.Linear, Float8Linear)
    whole = fp8.Split.of(nn.Sequential(nn.Linear(1024, 1024)), torch.Size([151_936, 1024]))
    assert (whole.narrow, whole.told("x.fp8"), whole.head) == (2, "", 151_936 * (1024 + 4))
    with pytest.raises(ConfigError) as caught:
        fp8.Split.of(nn.Sequential(nn.Linear(16, 48))).told("x.fp8")
    assert (caught.value.message, caught.value.hint) == (
        "x.fp8: nothing of it can be multiplied in fp8: 0 (768 weights are too few to gain)", "set x.fp8=false",
    )  # fmt: skip


# What dynamo itself does with a tensor that is no leaf and with an autograd.Function.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor", "ignore:.*should not be instantiated")
def test_a_run_says_what_stays_in_bf16(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cache.is_dir()
    for place in ("trainer.assemble", "trainer.runtime.steps"):
        monkeypatch.setattr(f"{place}.require_fp8", lambda _device, _key: None)
    monkeypatch.setattr(fp8, "FEWEST", 1)
    command = [
        "--profile", "cpu-smoke", "--steps", "1", "--compile", "on", "--set", "run.backend=eager",
        "--set", "drafter.fp8=true", "--set", "drafter.vocabulary=50", "--set", "run.evaluate=0",
        "--set", "data.buckets=[64]", "--set", "data.tokens=64", "--output", str(tmp_path),
    ]  # fmt: skip
    assert main(command) == 0
    assert "drafter.fp8: in bf16 stay logits (50 is no multiple of 16)" in capsys.readouterr().err.splitlines()
    start = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])
    assert start["fp8"] == {"drafter.fp8": {"narrow": 15, "wide": {"logits": "50 is no multiple of 16"}}}


@pytest.mark.parametrize("key", ["target.fp8", "drafter.fp8"])
def test_a_device_without_fp8_is_refused(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    command = ["--profile", "cpu-smoke", "--quiet", "--set", f"{key}=true", "--output", str(tmp_path / "run")]
    assert main(command) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: {key}: a CPU does not multiply fp8",
        f"hint: set {key}=false, or use a GPU of compute capability 8.9 on",
    ]


def test_a_layer_that_learns_is_the_linear_one_within_its_error() -> None:
    generator = torch.Generator().manual_seed(4)
    linear = nn.Linear(256, 512, bias=False).to(torch.bfloat16)
    hidden, upstream = (
        torch.randn(3, 7, size, generator=generator).to(torch.bfloat16).requires_grad_() for size in (256, 512)
    )
    found = {}
    for name, layer in (("plain", linear), ("fp8", Float8TrainedLinear(linear))):
        made = layer(hidden)
        found[name] = (made.detach(), *torch.autograd.grad(made, (hidden, linear.weight), upstream.detach()))
    for place, (mine, wanted) in enumerate(zip(found["fp8"], found["plain"], strict=True)):
        assert (mine.shape, mine.dtype) == (wanted.shape, wanted.dtype)
        # The weights' gradient is the bf16 product itself.
        assert torch.equal(mine, wanted) if place == 2 else 0.01 < error(mine.float(), wanted.float()) < 0.06


def test_logits_in_fp8_leave_the_loss_and_the_states_gradient_close() -> None:
    generator = torch.Generator().manual_seed(5)
    head = torch.randn(160, 64, generator=generator)
    states = torch.randn(2, 8, 64, generator=generator).requires_grad_()
    wanted = Targets(labels=torch.randint(0, 160, (2, 2, 3), generator=generator), weights=torch.ones(2, 2, 3))
    losses, gradients = [], []
    for narrow in (None, narrow_head(head)):
        loss = block_loss(states, head, wanted, narrow=narrow).loss_sum
        losses.append(float(loss.detach()))
        gradients.append(torch.autograd.grad(loss, states)[0])
    assert 0.0001 < abs(losses[1] / losses[0] - 1.0) < 0.05
    assert 0.001 < error(gradients[1], gradients[0]) < 0.2
    assert narrow_head(head[:150]) is None


def steps(target_folder: Path, **drafter: object) -> tuple[Parts, DrafterStep]:
    parts = assemble(
        build("cpu-smoke", [
            preset("cpu-smoke"),
            {"target": {"path": str(target_folder)}, "run": {"evaluate": 0, "compile": "on", "backend": "eager"},
             "drafter": {"layers": 2, "anchors": 8, **drafter}, "data": {"buckets": [64], "tokens": 64}},
        ])
    )  # fmt: skip
    target = parts.load_target(CPU)
    config = parts.config
    return parts, DrafterStep(
        parts.drafter(CPU), target.shared, config.drafter, parts.mask_token, config.run, OpenDoor()
    )


# What dynamo itself does with a tensor that is no leaf and with an autograd.Function.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor", "ignore:.*should not be instantiated")
def test_a_drafter_in_fp8_learns_nearly_the_same(
    cache: Path, target_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.is_dir()
    monkeypatch.setattr("trainer.runtime.steps.require_fp8", lambda _device, _key: None)
    monkeypatch.setattr(fp8, "FEWEST", 1)
    parts, plain = steps(target_folder)
    _, narrow = steps(target_folder, fp8=True)
    batch = parts.maker(pin=False).make(parts.plan.batch(0))
    features = torch.randn(*batch.ids.shape, plain.width, generator=torch.Generator().manual_seed(6))
    wanted, found = plain.run(batch, features), narrow.run(batch, features)
    assert 0.0 < abs(float(found.loss_sum / wanted.loss_sum) - 1.0) < 0.02
    gradients = list(zip(narrow.parameters.gradients(), plain.parameters.gradients(), strict=True))
    assert all(0.0 < error(mine, other) < 0.2 for mine, other in gradients)
    # What is stored, and what decodes, is the model as it is.
    assert narrow.parameters.masters().keys() == plain.parameters.masters().keys()
    assert not any(isinstance(module, Float8TrainedLinear) for module in narrow.model.modules())


def test_a_drafter_that_compiles_nothing_or_has_no_large_layer_is_refused(
    cache: Path, target_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.is_dir()
    monkeypatch.setattr("trainer.runtime.steps.require_fp8", lambda _device, _key: None)
    with pytest.raises(ConfigError) as caught:
        steps(target_folder, fp8=True)
    assert caught.value.message.startswith("drafter.fp8: nothing of it can be multiplied in fp8: fc (")
    monkeypatch.setattr("trainer.runtime.steps.compiles", lambda _switch, _device: False)
    with pytest.raises(ConfigError) as caught:
        steps(target_folder, fp8=True)
    assert (caught.value.message, caught.value.hint) == (
        "drafter.fp8: only compiled steps multiply in fp8", "use --compile on",
    )  # fmt: skip


@pytest.mark.parametrize("kind", [nn.Linear, Float8TrainedLinear])
def test_layers_multiplied_together_are_the_layers_side_by_side(kind: type) -> None:
    torch.manual_seed(0)
    plain = [nn.Linear(32, size, bias=False) for size in (16, 48)]
    layers = plain if kind is nn.Linear else [Float8TrainedLinear(each) for each in plain]
    hidden, upstream = torch.randn(2, 5, 32), torch.randn(2, 5, 64)
    wanted = torch.cat([layer(hidden) for layer in layers], dim=-1)
    (wanted * upstream).sum().backward()
    apart = [layer.weight.grad for layer in plain]
    for layer in plain:
        layer.weight.grad = None
    found = multiply_together(hidden, *layers)
    (found * upstream).sum().backward()
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close([layer.weight.grad for layer in plain], apart)
