"""The flat optimizer against torch's own over separate parameters, and the schedule at its corners."""

import itertools
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from trainer.settings.sections import OptimConfig
from trainer.step import optim
from trainer.step.optim import FlatParameters, Optimizer, learning_rate

CONFIG = OptimConfig(learning_rate=0.01, warmup=0.2, clip=0.5, weight_decay=0.1)
STEPS = 10


def model(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.LayerNorm(7), nn.Linear(7, 3, bias=False)).to(dtype)


def batches(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(4, 5, generator=generator).to(dtype) for _ in range(STEPS)]


def plain(accumulate: int) -> dict[str, torch.Tensor]:
    """Train with torch's parts over separate parameters."""
    net = model()
    groups = [
        {"params": [p for p in net.parameters() if (p.dim() > 1) == wide], "weight_decay": 0.1 if wide else 0.0}
        for wide in (True, False)
    ]
    adam = torch.optim.AdamW(groups, lr=0.01, betas=CONFIG.betas, eps=CONFIG.epsilon)
    for step in range(STEPS // accumulate):
        total = torch.cat(batches()[step * accumulate : (step + 1) * accumulate])
        (net(total).square().sum() / (6.0 * accumulate)).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), CONFIG.clip)
        for group in adam.param_groups:
            group["lr"] = learning_rate(CONFIG, step, STEPS)
        adam.step()
        adam.zero_grad()
    return dict(net.named_parameters())


@pytest.mark.parametrize("accumulate", [1, 2, 5])
def test_flat_buffers_train_like_separate_parameters(accumulate: int) -> None:
    net = model()
    flat = FlatParameters(net)
    optimizer = Optimizer(flat, CONFIG, STEPS)
    for step in range(STEPS // accumulate):
        for part in batches()[step * accumulate : (step + 1) * accumulate]:
            net(part).square().sum().backward()
            flat.collect()
        optimizer.step(step, 6.0 * accumulate)
    for name, wanted in plain(accumulate).items():
        torch.testing.assert_close(dict(net.named_parameters())[name], wanted, rtol=1e-4, atol=1e-6)


def test_norm_is_of_the_averaged_gradient_before_clipping() -> None:
    net = model()
    flat = FlatParameters(net)
    net(batches()[0]).square().sum().backward()
    wanted = (
        torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in net.parameters() if p.grad is not None])) / 3.0
    )
    flat.collect()
    torch.testing.assert_close(Optimizer(flat, CONFIG, STEPS).step(0, 3.0), wanted)


def test_bf16_parameters_follow_masters_that_keep_what_bf16_would_lose() -> None:
    net = model(torch.bfloat16)
    flat = FlatParameters(net)
    optimizer = Optimizer(flat, OptimConfig(learning_rate=1e-5, warmup=0.0), STEPS)
    before = {name: value.clone() for name, value in flat.masters().items()}
    for part in batches(torch.bfloat16):
        net(part).square().sum().backward()
        flat.collect()
        optimizer.step(0, 1.0)
    moved = {name: (value - before[name]).abs().max().item() for name, value in flat.masters().items()}
    # Ten steps of 1e-5: far below the spacing of bf16 near 0.4, and none of it lost.
    assert all(5e-5 < distance < 2e-4 for distance in moved.values()), moved
    for name, parameter in net.named_parameters():
        assert parameter.dtype == torch.bfloat16
        assert torch.equal(parameter, flat.masters()[name].to(torch.bfloat16))


def test_the_kernel_for_gpus_makes_the_same_update() -> None:
    pytest.importorskip("triton")
    # Triton's interpreter runs it without a GPU; it is chosen when triton is imported.
    told = subprocess.run(
        [sys.executable, "-c", _KERNEL], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr


_KERNEL = """
import torch
from trainer.step.optim import Update, _apply
from trainer.step.optim_kernel import apply

generator = torch.Generator().manual_seed(0)
weights = torch.randn(5003, generator=generator)
zeros = torch.zeros_like(weights)
ours, plain = ([weights.clone(), weights.bfloat16(), zeros.clone(), zeros.clone(), zeros.clone()] for _ in range(2))
for step in range(1, 4):
    drawn = torch.randn(5003, generator=generator)
    update = Update(
        shrink=0.999, size=0.01 / (1 - 0.9**step), root=(1 - 0.999**step) ** 0.5, betas=(0.9, 0.999), epsilon=1e-8
    )
    for each, make in ((ours, apply), (plain, _apply)):
        each[2].copy_(drawn)
        make(*each, torch.tensor(3.5), update)
for place in (0, 3, 4):
    torch.testing.assert_close(ours[place], plain[place], rtol=1e-6, atol=1e-6)
# The interpreter cuts off where a GPU rounds.
torch.testing.assert_close(ours[1].float(), ours[0], rtol=2**-7, atol=0)
"""


def test_state_goes_round() -> None:
    nets = [model(), model()]
    flats = [FlatParameters(net) for net in nets]
    optimizers = [Optimizer(flat, CONFIG, STEPS) for flat in flats]

    def advance(which: int, step: int) -> None:
        nets[which](batches()[step]).square().sum().backward()
        flats[which].collect()
        optimizers[which].step(step, 2.0)

    for step in range(3):
        advance(0, step)
    held, taken = optimizers[0].state()
    flats[1].load({name: value.clone() for name, value in flats[0].masters().items()})
    optimizers[1].load({name: value.clone() for name, value in held.items()}, taken)
    for step in range(3, 6):
        advance(0, step)
        advance(1, step)
    assert taken == 3
    assert all(torch.equal(a, b) for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True))


def test_rate_climbs_then_follows_a_cosine() -> None:
    config = OptimConfig(learning_rate=1.0, warmup=0.1, final=0.1)
    rates = [learning_rate(config, step, 100) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.55)
    assert rates[100] == pytest.approx(0.1)
    assert all(later < earlier for earlier, later in itertools.pairwise(rates[10:]))


def test_cuda_without_triton_updates_by_torchs_operations_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "trainer.step.optim_kernel", raising=False)
    optim.update_on.cache_clear()
    try:
        assert [optim.update_on("cuda"), optim.update_on("cuda")] == [optim._apply] * 2
        assert optim.update_on("cpu") is optim._apply
    finally:
        optim.update_on.cache_clear()
    assert capsys.readouterr().err == (
        "note: no triton (import of triton halted; None in sys.modules): the optimizer takes torch's operations one by"
        " one, and more time\n"
    )
