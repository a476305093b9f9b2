"""Where a step's time goes on one CUDA device: kernels by time, flex_attention's tiles, fp8 against bf16.

python3 benchmarks/trainer_kernels.py --sections rate,profile,flex,fp8 --out trainer_kernels.json
python3 benchmarks/trainer_kernels.py --chat --pack --sections rate,documents --out trainer_documents.json
python3 benchmarks/trainer_kernels.py --sections rate,loss,collect --out trainer_parts.json
python3 benchmarks/trainer_kernels.py --sections rate,layouts,update --out trainer_layouts.json
python3 benchmarks/trainer_kernels.py --sections rate,sustained --out trainer_sustained.json
"""

# ruff: noqa: E402, PLC0415 - the repository root comes onto sys.path first
import argparse
import inspect
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention
from trainer_gpu import Bench

from trainer.data.packing import causal_within
from trainer.drafter.mask import block_mask, document_mask
from trainer.fp8 import Float8Linear
from trainer.runtime.steps import DrafterStep, OpenDoor, TargetStep
from trainer.step.loss import ChunkResult, Targets, block_loss, chunk_loss
from trainer.step.optim import FlatParameters, Optimizer, _views, learning_rate
from trainer.target.model import Target, published_layer_ids

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
    "tma": {"USE_TMA": True},
    "tma, scaled first": {"USE_TMA": True, "PRESCALE_QK": True},
    "forward 128/128": {"fwd_BLOCK_M": 128, "fwd_BLOCK_N": 128, "fwd_num_warps": 8, "fwd_num_stages": 2},
    "forward 128/64, 3 stages": {"fwd_BLOCK_M": 128, "fwd_BLOCK_N": 64, "fwd_num_warps": 4, "fwd_num_stages": 3},
    "backward 128/128": {
        "bwd_BLOCK_M1": 128, "bwd_BLOCK_N1": 128, "bwd_BLOCK_M2": 128, "bwd_BLOCK_N2": 128, "bwd_num_warps": 8,
        "bwd_num_stages": 2,
    },
    "backward 64/128, 4 warps": {
        "bwd_BLOCK_M1": 64, "bwd_BLOCK_N1": 128, "bwd_BLOCK_M2": 128, "bwd_BLOCK_N2": 64, "bwd_num_warps": 4,
        "bwd_num_stages": 3,
    },
    "backward 32/128": {
        "bwd_BLOCK_M1": 32, "bwd_BLOCK_N1": 128, "bwd_BLOCK_M2": 128, "bwd_BLOCK_N2": 32, "bwd_num_warps": 4,
        "bwd_num_stages": 3,
    },
}  # fmt: skip


def online_loss(
    logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, teacher: torch.Tensor | None = None
) -> ChunkResult:
    """Return what chunk_loss returns, the peak and the sum of exponentials found together."""
    del teacher
    wide = logits.float()
    peak = wide.amax(-1, keepdim=True)
    normaliser = peak + (wide - peak).exp().sum(-1, keepdim=True).log()
    picked = wide.gather(-1, labels[:, None])
    total = ((normaliser - picked).squeeze(-1) * weights).sum()
    hit = torch.arange(wide.shape[-1], device=wide.device) == labels[:, None]
    gradient = (torch.exp(wide - normaliser) - hit.float()) * weights[:, None]
    return total, gradient.to(logits.dtype), wide.argmax(-1)


def first_of_peak(
    logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor, teacher: torch.Tensor | None = None
) -> ChunkResult:
    """Return the same, the argmax as the first place that has the peak, found in the pass of the gradient."""
    del teacher
    wide = logits.float()
    peak = wide.amax(-1, keepdim=True)
    normaliser = peak + (wide - peak).exp().sum(-1, keepdim=True).log()
    picked = wide.gather(-1, labels[:, None])
    total = ((normaliser - picked).squeeze(-1) * weights).sum()
    place = torch.arange(wide.shape[-1], device=wide.device, dtype=torch.int32)
    gradient = (torch.exp(wide - normaliser) - (place == labels[:, None]).float()) * weights[:, None]
    best = torch.where(wide == peak, place, wide.shape[-1]).amin(-1)
    return total, gradient.to(logits.dtype), best.long()


LOSSES = {"compiled": chunk_loss, "online": online_loss, "first of the peak": first_of_peak}


