"""From a config to the parts of a run: target, tokenizer, rows, plan, drafter sizes, identity."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from trainer.data.buckets import Plan
from trainer.data.chat import Encoder, load_tokenizer, mask_token, template_arguments
from trainer.data.feature_cache import CacheSpec, FeatureReader
from trainer.data.loader import Batch, BatchMaker
from trainer.data.rows import Rows
from trainer.data.usable import SPARED, held_out, prompts, require_learnable
from trainer.device import require_backend, working_dtype
from trainer.drafter.model import Drafter, DrafterShape
from trainer.drafter.published import load_weights, weights_digest
from trainer.errors import ROOM_TO_LOAD, ConfigError, DataError, memory_for
from trainer.fp8 import Split, require_fp8
from trainer.saved.ancestry import Ancestry
from trainer.saved.checkpoint import tokens_digest
from trainer.settings.config import TrainConfig
from trainer.settings.sections import LossConfig
from trainer.step.flops import drafter_step, target_cost
from trainer.step.objectives import Objective, choose_vocabulary
from trainer.target import toy
from trainer.target.files import stop_tokens, target_digest, whole_digest
from trainer.target.loading import weights_index
from trainer.target.model import SharedWeights, Target, choose_layer_ids, decoder_layers, read_config
from trainer.target.shared_weights import load_shared
from trainer.target.tensor_parallel import TensorGroup, split_plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What every worker of a run derives from the config alone."""

    config: TrainConfig
    target_path: Path
    target_config: Any
    layer_ids: tuple[int, ...]
    tokenizer: Any
    rows: Rows
    plan: Plan
    held_out: tuple[int, ...]
    """Rows kept from training, for evaluations."""
    shape: DrafterShape
    mask_token: int
    pad_token: int
    kept: torch.Tensor | None = None
    """int64: the tokens that a drafter with a reduced vocabulary can say; None for all."""

    ancestry: Ancestry = ()
    """The stages before, where this run extends another."""

    began_with: str | None = None
    """What drafter.weights was, where a resumed run no longer names it or has it: it goes on from a checkpoint."""

    @property
    def objective(self) -> Objective:
        """What the drafter is asked for."""
        return Objective.of(self.config.loss, self.config.drafter, self.kept, self.target_config.vocab_size)

    def prompts(self) -> list[list[int]]:
        """Return the prompts of evaluations: of held-out rows, or where none are spared of the first."""
        first = range(min(self.config.run.evaluate, len(self.rows.lengths)))
        return prompts(self.rows, self.held_out or first)

    @property
    def stop(self) -> tuple[int, ...]:
        """The tokens that end the target's text."""
        return stop_tokens(self.target_path, self.target_config)

    @property
    def trained_on(self) -> str:
        """What is learnt, in words."""
        if not self.config.target.path:
            return "the toy target on the embedded corpus (no --target, no --data)"
        return f"{self.target_path} on {len(self.rows.lengths):,} rows of {', '.join(self.config.data.path)}"

    @property
    def evaluated_on(self) -> str:
        """Which rows evaluations take their prompts from, in words; empty where there are none."""
        asked, count, rows = self.config.run.evaluate, len(self.held_out), len(self.rows.lengths)
        if not asked:
            return ""
        if count:
            fewer = f"; run.evaluate={asked}, and one row in {SPARED} at most is held out" if count < asked else ""
            return f"{count:,} of {rows:,} rows, held out of training{fewer}{self._seen_before()}"
        return f"rows that are trained on: of {rows:,} none can be held out"

    def _seen_before(self) -> str:
        """Say so where an earlier stage may have trained on what is held out now."""
        ours = (self.rows.digest, self._spared())
        others = [stage["run"] for stage in self.ancestry if (stage.get("rows"), stage.get("held_out")) != ours]
        return f"; stage {', '.join(map(str, others))} had other rows, and may have trained on these" if others else ""

    def _spared(self) -> str | int:
        return hashlib.sha256(str(self.held_out).encode()).hexdigest()[:16] if self.held_out else 0

    def maker(self, *, pin: bool, cache: FeatureReader | None = None) -> BatchMaker:
        """Return a maker of this run's batches, with features where `cache` has them."""
        return BatchMaker(self.rows, self.plan, self.config.drafter, self.pad_token, pin=pin, cache=cache,
            objective=self.objective,
        )  # fmt: skip

    @property
    def width(self) -> int:
        """W, channels of a token's features."""
        return (self.shape.features + int(self.objective.teacher)) * self.shape.hidden

    def cache_spec(self, device: torch.device) -> CacheSpec | None:
        """Return what the feature cache of this run holds; None where none is asked for."""
        config = self.config
        if not config.cache.path:
            return None
        longest, dtype = config.data.buckets[-1], working_dtype(device)
        about = {
            "target_files": whole_digest(self.target_path), "rows": self.rows.digest,
            "layer_ids": list(self.layer_ids), "width": self.width, "dtype": str(dtype), "longest": longest,
            "fp8": config.target.fp8,
        }  # fmt: skip
        tokens = sum(min(self.rows.lengths[row], longest) for row, _ in self.plan.placed())
        return CacheSpec(
            folder=Path(config.cache.path), about=about, width=self.width, dtype=dtype,
            needed=tokens * self.width * dtype.itemsize, limit=int(config.cache.size_gb * 1e9),
        )  # fmt: skip

    def drafter(self, device: torch.device) -> Drafter:
        """Return the drafter as this run starts it, on `device`: of published weights, or as its seed draws them."""
        model = Drafter(self.shape)
        if self.config.drafter.weights and self.began_with is None:
            load_weights(model, Path(self.config.drafter.weights))
        else:
            model.reset(self.config.run.seed)
        return model.to(device=device, dtype=working_dtype(device))

    def in_fp8(self, device: torch.device) -> dict[str, Split]:
        """Return for each key of fp8 that is set what it takes and leaves; raises ConfigError where `device` cannot."""
        found = self.fp8_splits()
        for key in found:
            require_fp8(device, key)
        return found

    def fp8_splits(self) -> dict[str, Split]:
        """Return the same for a device that can."""
        config, found = self.config, {}
        with torch.device("meta"):
            if config.target.fp8:
                found["target.fp8"] = Split.of(self._weightless_layers())
            if config.drafter.fp8:
                size = torch.Size([self.vocabulary, self.shape.hidden])
                found["drafter.fp8"] = Split.of(Drafter(self.shape), size)
        return found

    def _weightless_layers(self) -> torch.nn.ModuleList:
        """Return the layers that run, without their weights."""
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(self.target_config)
        return decoder_layers(model.get_decoder())[: None if self.objective.teacher else max(self.layer_ids) + 1]

    @property
    def vocabulary(self) -> int:
        """Tokens that the drafter can say."""
        return int(self.target_config.vocab_size) if self.kept is None else len(self.kept)

    def load_target(self, device: torch.device, group: TensorGroup | None = None) -> Target:
        """Return the target on `device`, or this process's share of one that a group holds together."""
        with memory_for(f"loading {self.target_path}", ROOM_TO_LOAD):
            target = Target.load(
                self.target_path,
                self.layer_ids,
                device,
                working_dtype(device),
                fp8=self.config.target.fp8,
                last=self.objective.teacher,
                group=group,
            )
        if self.config.data.pack:
            target.pack_rows()
        return target

    def load_shared(self, device: torch.device) -> SharedWeights:
        """Return the target's embedding and head alone on `device`."""
        with memory_for(f"loading {self.target_path}", ROOM_TO_LOAD):
            return load_shared(self.target_path, device, working_dtype(device))

    def _unlike_default(self) -> dict[str, object]:
        """Return the identity's newer keys where they say something, so that earlier runs resume as they are."""
        told: dict[str, object] = {"fp8": True} if self.config.target.fp8 else {}
        if self.config.drafter.fp8:
            told["drafter_fp8"] = True
        if self.config.loss != LossConfig():
            told["loss"] = dataclasses.asdict(self.config.loss)
        if self.kept is not None:
            told["vocabulary"] = tokens_digest(self.kept.tolist())
        if self.ancestry:
            told["ancestry"] = list(self.ancestry)
        return told

    def _weights_from(self) -> str:
        if self.began_with is not None:
            return self.began_with
        return weights_digest(Path(self.config.drafter.weights)) if self.config.drafter.weights else ""

    def resuming(self, state: Mapping[str, Any]) -> "Parts":
        """Return the parts of a run that goes on from its own checkpoint, of which this is the state."""
        weights, identity = self.config.drafter.weights, state["identity"]
        gone = not weights or not any(Path(weights).glob("*.safetensors"))
        return dataclasses.replace(
            self.speaking(state), ancestry=tuple(identity.get("ancestry", ())),
            began_with=str(identity.get("weights_from", "")) if gone else None,
        )  # fmt: skip

    def speaking(self, state: Mapping[str, Any]) -> "Parts":
        """Return the parts with the tokens of a checkpoint's drafter, whatever these rows say most often."""
        if self.kept is None:
            return self
        tokens = state.get("kept")
        if tokens is None:  # 0.4.0 chose from all rows, and kept none
            counts = self.rows.counts(self.target_config.vocab_size)
            tokens = choose_vocabulary(counts, len(self.kept), self.stop).tolist()
        same = len(tokens) == len(self.kept) and tokens_digest(tokens) == state["identity"].get("vocabulary")
        return dataclasses.replace(self, kept=torch.tensor(tokens)) if same else self

    def identity(self) -> dict[str, object]:
        """Return what must be the same for a checkpoint to be this run's."""
        config = self.config
        return {
            "target_files": target_digest(self.target_path),
            "target": f"{self.target_config.model_type} {self.shape.hidden}x{self.target_config.num_hidden_layers}",
            "layer_ids": list(self.layer_ids),
            "drafter": dataclasses.asdict(self.shape),
            "block": config.drafter.block,
            "anchors": config.drafter.anchors,
            "gamma": config.drafter.gamma,
            "mask_token": self.mask_token,
            "rows": self.rows.digest,
            "buckets": list(config.data.buckets),
            "tokens": config.data.tokens,
            "overlong": config.data.overlong,
            "pack": config.data.pack,
            "weights": list(config.data.weights),
            "together": config.together,
            "held_out": self._spared(),
            "micro_batches": config.micro_batches,
            "optim": {key: value for key, value in dataclasses.asdict(config.optim).items() if key != "accumulate"},
            "steps": config.run.steps,
            "seed": config.run.seed,
            **self._unlike_default(),
            "weights_from": self._weights_from(),
        }


