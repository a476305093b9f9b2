"""This trainer beside SpecForge's and speculators' own model, mask, loss and optimizer files, on one CUDA device.

    python3 benchmarks/trainer_peers.py --peers FOLDER --out trainer_peers.json

FOLDER holds snapshots of both packages, `specforge` and `speculators`, as their repositories have them; they are not
part of this one. Each arm is a process with random weights of Qwen3-8B's size. A package's `__init__` files are
not run, because they import servers that are not needed here; of speculators the base class and the config are
replaced by plain ones, and layers, masks, losses and the forward are its own.

Arms: ours; ours with the target in fp8; ours with target and drafter in fp8; SpecForge as shipped (transformers' eager
target); SpecForge tuned (a compiled layer, fused AdamW, this trainer's compiled target); speculators (its forward
compiled whole). The chat-like case has rows of 150 to 1,024 tokens, 55 % the assistant's: SpecForge takes 4 of them a
step, padded, ours and speculators, which take documents, 2 packed rows of 4,096 tokens.
"""

# ruff: noqa: PLC0415 - the repository root comes onto sys.path first
import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

ARMS = (
    "ours", "ours-fp8", "ours-all-fp8", "specforge", "specforge-tuned", "speculators", "ours-chat", "ours-chat-fp8",
    "ours-chat-all-fp8", "specforge-chat", "specforge-tuned-chat", "speculators-chat",
)  # fmt: skip
WARM, REPEATS = 3, 8


def packages(root: Path, names: list[str]) -> None:
    """Make packages whose modules can be imported without running their __init__ files."""
    for name in names:
        made = types.ModuleType(name)
        made.__path__ = [str(root.joinpath(*name.split(".")))]
        sys.modules[name] = made


