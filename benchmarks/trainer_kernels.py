"""Where a step's time goes on one CUDA device: kernels by time, flex_attention's tiles, fp8 against bf16.

python3 benchmarks/trainer_kernels.py --sections rate,profile,flex,fp8 --out trainer_kernels.json
"""

# ruff: noqa: E402, PLC0415 - the repository root comes onto sys.path first
import argparse
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import torch
from torch.nn.attention.flex_attention import flex_attention
from trainer_gpu import Bench

from trainer.fp8 import Float8Linear
from trainer.model.mask import block_mask
from trainer.optim import Optimizer
from trainer.runtime.steps import DrafterStep, OpenDoor, TargetStep
from trainer.target import Target, published_layer_ids

TILES = {
    "default": {},
    "128 x 64, 8 warps": {"BLOCK_M": 128, "BLOCK_N": 64, "fwd_num_warps": 8},
    "backward 64/64": {"BLOCK_M1": 64, "BLOCK_N1": 64, "BLOCK_M2": 64, "BLOCK_N2": 64},
    "backward 64/128": {"BLOCK_M1": 64, "BLOCK_N1": 128, "BLOCK_M2": 128, "BLOCK_N2": 64},
    "backward 64/128, 8 warps": {
        "BLOCK_M1": 64, "BLOCK_N1": 128, "BLOCK_M2": 128, "BLOCK_N2": 64, "bwd_num_warps": 8, "bwd_num_stages": 2,
    },
    "backward 64/128, 3 stages": {
        "BLOCK_M1": 64, "BLOCK_N1": 128, "BLOCK_M2": 128, "BLOCK_N2": 64, "bwd_num_warps": 8, "bwd_num_stages": 3,
    },
}  # fmt: skip


class Kernels(Bench):
    """The sections."""

    def run_profile(self) -> dict[str, Any]:
        """Sum the kernels of a target step, a drafter step and an optimizer step by name."""
        config = self.config(steps=100, backend=self.arguments.backend)
        parts = self.parts(config)
        target = TargetStep(parts.load_target(self.device), config.run, OpenDoor())
        step = DrafterStep(parts.drafter(self.device), target.target.shared, config.drafter, 5, config.run, OpenDoor())
        optimizer = Optimizer(step.parameters, config.optim, 100)
        batch = parts.maker(pin=False).blank(self.bucket).to(self.device)
        features = target.run(batch)
        found: dict[str, Any] = {}
        for name, work in (
            ("drafter", lambda: step.run(batch, features)), ("target", lambda: target.run(batch)),
            ("optimizer", lambda: optimizer.step(1, batch.weight)),
        ):  # fmt: skip
            seconds = self.timed(work, repeats=5)
            found[name] = {"ms": round(seconds * 1e3, 2), "kernels": self._kernels(work)}
        return found

    def _kernels(self, work: Any) -> list[list[Any]]:
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CUDA if self.device.type == "cuda" else ProfilerActivity.CPU]
        with profile(activities=activities) as traced:
            work()
            if self.device.type == "cuda":
                torch.cuda.synchronize()
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
        for event in traced.events():
            spent = event.device_time if self.device.type == "cuda" else event.cpu_time
            sums[event.name][0] += spent / 1e3
            sums[event.name][1] += 1
        rows = sorted(sums.items(), key=lambda item: -item[1][0])[:45]
        shown = [[name[:150], round(spent, 3), count] for name, (spent, count) in rows]
        for row in shown[:25]:
            print("   ", row, flush=True)
        return shown

    def run_flex(self) -> dict[str, Any]:
        """Time one layer's attention, forward and backward, under several tiles."""
        config = self.config(steps=100)
        parts = self.parts(config)
        batch = parts.maker(pin=False).make(parts.plan.batch(0)).to(self.device)
        mask = block_mask(batch.anchors, batch.shape)
        heads, narrow, wide = parts.shape.heads, parts.shape.key_value_heads, parts.shape.head_dim
        rows, shape = batch.ids.shape[0], batch.shape

        def drawn(count: int, length: int) -> torch.Tensor:
            made = torch.randn(rows, length, count, wide, device=self.device, dtype=self.dtype)
            return made.transpose(1, 2).requires_grad_()

        query, key, value = drawn(heads, shape.queries), drawn(narrow, shape.keys), drawn(narrow, shape.keys)
        upstream = torch.randn(rows, heads, shape.queries, wide, device=self.device, dtype=self.dtype)
        flops = 4.0 * heads * wide * batch.work.visible
        found: dict[str, Any] = {}
        for name, options in TILES.items():
            try:
                run = torch.compile(
                    lambda q, k, v, held=options: flex_attention(
                        q, k, v, block_mask=mask, enable_gqa=True, kernel_options=held
                    ),
                    dynamic=False, backend=self.arguments.backend,
                )  # fmt: skip
                forward = self.timed(lambda one=run: one(query, key, value), repeats=5)
                both = self.timed(lambda one=run: one(query, key, value).backward(upstream), repeats=5)
            except Exception as error:  # noqa: BLE001 - tiles that do not fit are a result
                found[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
                print(name, found[name], flush=True)
                continue
            found[name] = {
                "forward_ms": round(forward * 1e3, 2), "backward_ms": round((both - forward) * 1e3, 2),
                "forward_tflops": round(flops / forward / 1e12), "tflops": round(3 * flops / both / 1e12),
            }  # fmt: skip
            print(name, found[name], flush=True)
        return found

    def run_fp8(self) -> dict[str, Any]:
        """Compare the target in fp8 with bf16: a layer's products, a forward, the error of the features."""
        rows = 2
        ids = torch.randint(10, self.sizes["vocab_size"], (rows, self.length), device=self.device)
        layer = self.model.model.layers[0]
        found: dict[str, Any] = {}
        for name in ("self_attn.q_proj", "self_attn.k_proj", "mlp.gate_proj", "mlp.down_proj"):
            linear = layer.get_submodule(name)
            narrow = Float8Linear(linear)
            given = torch.randn(rows * self.length, linear.in_features, device=self.device, dtype=self.dtype)
            with torch.no_grad():
                exact = given.float() @ linear.weight.float().t()
                plain, made = linear(given).float(), narrow(given).float()
                quick = torch.compile(narrow, dynamic=False, backend=self.arguments.backend)
                found[name] = {
                    "error_fp8": float((made - exact).norm() / exact.norm()),
                    "error_bf16": float((plain - exact).norm() / exact.norm()),
                    "bf16_ms": self.timed(lambda one=linear, x=given: one(x)) * 1e3,
                    "fp8_ms": self.timed(lambda one=quick, x=given: one(x)) * 1e3,
                }
        chosen = published_layer_ids(self.sizes["num_hidden_layers"], 5)
        features = {}
        for name, fp8 in (("bf16", False), ("fp8", True)):
            target = Target(self.model, chosen, fp8=fp8)
            target.compile(self.arguments.backend)
            features[name] = target.features(ids)
            found[f"target {name} ms"] = round(self.timed(lambda one=target: one.features(ids)) * 1e3, 2)
            del target
        wide = self.sizes["hidden_size"]
        for place, layer_id in enumerate(chosen):
            one, other = (features[name][..., place * wide : (place + 1) * wide].float() for name in ("bf16", "fp8"))
            found[f"error of layer {layer_id}"] = round(float((one - other).norm() / one.norm()), 4)
        return found


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", default="rate,profile,flex,fp8")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--tiny", action="store_true")
    Kernels(parser.parse_args()).go()


if __name__ == "__main__":
    main()