def assemble(config: TrainConfig) -> Parts:
    """Return the parts; the built-in target is taught first when it is asked for and not there yet."""
    require_backend(config.run.backend)
    builtin = not config.target.path
    path = toy.folder(toy.cache_folder()) if builtin else Path(config.target.path)
    target_config = read_config(path)
    weights_index(path)
    if config.target.tensor_parallel > 1:
        split_plan(path, config.target.tensor_parallel)
    tokenizer = load_tokenizer(path, config.target.chat_template)
    # What is quick to check comes before the rows, which may take minutes.
    layers = choose_layer_ids(config.target.layer_ids, config.target.features, target_config.num_hidden_layers)
    mask = mask_token(config.drafter.mask_token, tokenizer, target_config.vocab_size)
    shape = drafter_shape(config, target_config, len(layers))
    rows = _rows(config, tokenizer, target_config.vocab_size)
    spared = held_out(rows, config.run.evaluate)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    parts = Parts(
        config=config, target_path=path, target_config=target_config, layer_ids=layers, tokenizer=tokenizer, rows=rows,
        plan=Plan(
            rows.lengths, config.data, config.run.seed, rows.groups, together=config.together, without=set(spared),
            named=lambda row: rows[row].origin,
        ),
        held_out=spared,
        shape=shape, mask_token=mask, pad_token=int(pad or 0),
        kept=_vocabulary(config, rows, spared, path, target_config),
    )  # fmt: skip
    if config.run.epochs:
        batches = config.run.epochs * parts.plan.batches_per_epoch
        run = dataclasses.replace(config.run, steps=-(-batches // config.micro_batches))
        parts = dataclasses.replace(parts, config=dataclasses.replace(config, run=run))
    require_learnable(rows, parts.plan)
    if config.run.evaluate and not parts.prompts():
        raise DataError(
            "run.evaluate: in none of the rows for the closing evaluation does a prompt come before the assistant",
            "set run.evaluate=0, or give rows whose loss_mask starts with 0",
        )
    return parts


def drafter_shape(config: TrainConfig, target: Any, features: int) -> DrafterShape:
    """Return the drafter's sizes; those left at 0 are the target's."""
    wanted = config.drafter
    heads = wanted.heads or target.num_attention_heads
    narrow = wanted.key_value_heads or getattr(target, "num_key_value_heads", None) or heads
    if heads % narrow:
        raise ConfigError(
            f"drafter.key_value_heads: {narrow} does not divide the {heads} heads", "choose a divisor of drafter.heads"
        )
    width = wanted.head_dim or getattr(target, "head_dim", None) or target.hidden_size // target.num_attention_heads
    rope = getattr(target, "rope_parameters", None) or {}
    return DrafterShape(
        hidden=target.hidden_size, layers=wanted.layers, heads=heads, key_value_heads=narrow, head_dim=width,
        intermediate=wanted.intermediate or target.intermediate_size, features=features,
        epsilon=getattr(target, "rms_norm_eps", 1e-6),
        rope_theta=float(rope.get("rope_theta") or getattr(target, "rope_theta", None) or 10_000.0),
        sliding=wanted.sliding_layers, window=wanted.sliding_window if wanted.sliding_layers else 0,
    )  # fmt: skip


def flops_of(parts: Parts, target: Target | None) -> Callable[[Batch], float]:
    """Return the useful FLOPs of a batch; without a whole target at hand its part is counted from a weightless copy."""
    whole = target is not None and target.group is None
    layers = target.layers if target is not None and whole else parts._weightless_layers()  # noqa: SLF001 - one file
    cost = target_cost(layers, parts.target_config)

    def count(batch: Batch) -> float:
        made = 0.0 if batch.cached else cost.forward(batch.work.lengths)
        return made + drafter_step(parts.shape, batch.work, parts.vocabulary, teacher=parts.objective.teacher)

    return count


def _rows(config: TrainConfig, tokenizer: Any, vocabulary: int) -> Rows:
    paths = [Path(path) for path in config.data.path if path]
    if not paths:
        return toy.rows(tokenizer, config.run.seed + 1)
    from trainer.data.dataset import read_rows  # noqa: PLC0415 - pyarrow is needed for files only

    encoder = Encoder(tokenizer, template_arguments(config.target.template_arguments))
    return read_rows(paths, encoder, vocabulary, skip=config.data.bad_rows == "skip")


def _vocabulary(config: TrainConfig, rows: Rows, spared: Sequence[int], path: Path, target: Any) -> torch.Tensor | None:
    size, all_of_them = config.drafter.vocabulary, target.vocab_size
    if not size:
        return None
    if size >= all_of_them:
        raise ConfigError(
            f"drafter.vocabulary: {size} of the {all_of_them} tokens of the target", "use 0 for all of them"
        )
    return choose_vocabulary(rows.counts(all_of_them, spared), size, stop_tokens(path, target))