class Kernels(Bench):
    """The sections."""

    def run_sustained(self) -> dict[str, Any]:
        """Time the product of the rate without a pause: what the card holds at its power limit."""
        size, count = (512, 10) if self.arguments.tiny else (8192, 200)
        left, right = (torch.randn(size, size, device=self.device, dtype=self.dtype) for _ in range(2))

        def products() -> None:
            for _ in range(count):
                left @ right

        return {"tflops": round(2 * count * size**3 / self.timed(products) / 1e12, 1), "products": count}

    def run_profile(self) -> dict[str, Any]:
        """Sum the kernels of a target step, a drafter step and an optimizer step by name."""
        config = self.config(steps=100, backend=self.arguments.backend)
        parts = self.parts(config)
        target = TargetStep(parts.load_target(self.device), config.run, OpenDoor())
        step = DrafterStep(parts.drafter(self.device), target.target.shared, config.drafter, 5, config.run, OpenDoor())
        optimizer = Optimizer(step.parameters, config.optim, 100)
        batch = parts.maker(pin=False).blank(config.data.buckets[-1]).to(self.device)
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

    def run_documents(self) -> dict[str, Any]:
        """Compare the target's attention over packed rows: a dense table, tiles of each document, one layer and all."""
        config = self.config(steps=100)
        parts = self.parts(config)
        batch = parts.maker(pin=False).make(parts.plan.batch(0)).to(self.device)
        packed = batch.packed
        sizes = parts.target_config
        heads, narrow = sizes.num_attention_heads, sizes.num_key_value_heads
        width = sizes.hidden_size // heads if sizes.head_dim is None else sizes.head_dim
        rows, length = batch.ids.shape
        query, key, value = (
            torch.randn(rows, length, count, width, device=self.device, dtype=self.dtype).transpose(1, 2)
            for count in (heads, narrow, narrow)
        )
        found: dict[str, Any] = {"documents": [len(row) for row in parts.plan.batch(0).layout]}
        table, tiles = causal_within(packed.documents), document_mask(packed.places)
        wanted = scaled_dot_product_attention(query, key, value, attn_mask=table, enable_gqa=True)
        flex = torch.compile(flex_attention, dynamic=False, backend=self.arguments.backend)
        wide = [each.repeat_interleave(heads // narrow, dim=1) for each in (key, value)]
        arms = {
            "dense": lambda: scaled_dot_product_attention(query, *wide, attn_mask=table),
            "causal, one document": lambda: scaled_dot_product_attention(query, *wide, is_causal=True),
            "tiles": lambda: flex(query, key, value, block_mask=tiles, enable_gqa=True),
        }
        for name, work in {**arms, "varlen": lambda: self._varlen(packed, query, wide)}.items():
            try:
                with torch.no_grad():
                    made = work()
                    seconds = self.timed(work)
            except Exception as error:  # noqa: BLE001 - an arm that this torch or device does not have is a result
                found[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
                continue
            away = float((made.float() - wanted.float()).norm() / wanted.float().norm())
            found[name] = {"layer_ms": round(seconds * 1e3, 3), "from_dense": round(away, 5)}
            print(name, found[name], flush=True)
        found["mask_ms"] = round(self.timed(lambda: document_mask(packed.places)) * 1e3, 3)
        chosen = published_layer_ids(self.sizes["num_hidden_layers"], 5)
        features = {}
        for name, packs in (("dense", False), ("tiles", True)):
            target = Target(self.model, chosen)
            if packs:
                target.pack_rows()
            target.compile(self.arguments.backend)
            features[name] = target.features(batch.ids, packed)
            spent = self.timed(lambda one=target: one.features(batch.ids, packed))
            found[f"target, {name}, ms"] = round(spent * 1e3, 2)
        away = (features["dense"].float() - features["tiles"].float()).norm() / features["dense"].float().norm()
        found["features_from_dense"] = float(away)
        return found

    def _varlen(self, packed: Any, query: torch.Tensor, wide: list[torch.Tensor]) -> torch.Tensor:
        from torch.nn.attention.varlen import varlen_attn

        begins = (packed.places == 0).flatten().nonzero().flatten().to(torch.int32)
        ends = torch.tensor([packed.places.numel()], dtype=torch.int32, device=self.device)
        bounds, length = torch.cat([begins, ends]), query.shape[2]
        flat = [each.transpose(1, 2).flatten(0, 1) for each in (query, *wide)]
        known = inspect.signature(varlen_attn).parameters
        causal = {"is_causal": True} if "is_causal" in known else {"window_size": (-1, 0)}
        made = varlen_attn(*flat, bounds, bounds, length, length, **causal)
        return made.unflatten(0, (query.shape[0], length)).transpose(1, 2)

    def run_loss(self) -> dict[str, Any]:
        """Time the loss through the head by rows of logits at a time and by how the chunk's kernel is written."""
        vocabulary, hidden = self.sizes["vocab_size"], self.sizes["hidden_size"]
        head = torch.randn(vocabulary, hidden, device=self.device, dtype=self.dtype) * 0.02
        blocks = 16 if self.arguments.tiny else 512
        states = torch.randn(2, blocks * 16, hidden, device=self.device, dtype=self.dtype).requires_grad_()
        wanted = Targets(
            labels=torch.randint(0, vocabulary, (2, blocks, 15), device=self.device),
            weights=torch.rand(2, blocks, 15, device=self.device),
        )
        found: dict[str, Any] = {}
        told = None
        kernels: dict[str, Any] = {
            name: torch.compile(kernel, fullgraph=True, dynamic=False, backend=self.arguments.backend)
            for name, kernel in LOSSES.items()
        }
        if self.device.type == "cuda":
            from trainer.step.loss_kernel import chunk_loss_in_place

            kernels["one kernel, in place"] = chunk_loss_in_place
        for name, quick in kernels.items():
            for rows in (2048, 4096, 8192):

                def work(one: Any = quick, size: int = rows) -> Any:
                    return block_loss(states, head, wanted, chunk=size, kernel=one)

                parts = work()
                told = told or parts
                found[f"{name}, {rows}"] = {
                    "ms": round(self.timed(work, repeats=5) * 1e3, 2),
                    "loss_off": float(parts.loss_sum.detach() / told.loss_sum.detach()) - 1,
                    "counts_equal": bool(torch.equal(parts.correct, told.correct)),
                    "peak_gb": self.peak(),
                }
                print(name, rows, found[f"{name}, {rows}"], flush=True)
        return found

    def run_collect(self) -> dict[str, Any]:
        """Time the ways to bring bf16 gradients into the flat fp32 sums."""
        parts = self.parts(self.config(steps=100))
        model = parts.drafter(self.device)
        flat = FlatParameters(model)
        optimizer = Optimizer(flat, self.config(steps=100).optim, 100)
        grads = [torch.randn_like(each) for group in flat.groups for each in group.parameters]
        views = [view for group in flat.groups for view in _views(group.gradient, group.parameters)]
        arms = {
            "copy, one by one": lambda: [view.copy_(grad) for view, grad in zip(views, grads, strict=True)],
            "copy, foreach": lambda: torch._foreach_copy_(views, grads),
            "add, one by one": lambda: [view.add_(grad) for view, grad in zip(views, grads, strict=True)],
            "add, foreach": lambda: torch._foreach_add_(views, grads),
            "optimizer": lambda: optimizer.step(1, 1000.0),
        }
        return {name: round(self.timed(work) * 1e3, 3) for name, work in arms.items()}

    def run_layouts(self) -> dict[str, Any]:
        """Time the products of the hidden states' gradients with the weight as it is and transposed in memory."""
        hidden, wide = self.sizes["hidden_size"], self.sizes["intermediate_size"]
        narrow = self.sizes["num_key_value_heads"] * self.sizes["head_dim"]
        block = 2 * (256 if self.arguments.tiny else 8192)
        cases = {
            "head": (1920, self.sizes["vocab_size"], hidden), "head, 3840": (3840, self.sizes["vocab_size"], hidden),
            "gate, up": (block, wide, hidden), "down": (block, hidden, wide), "q, o": (block, hidden, hidden),
            "k, v": (block + 2 * self.length, narrow, hidden),
        }  # fmt: skip
        found: dict[str, Any] = {}
        for name, (rows, outputs, inputs) in cases.items():
            given = torch.randn(rows, outputs, device=self.device, dtype=self.dtype)
            weight = torch.randn(outputs, inputs, device=self.device, dtype=self.dtype)
            turned = weight.t().contiguous()
            arms = {
                "as it is": lambda g=given, w=weight: g @ w, "transposed": lambda g=given, w=turned: g @ w.t(),
                "the copy": lambda w=weight: w.t().contiguous(),
            }  # fmt: skip
            found[name] = {}
            for arm, work in arms.items():
                seconds = self.timed(work, repeats=20)
                found[name][f"{arm}, ms"] = round(seconds * 1e3, 3)
                if arm != "the copy":
                    found[name][f"{arm}, tflops"] = round(2 * rows * outputs * inputs / seconds / 1e12)
            print(name, found[name], flush=True)
        return found

    def run_update(self) -> dict[str, Any]:
        """Compare the optimizer's kernel with torch's fused AdamW: the time, and the weights after three steps."""
        config = self.config(steps=100).optim
        flat = FlatParameters(self.parts(self.config(steps=100)).drafter(self.device))
        optimizer = Optimizer(flat, config, 100)
        master = flat.groups[0].master.clone()
        adam = torch.optim.AdamW(
            [master], lr=1.0, betas=config.betas, eps=config.epsilon, weight_decay=0.0, fused=master.is_cuda
        )
        for step in range(3):
            for group in flat.groups:
                group.gradient.normal_()
            master.grad = flat.groups[0].gradient.clone()
            norm = optimizer.step(step, 1.0)
            master.grad /= torch.clamp((norm + 1e-6) / config.clip, min=1.0)
            adam.param_groups[0]["lr"] = learning_rate(config, step, 100)
            adam.step()
        held = flat.groups[0]
        return {
            "largest_difference": float((held.master - master).abs().max()),
            "working_equals_master": bool(torch.equal(held.working, held.master.to(held.working.dtype))),
            "ms": round(self.timed(lambda: optimizer.step(4, 1.0)) * 1e3, 2),
            "torch, fused, without norm and copy, ms": round(self.timed(adam.step) * 1e3, 2),
        }

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
    parser.add_argument("--chat", action="store_true", help="short rows")
    parser.add_argument("--pack", action="store_true", help="several of them in a row")
    parser.add_argument("--fp8", action="store_true", help="the target's linear layers in fp8")
    parser.add_argument("--drafter-fp8", action="store_true", help="the drafter's linear layers in fp8")
    Kernels(parser.parse_args()).go()


if __name__ == "__main__":
    main()
