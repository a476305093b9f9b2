"""Throughput, MFU and memory of the trainer on one CUDA device, beside plain alternatives, in one run.

    python3 benchmarks/trainer_gpu.py --sections rate,target,train,parts --out trainer_gpu.json
    python3 benchmarks/trainer_gpu.py --sections rate,baseline,dense --out trainer_gpu_plain.json
    python3 benchmarks/trainer_gpu.py --sections rate,incident --out trainer_gpu_incident.json
    python3 benchmarks/trainer_gpu.py --sections rate,cached --out trainer_gpu_cached.json
    python3 benchmarks/trainer_gpu.py --sections rate,train,parts --fp8 --out trainer_gpu_fp8.json

Weights are random, sizes are Qwen3-8B's (and the 5120-wide drafter of the 25,600 -> 5,120 setting). MFU is useful
FLOPs (trainer/step/flops.py) over the rate of an 8192-cubed bf16 product on this card in this run.
"""

# ruff: noqa: E402, PLC0415 - the repository root comes onto sys.path first
import argparse
import dataclasses
import gc
import json
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from trainer.assemble import Parts, drafter_shape
from trainer.compile.state import compile_counts, prepare_thread
from trainer.data.buckets import Plan
from trainer.data.loader import Batch, BatchMaker
from trainer.data.rows import Row, RowList
from trainer.device import matmul_rate, wait_for
from trainer.drafter.model import Drafter, DrafterShape
from trainer.records.metrics import Progress
from trainer.runtime import inline
from trainer.runtime.session import Session
from trainer.runtime.steps import DrafterStep, OpenDoor, TargetStep
from trainer.settings.config import TrainConfig, build
from trainer.settings.sections import CacheConfig, DataConfig
from trainer.step.flops import drafter_step, target_cost
from trainer.step.optim import Optimizer
from trainer.target.model import SharedWeights, Target, published_layer_ids
from trainer.target.tensor_parallel import TensorGroup