class Arm:
    """What all arms share: the models' sizes, one batch, the count of useful FLOPs."""

    def __init__(self, name: str, peers: Path, *, tiny: bool) -> None:
        """Make the target and the batch."""
        import torch
        from trainer_gpu import Bench

        from trainer.assemble import flops_of

        self.name, self.peers = name, peers
        self.chat = "chat" in name
        packs = self.chat and not name.startswith("specforge")
        asked = argparse.Namespace(
            device="cpu" if tiny else "cuda", tiny=tiny, backend="eager" if tiny else "inductor", rows=2, steps=30,
            sections="", out=None, chat=self.chat, pack=packs, sliding=False,
            fp8=name.endswith("fp8"), drafter_fp8=name.endswith("all-fp8"), disk=None,
        )  # fmt: skip
        self.bench = Bench(asked)
        self.rate = self.bench.run_rate()["tflops"][0] * 1e12
        self.bench.rate = self.rate
        if self.chat and not packs:
            asked.rows = 1
        self.config = self.bench.config(steps=30, backend=asked.backend)
        self.parts = self.bench.parts(self.config)
        self.batch = self.parts.maker(pin=False).make(self.parts.plan.batch(0)).to(self.bench.device)
        self.useful = flops_of(self.parts, self.parts.load_target(self.bench.device))(self.batch)
        self.torch = torch

    def steps(self, one: Callable[[], Any]) -> dict[str, Any]:
        """Time whole steps."""
        taken = []
        for place in range(WARM + REPEATS):
            self.wait()
            started = time.perf_counter()
            loss = one()
            self.wait()
            taken.append(time.perf_counter() - started)
            if place == WARM - 1:
                self.bench.peak()
        seconds = statistics.median(taken[WARM:])
        return {
            "step_ms": round(seconds * 1e3, 1), "tokens_per_second": round(self.batch.tokens / seconds),
            "mfu": round(self.useful / seconds / self.rate, 4), "peak_gb": self.bench.peak(),
            "tokens": self.batch.tokens, "loss": float(loss), "first_step_s": round(taken[0], 1),
        }  # fmt: skip

    def wait(self) -> None:
        """Wait for the device."""
        if self.bench.device.type == "cuda":
            self.torch.cuda.synchronize()

    def ours(self) -> dict[str, Any]:
        """Train with the inline runtime, as a run does."""
        found = self.bench.trained(self.config)
        found.pop("lines")
        return {**found, "peak_gb": max(found["peaks_gb"], default=0.0)}

    def features(self) -> Any:
        """Return the selected hidden states by transformers' own eager forward."""
        with self.torch.no_grad():
            told = self.bench.model.model(input_ids=self.batch.ids, use_cache=False, output_hidden_states=True)
        return self.torch.cat([told.hidden_states[layer + 1] for layer in self.parts.layer_ids], dim=-1)

    def drafter_config(self) -> Any:
        """Return the drafter's config as SpecForge's own JSON file has it."""
        from transformers import Qwen3Config

        sizes = {**self.bench.sizes, "num_hidden_layers": 5}
        made = Qwen3Config(**sizes, layer_types=["full_attention"] * 5, tie_word_embeddings=False)
        made.block_size, made.num_target_layers = 16, self.bench.sizes["num_hidden_layers"]
        made.dflash_config = {"mask_token_id": 5, "target_layer_ids": list(self.parts.layer_ids)}
        made._attn_implementation = "flex_attention"  # noqa: SLF001
        return made

    def specforge(self) -> dict[str, Any]:
        """Train with SpecForge's model, loss, mask and optimizer."""
        torch = self.torch
        packages(self.peers, [
            "specforge", "specforge.core", "specforge.modeling", "specforge.modeling.draft", "specforge.algorithms",
            "specforge.algorithms.common",
        ])  # fmt: skip
        family = importlib.import_module("specforge.algorithms.common.dflash_family_model")
        optimizers = importlib.import_module("specforge.optimizer")
        tuned = "tuned" in self.name
        with torch.device(self.bench.device):
            draft = family.DFlashDraftModel(self.drafter_config()).to(self.bench.dtype)
        target = self.bench.model
        for parameter in (*target.get_output_embeddings().parameters(), *target.get_input_embeddings().parameters()):
            parameter.requires_grad_(requires_grad=False)
        model = family.OnlineDFlashModel(
            draft, target.get_output_embeddings(), target.get_input_embeddings(), mask_token_id=5, block_size=16,
            num_anchors=self.config.drafter.anchors, loss_decay_gamma=7.0,
        )  # fmt: skip
        optimizer = optimizers.BF16Optimizer(draft, lr=6e-4, max_grad_norm=1.0, total_steps=1000, warmup_ratio=0.04)
        features = self.features
        if tuned:
            from trainer.runtime.steps import OpenDoor, TargetStep

            for layer in draft.layers:
                layer.forward = torch.compile(layer.forward, dynamic=False)
            optimizer.optimizer = torch.optim.AdamW(optimizer.fp32_params, lr=6e-4, weight_decay=0.0, fused=True)
            optimizer.scheduler.optimizer = optimizer.optimizer
            step = TargetStep(self.parts.load_target(self.bench.device), self.config.run, OpenDoor())
            features = lambda: step.run(self.batch)  # noqa: E731
        mask = self.batch.loss_mask.float()

        def one() -> Any:
            loss, _, _ = model(self.batch.ids, features(), mask)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return self.steps(one)

    def speculators(self) -> dict[str, Any]:
        """Train with speculators' layers, mask, forward and fused cross entropy; one packed row of all tokens."""
        from trainer.data.packing import causal_within

        torch = self.torch
        core = self._speculators_core()
        losses = importlib.import_module("speculators.losses.utils")
        config = types.SimpleNamespace(
            transformer_layer_config=self.drafter_config(), block_size=16, sliding_window_non_causal=False,
            sample_from_anchor=False, aux_hidden_state_layer_ids=list(self.parts.layer_ids), mask_token_id=5,
        )  # fmt: skip
        config.transformer_layer_config._attn_implementation = "simple_flex_attention"  # noqa: SLF001
        with torch.device(self.bench.device):
            model = core.DFlashDraftModel(config)
        target = self.bench.model
        head, table = target.get_output_embeddings(), target.get_input_embeddings()
        for parameter in (*head.parameters(), *table.parameters()):
            parameter.requires_grad_(requires_grad=False)
        model.embed_tokens, model.lm_head, model.verifier_lm_head = table, head, head
        adam = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=3e-4, fused=True)
        rows, length = self.batch.ids.shape
        flat = self.batch.ids.view(1, -1)
        line = torch.arange(rows, device=flat.device)[:, None]
        within = torch.arange(length, device=flat.device).expand(rows, -1)
        packed = self.batch.packed
        documents = (line if packed is None else line * length + packed.documents).expand(rows, length).reshape(1, -1)
        places = (within if packed is None else packed.places).reshape(1, -1)
        asked = {} if packed is None else {
            "attention_mask": {"full_attention": causal_within(packed.documents)}, "position_ids": packed.places,
        }  # fmt: skip
        loss_config = losses.resolve_loss_config("ce", "fused")

        def one() -> Any:
            with torch.no_grad():
                told = target.model(input_ids=self.batch.ids, use_cache=False, output_hidden_states=True, **asked)
            wide = torch.cat([told.hidden_states[layer + 1] for layer in self.parts.layer_ids], dim=-1)
            with torch.autocast(flat.device.type, dtype=torch.bfloat16):
                _, loss, _ = model(
                    wide.view(1, rows * length, -1), flat, self.batch.loss_mask.view(1, -1),
                    told.last_hidden_state.view(1, rows * length, -1), documents, places,
                    loss_config=loss_config, gamma=7.0, max_anchors=rows * self.config.drafter.anchors,
                )  # fmt: skip
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            adam.zero_grad(set_to_none=True)
            return loss.detach()

        return self.steps(one)

    def _speculators_core(self) -> Any:
        torch = self.torch
        packages(self.peers, ["speculators", "speculators.models", "speculators.models.dflash"])

        class Base(torch.nn.Module):
            def __init__(self, config: Any) -> None:
                super().__init__()
                self.config = config

            def post_init(self) -> None:
                """Leave torch's initial weights."""

            @staticmethod
            def register(_name: str) -> Callable[[type], type]:
                return lambda made: made

        class Vocabulary:
            def _init_vocab(self, config: Any) -> None:
                """Make nothing: the embedding and the heads are given from outside."""

        model = types.ModuleType("speculators.model")
        model.SpeculatorModel, model.DraftVocabMixin = Base, Vocabulary  # type: ignore[attr-defined]
        sys.modules["speculators.model"] = model
        sys.modules["speculators.models.dflash"].DFlashSpeculatorConfig = object  # type: ignore[attr-defined]
        return importlib.import_module("speculators.models.dflash.core")

    def go(self) -> dict[str, Any]:
        """Run the arm."""
        work = {"ours": self.ours, "specforge": self.specforge, "speculators": self.speculators}
        found = work[self.name.split("-")[0]]()
        return {"rate_tflops": round(self.rate / 1e12, 1), **found}


def main() -> None:
    """Run every arm in a process of its own, or be one arm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--arm")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds an arm may take")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.arm:
        print("RESULT " + json.dumps(Arm(arguments.arm, arguments.peers, tiny=arguments.tiny).go()), flush=True)
        return
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    record: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"), "torch": torch.__version__, "device": name, "argv": sys.argv[1:], "arms": {},
    }  # fmt: skip
    for arm in arguments.arms.split(","):
        command = [sys.executable, __file__, "--peers", str(arguments.peers), "--arm", arm]
        started = time.perf_counter()
        try:
            done = subprocess.run(
                [*command, "--tiny"] if arguments.tiny else command, capture_output=True, text=True,
                timeout=arguments.limit, check=False,
            )  # fmt: skip
            told = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
            found = json.loads(told[-1].removeprefix("RESULT ")) if told else {"failed": done.stderr[-3000:]}
        except subprocess.TimeoutExpired:
            found = {"failed": f"no result in {arguments.limit:.0f} s"}
        found["wall_s"] = round(time.perf_counter() - started, 1)
        record["arms"][arm] = found
        print(arm, json.dumps(found), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