LARGE = {
    "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960,
    "rope_theta": 1_000_000.0,
}  # fmt: skip
TINY = {
    "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 8, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 4096, "rope_theta": 10_000.0,
}  # fmt: skip
WIDE = DrafterShape(
    hidden=5120, layers=5, heads=32, key_value_heads=8, head_dim=128, intermediate=17408, features=5, rope_theta=1e7
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RandomParts(Parts):
    """Parts of a run whose target is made of random weights on the device."""

    model: Any

    def load_target(self, device: torch.device, group: TensorGroup | None = None) -> Target:
        """Return the model that is there already."""
        del device, group
        target = Target(self.model, self.layer_ids, fp8=self.config.target.fp8)
        if self.config.data.pack:
            target.pack_rows()
        return target


class Bench:
    """The sections, and what they share."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Choose the sizes; models are made when a section first needs them."""
        self.arguments = arguments
        self.device = torch.device(arguments.device)
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self.sizes = TINY if arguments.tiny else LARGE
        self.length = 256 if arguments.tiny else 4096
        self.bucket = self.length // 4 if getattr(arguments, "chat", False) else self.length
        self.rate = 1.0
        self._model: Any = None
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        self.record: dict[str, Any] = {
            "date": time.strftime("%Y-%m-%d"), "torch": torch.__version__, "device": name, "argv": sys.argv[1:],
            "sections": {},
        }  # fmt: skip

    @property
    def model(self) -> Any:
        """The random-weight causal LM."""
        if self._model is None:
            config = Qwen3Config(**self.sizes, tie_word_embeddings=False)
            torch.manual_seed(0)
            with torch.device(self.device):
                self._model = AutoModelForCausalLM.from_config(config, dtype=self.dtype, attn_implementation="sdpa")
            self._model.eval().requires_grad_(requires_grad=False)
        return self._model

    def config(self, **run: Any) -> TrainConfig:
        """Return the run's config at this size."""
        anchors, rows = (16, 2) if self.arguments.tiny else (512, self.arguments.rows)
        drafter = {
            "layers": 5,
            "block": 16,
            "anchors": anchors,
            "mask_token": 5,
            "fp8": getattr(self.arguments, "drafter_fp8", False),
        }
        if getattr(self.arguments, "sliding", False):
            drafter |= {"sliding_layers": [0, 1, 2, 3], "sliding_window": 64 if self.arguments.tiny else 2048}
        return build("bench", [
            {"target": {"features": 5, "fp8": getattr(self.arguments, "fp8", False)}, "drafter": drafter,
             "data": {
                 "buckets": [self.length if (pack := getattr(self.arguments, "pack", False)) else self.bucket],
                 "tokens": self.length * rows, "pack": pack,
             },
             "run": {"device": self.device.type, "compile": "on", "save_every": 0, "evaluate": 0, "log_every": 5,
                     "loss_rows": getattr(self.arguments, "loss_rows", None) or 0}},
            {"run": run},
        ])  # fmt: skip

    def parts(self, config: TrainConfig) -> RandomParts:
        """Return the parts of a run over random rows."""
        generator = torch.Generator().manual_seed(1)
        vocabulary = self.sizes["vocab_size"]
        # Chat-like: 150 to 1,024 tokens, 55 % the assistant's. Else full rows, three quarters the assistant's.
        chat = getattr(self.arguments, "chat", False)
        lengths = [self.length] * 32
        if chat:
            # As many as a short epoch has: of 128 rows the last packed batch is half empty, which is 5 % of all.
            lengths = torch.randint(self.bucket * 150 // 1024, self.bucket + 1, (2000,), generator=generator).tolist()
        rows = tuple(
            Row(
                ids=torch.randint(10, vocabulary, (length,), generator=generator).tolist(),
                wanted=[0] * (silent := round(length * (0.45 if chat else 0.25))) + [1] * (length - silent),
                origin=f"random:{line}",
            )
            for line, length in enumerate(lengths)
        )
        held = RowList(rows=rows, digest="random")
        chosen = published_layer_ids(self.sizes["num_hidden_layers"], 5)
        return RandomParts(
            config=config, target_path=Path(), target_config=self.model.config, layer_ids=chosen,
            tokenizer=None, rows=held, plan=Plan(held.lengths, config.data, 0), held_out=(), mask_token=5, pad_token=0,
            shape=drafter_shape(config, self.model.config, 5), model=self.model,
        )  # fmt: skip

    def timed(self, work: Callable[[], Any], repeats: int = 8) -> float:
        """Return the median seconds of `work`, after three unmeasured rounds."""
        for place in range(3):
            started = time.perf_counter()
            work()
            wait_for(self.device)
            print(f"  unmeasured round {place}: {time.perf_counter() - started:.2f} s", flush=True)
        times = []
        for _ in range(repeats):
            wait_for(self.device)
            started = time.perf_counter()
            work()
            wait_for(self.device)
            times.append(time.perf_counter() - started)
        return statistics.median(times)

    def peak(self) -> float:
        """Return the GB high-water since the last call."""
        if self.device.type != "cuda":
            return 0.0
        found = torch.cuda.max_memory_allocated() / 1e9
        torch.cuda.reset_peak_memory_stats()
        return round(found, 2)

    def clear(self) -> None:
        """Give memory back between sections."""
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.peak()

    # Sections

    def run_rate(self) -> dict[str, Any]:
        """Measure the card's own product."""
        rates = [matmul_rate(self.device, self.dtype) for _ in range(3)]
        self.rate = statistics.median(rates)
        return {"tflops": [round(rate / 1e12, 1) for rate in rates]}

    def run_target(self) -> dict[str, Any]:
        """Compare the target's forward: ours against transformers' own, compiled and eager."""
        rows = 2
        ids = torch.randint(10, self.sizes["vocab_size"], (rows, self.length), device=self.device)
        layers = self.sizes["num_hidden_layers"]
        found: dict[str, Any] = {}

        def note(name: str, seconds: float, depth: int) -> None:
            cost = target_cost(self.model.model.layers[:depth], self.model.config)
            flops = cost.forward([self.length] * rows) / seconds
            found[name] = {
                "tokens_per_second": round(rows * self.length / seconds), "tflops": round(flops / 1e12, 1),
                "of_matmul": round(flops / self.rate, 3),
            }  # fmt: skip
            print(name, json.dumps(found[name]), flush=True)

        for name, chosen in (
            ("ours", published_layer_ids(layers, 5)),
            ("ours, all layers", (*published_layer_ids(layers, 5)[:-1], layers - 1)),
        ):
            target = Target(self.model, chosen)
            started = time.perf_counter()
            target.compile(self.arguments.backend)
            target.features(ids)
            wait_for(self.device)
            found[f"{name}: first call s"] = round(time.perf_counter() - started, 1)
            note(name, self.timed(lambda t=target: t.features(ids)), max(chosen) + 1)
        with torch.no_grad():
            note("transformers eager", self.timed(lambda: self.model.model(input_ids=ids, use_cache=False)), layers)
            whole = torch.compile(self.model.model, dynamic=False, backend=self.arguments.backend)
            started = time.perf_counter()
            whole(input_ids=ids, use_cache=False)
            wait_for(self.device)
            found["transformers compiled: first call s"] = round(time.perf_counter() - started, 1)
            note("transformers compiled", self.timed(lambda: whole(input_ids=ids, use_cache=False)), layers)
        return found

    def run_train(self) -> dict[str, Any]:
        """Train end to end through the inline runtime, log lines as the run writes them."""
        steps = 10 if self.arguments.tiny else self.arguments.steps
        return self.trained(self.config(steps=steps, backend=self.arguments.backend))

    def trained(self, config: TrainConfig) -> dict[str, Any]:
        """Run a config through the inline runtime and return what it reached."""
        parts = self.parts(config)
        lines: list[Progress] = []

        def report(progress: Progress) -> None:
            lines.append(progress)
            print(
                f"step {progress.step} loss {progress.loss:.3f} {progress.tokens_per_second:,.0f} tok/s MFU"
                f" {progress.utilisation:.1%} peak {progress.memory.peak / 1e9:.2f} GB",
                flush=True,
            )

        with tempfile.TemporaryDirectory() as folder:
            session = Session(
                parts=parts, output=Path(folder), saved=None, stop=lambda: False, report=report,
                after=lambda masters, target: None, journal=lambda event, values: None,  # noqa: ARG005
            )  # fmt: skip
            session._rate = self.rate  # noqa: SLF001 - the rate of this run's own section
            started = time.perf_counter()
            outcome = inline.run(parts, session)
        peaks = [line.memory.peak for line in lines[1:]]
        return {
            "tokens_per_second": round(outcome.tokens_per_second), "mfu": round(outcome.utilisation, 4),
            "memory_growth": round(outcome.growth, 5), "peaks_gb": [round(peak / 1e9, 3) for peak in peaks],
            "compilations_after_warm_up": outcome.compilations, "lines": [line.line() for line in lines],
            "wall_s": round(time.perf_counter() - started, 1),
        }  # fmt: skip

    def run_cached(self) -> dict[str, Any]:
        """Train three epochs with the features of the first on disk, beside the same without."""
        epoch = 32 // self.arguments.rows
        config = self.config(steps=3 * epoch, backend=self.arguments.backend)
        config = dataclasses.replace(config, run=dataclasses.replace(config.run, log_every=epoch // 2))
        plain = self.trained(config)
        self.clear()
        with tempfile.TemporaryDirectory(dir=self.arguments.disk) as folder:
            kept = self.trained(dataclasses.replace(config, cache=CacheConfig(path=folder, size_gb=100.0)))
            size = sum(file.stat().st_size for file in Path(folder).rglob("*"))
        rates = {name: [round(line["tokens_per_second"]) for line in run["lines"]] for name, run in (
            ("computed", plain), ("cached", kept),
        )}  # fmt: skip
        losses = [[line["loss"] for line in run["lines"]] for run in (plain, kept)]
        return {
            "tokens_per_second_by_half_epoch": rates, "losses_equal_bit_for_bit": losses[0] == losses[1],
            "losses": losses, "folder_gb": round(size / 1e9, 2),
            "mfu": [[round(line["utilisation"], 4) for line in run["lines"]] for run in (plain, kept)],
            "waits": [line["waits"] for line in kept["lines"]],
        }  # fmt: skip

    def run_parts(self) -> dict[str, Any]:
        """Time the parts of a step by themselves: target, drafter forward and backward, optimizer."""
        config = self.config(steps=100, backend=self.arguments.backend)
        parts = self.parts(config)
        target = TargetStep(parts.load_target(self.device), config.run, OpenDoor())
        step = DrafterStep(parts.drafter(self.device), target.target.shared, config.drafter, 5, config.run, OpenDoor())
        optimizer = Optimizer(step.parameters, config.optim, 100)
        batch = parts.maker(pin=False).blank(self.length).to(self.device)
        features = target.run(batch)
        rows = batch.ids.shape[0]
        useful = drafter_step(parts.shape, batch.work, self.sizes["vocab_size"])

        def learn() -> None:
            # As in a run of one micro-batch a step: the sums are written, not added to.
            step.parameters.discard()
            step.run(batch, features)

        fed = target_cost(target.target.layers, self.model.config).forward([self.length] * rows)
        seconds = {
            "target": self.timed(lambda: target.run(batch)),
            "drafter": self.timed(learn),
            "mask": self.timed(lambda: step._masks(batch, batch.packed.starts if batch.packed else None)),  # noqa: SLF001 - one of the parts
            "optimizer": self.timed(lambda: optimizer.step(1, batch.weight)),
        }
        return {
            **{f"{name}_ms": round(value * 1e3, 2) for name, value in seconds.items()},
            "target_of_matmul": round(fed / seconds["target"] / self.rate, 3),
            "drafter_of_matmul": round(useful / seconds["drafter"] / self.rate, 3),
            "useful_gflop_a_token": round((useful + fed) / (rows * self.length) / 1e9, 2), "peak_gb": self.peak(),
        }  # fmt: skip

    def run_dense(self) -> dict[str, Any]:
        """Compare eager dense with compiled flex at the largest number of anchors where dense fits."""
        found: dict[str, Any] = {}
        for anchors in (16,) if self.arguments.tiny else (512, 256, 128, 64):
            config = self.config(steps=10, backend=self.arguments.backend, dense_limit_gb=200.0)
            config = dataclasses.replace(config, drafter=dataclasses.replace(config.drafter, anchors=anchors))
            try:
                found[f"eager dense, {anchors} anchors"] = self._drafter_alone(config, "off")
            except torch.cuda.OutOfMemoryError as error:
                found[f"eager dense, {anchors} anchors"] = f"out of memory: {str(error).splitlines()[0][:160]}"
                self.clear()
                continue
            self.clear()
            found[f"compiled, {anchors} anchors"] = self._drafter_alone(config, "on")
            break
        return found

    def _drafter_alone(self, config: TrainConfig, compiling: str) -> dict[str, Any]:
        config = dataclasses.replace(config, run=dataclasses.replace(config.run, compile=compiling))
        parts = self.parts(config)
        shared = SharedWeights(
            embedding=self.model.get_input_embeddings().weight, head=self.model.get_output_embeddings().weight
        )
        self.peak()
        step = DrafterStep(parts.drafter(self.device), shared, config.drafter, 5, config.run, OpenDoor())
        maker = BatchMaker(parts.rows, parts.plan, config.drafter, 0, pin=False)
        batch = maker.make(parts.plan.batch(0)).to(self.device)
        wide = parts.shape.features * parts.shape.hidden
        features = torch.randn(*batch.ids.shape, wide, device=self.device, dtype=self.dtype)
        seconds = self.timed(lambda: step.run(batch, features), repeats=3)
        return {"rows": batch.ids.shape[0], "drafter_ms": round(seconds * 1e3, 1), "peak_gb": self.peak()}

    def run_baseline(self) -> dict[str, Any]:
        """Train plainly with Hugging Face parts and flex."""
        from trainer_baseline import PlainDrafter, plain_step

        config = self.config(steps=10)
        parts = self.parts(config)
        sizes = {**self.sizes, "num_hidden_layers": 5}
        with torch.device(self.device):
            drafter = PlainDrafter(Qwen3Config(**sizes), 5)
        adam = torch.optim.AdamW(drafter.parameters(), lr=1e-4)
        found: dict[str, Any] = {}
        for rows in (self.arguments.rows, 1):
            ids = torch.randint(10, self.sizes["vocab_size"], (rows, self.length))
            batch = self._batch(config, ids)
            try:
                seconds = self.timed(
                    lambda b=batch: plain_step(self.model, drafter, adam, b, parts.layer_ids, 7.0, 5), repeats=4
                )
            except torch.cuda.OutOfMemoryError as error:
                found[f"{rows} rows"] = f"out of memory: {str(error).splitlines()[0][:160]}"
                self.clear()
                continue
            useful = drafter_step(parts.shape, batch.work, self.sizes["vocab_size"])
            depth = max(parts.layer_ids) + 1
            useful += target_cost(self.model.model.layers[:depth], self.model.config).forward([self.length] * rows)
            found[f"{rows} rows"] = {
                "tokens_per_second": round(rows * self.length / seconds), "mfu": round(useful / seconds / self.rate, 4),
                "peak_gb": self.peak(),
            }  # fmt: skip
            break
        return found

    def _batch(self, config: TrainConfig, ids: torch.Tensor) -> Batch:
        count, length = ids.shape
        wanted = [0] * (length // 4) + [1] * (length - length // 4)
        held = RowList(
            rows=tuple(Row(ids=row.tolist(), wanted=wanted, origin="random") for row in ids), digest="random"
        )
        plan = Plan(held.lengths, DataConfig(buckets=(length,), tokens=count * length), 0)
        return BatchMaker(held, plan, config.drafter, 0, pin=False).make(plan.batch(0)).to(self.device)

    def run_incident(self) -> dict[str, Any]:
        """Train the 5120-wide drafter alone: 1024 anchors x 32, contexts up to 40,000."""
        tiny = self.arguments.tiny
        shape = (
            dataclasses.replace(WIDE, hidden=64, heads=4, key_value_heads=2, head_dim=16, intermediate=96)
            if tiny
            else WIDE
        )
        vocabulary, lengths = (512, (256, 300)) if tiny else (248_320, (4096, 16_384, 40_000))
        config = build("bench", [
            {"drafter": {"layers": 5, "block": 32, "anchors": 16 if tiny else 1024},
             "run": {"device": self.device.type, "compile": "on", "backend": self.arguments.backend}},
        ])  # fmt: skip
        generator = torch.Generator(self.device).manual_seed(0)

        def table() -> torch.Tensor:
            drawn = torch.empty(vocabulary, shape.hidden, device=self.device, dtype=self.dtype)
            return drawn.normal_(std=0.02, generator=generator)

        model = Drafter(shape)
        model.reset(0)
        step = DrafterStep(
            model.to(self.device, self.dtype), SharedWeights(embedding=table(), head=table()), config.drafter, 5,
            config.run, OpenDoor(),
        )  # fmt: skip
        optimizer = Optimizer(step.parameters, config.optim, 100)
        found: dict[str, Any] = {}
        for length in lengths:
            batch = self._batch(config, torch.randint(10, vocabulary, (1, length)))
            features = torch.empty(1, length, 5 * shape.hidden, device=self.device, dtype=self.dtype)
            features.normal_(generator=generator)

            def one(held: Batch = batch, given: torch.Tensor = features) -> None:
                step.run(held, given)
                optimizer.step(1, held.weight)

            started = time.perf_counter()
            one()
            wait_for(self.device)
            first = time.perf_counter() - started
            seconds = self.timed(one, repeats=4)
            peaks = []
            self.peak()
            for _ in range(4):
                one()
                peaks.append(self.peak())
            useful = drafter_step(shape, batch.work, vocabulary)
            found[f"context {length}"] = {
                "step_ms": round(seconds * 1e3, 1), "tokens_per_second": round(length / seconds),
                "block_positions_per_second": round(batch.shape.queries / seconds),
                "mfu": round(useful / seconds / self.rate, 4), "peaks_gb": peaks, "first_step_s": round(first, 1),
            }  # fmt: skip
            print(length, json.dumps(found[f"context {length}"]), flush=True)
        return found

    def go(self) -> None:
        """Run the asked sections; one that fails is recorded and the next one runs."""
        prepare_thread()
        for name in self.arguments.sections.split(","):
            started = time.perf_counter()
            try:
                result = getattr(self, f"run_{name}")()
            except Exception:  # noqa: BLE001 - a failed section is a result
                result = {"failed": traceback.format_exc()[-4000:]}
            result["section_s"] = round(time.perf_counter() - started, 1)
            self.record["sections"][name] = result
            self.record["graphs"] = compile_counts().graphs
            shown = {key: value for key, value in result.items() if key != "lines"}
            print(f"== {name}: {json.dumps(shown)}", flush=True)
            if self.arguments.out:
                self.arguments.out.write_text(json.dumps(self.record, indent=1) + "\n")
            self.clear()


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", default="rate,target,train,parts")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--rows", type=int, default=2, help="sequences a micro-batch")
    parser.add_argument("--steps", type=int, default=40, help="steps of the train section")
    parser.add_argument("--fp8", action="store_true", help="the target's linear layers in fp8")
    parser.add_argument("--drafter-fp8", action="store_true", help="the drafter's linear layers in fp8")
    parser.add_argument("--loss-rows", type=int, help="rows of logits at a time (default: the trainer's own)")
    parser.add_argument("--chat", action="store_true", help="short rows")
    parser.add_argument("--pack", action="store_true", help="several of them in a row")
    parser.add_argument("--disk", help="where the cached section keeps features (default: the temporary folder)")
    parser.add_argument("--tiny", action="store_true", help="toy sizes, to try the script without a GPU")
    Bench(parser.parse_args()).go()


if __name__ == "__main__":
    main()
