"""What a run is: frozen, validated sections. No torch here, so that the gate can refuse before it is imported.

A key is written SECTION.NAME ("optim.learning_rate"). Every error names the key and says what to change.
"""

import dataclasses
import tomllib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainer.config_bounds import require_ranges
from trainer.errors import ConfigError, not_utf8

Device = Literal["auto", "cpu", "cuda"]
RuntimeName = Literal["auto", "inline", "threads", "processes", "data-parallel"]
Overlong = Literal["truncate", "drop", "error"]
BadRows = Literal["stop", "skip"]
Switch = Literal["auto", "on", "off"]


def _require(condition: bool, key: str, problem: str, cure: str) -> None:  # noqa: FBT001 - an assertion with a message
    if not condition:
        raise ConfigError(f"{key}: {problem}", cure)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetConfig:
    """The frozen model that is being sped up."""

    path: str = ""
    """A local folder with a Hugging Face causal LM; empty for the built-in toy target."""
    layer_ids: tuple[int, ...] = ()
    """Target layers whose outputs feed the drafter (0-based); empty for the published rule over `features`."""
    features: int = 5
    """How many layers the published rule selects."""
    chat_template: str = ""
    """A Jinja file that replaces the tokenizer's chat template."""
    template_arguments: tuple[str, ...] = ()
    """NAME=VALUE each: what the chat template is called with besides, such as enable_thinking=false."""

    def __post_init__(self) -> None:
        """Check what needs no model."""
        require_ranges("target", self)
        _require(
            len(set(self.layer_ids)) == len(self.layer_ids),
            "target.layer_ids",
            f"a layer is listed twice in {list(self.layer_ids)}",
            "list each layer once",
        )
        _require(
            all(layer >= 0 for layer in self.layer_ids),
            "target.layer_ids",
            f"negative id in {list(self.layer_ids)}",
            "count layers from 0",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterConfig:
    """The model that is trained. A size of 0 is the target's own."""

    layers: int = 5
    block: int = 16
    """K: the anchor and K - 1 positions to predict."""
    anchors: int = 512
    """N: blocks a row, always exactly this many (absent ones are masked), so that shapes never change."""
    heads: int = 0
    key_value_heads: int = 0
    head_dim: int = 0
    intermediate: int = 0
    gamma: float = 0.0
    """Decay of the loss over a block; 0 for the published value of this block width."""
    mask_token: int = -1
    """A row of the target's embedding; -1 asks the tokenizer for its mask token, else takes a reserved row."""
    sliding_layers: tuple[int, ...] = ()
    """Layers that attend within sliding_window, counted from 0; the published Qwen3.6 drafter has 0 to 3 of 5."""
    sliding_window: int = 2048
    """Positions a sliding layer's query sees, itself included."""
    weights: str = ""
    """A folder with a published drafter (model.safetensors) to start from; empty draws the weights from the seed."""
    recompute: bool = False
    """Recompute each layer's activations in the backward: less memory, a third more drafter compute."""

    def __post_init__(self) -> None:
        """Check the ranges and the layers."""
        require_ranges("drafter", self)
        _require(
            list(self.sliding_layers) == sorted(set(self.sliding_layers) & set(range(self.layers))),
            "drafter.sliding_layers",
            f"{list(self.sliding_layers)} of a drafter with {self.layers} layers",
            f"list layers from 0 to {self.layers - 1} once each, ascending",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    """Conversations and how they become batches."""

    path: tuple[str, ...] = ()
    """.jsonl, .json, .parquet or .arrow files, or folders of them; empty for the embedded corpus."""
    weights: tuple[float, ...] = ()
    """How often an epoch sees the rows of each entry of `path`: 2 for twice, 0.5 for another half each epoch."""
    bad_rows: BadRows = "stop"
    """What a row that cannot be used does: stop the run before it starts, or be skipped and counted."""
    buckets: tuple[int, ...] = (1024, 2048, 4096)
    """Padded lengths, ascending: each is one shape to compile."""
    tokens: int = 4096
    """Positions a micro-batch aims at: a bucket of length S gets max(1, tokens // S) rows."""
    pack: bool = False
    """Fill rows of the last bucket's length with several conversations each: no padding, and the anchors of a row go to
    whatever the assistant says in it."""
    overlong: Overlong = "truncate"
    """What happens to a conversation longer than the last bucket."""
    together: int = 0
    """Batches in a row that share a bucket, so that drafters which meet each step have work of like cost; 0 for as many
    as there are drafters."""
    prefetch: int = 4
    """Batches prepared ahead by the loader's thread."""

    def __post_init__(self) -> None:
        """Check the buckets."""
        require_ranges("data", self)
        _require(
            self.tokens >= self.buckets[0],
            "data.tokens",
            f"{self.tokens} positions, and the shortest bucket has {self.buckets[0]}",
            "use at least the shortest bucket",
        )
        _require(
            len(self.weights) in {0, len(self.path)},
            "data.weights",
            f"{len(self.weights)} weights for {len(self.path)} paths",
            "give one weight for each entry of data.path, or none",
        )
        _require(
            not (self.pack and self.weights),
            "data.pack",
            "rows drawn by weight are not packed",
            "omit data.weights, or list a file in data.path as often as it is to be seen",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimConfig:
    """AdamW and its schedule."""

    learning_rate: float = 6e-4
    warmup: float = 0.04
    """Share of the steps that the rate climbs."""
    final: float = 0.0
    """The rate at the end, as a share of learning_rate."""
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    clip: float = 1.0
    accumulate: int = 1
    """Micro-batches a drafter adds up before a step."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        require_ranges("optim", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Length, place and manner of the run."""

    steps: int = 1000
    seed: int = 0
    device: Device = "auto"
    compile: Switch = "auto"
    """auto: on for CUDA, off for CPU."""
    backend: str = "inductor"
    """torch.compile's backend."""
    log_every: int = 10
    save_every: int = 500
    """Steps between checkpoints, besides the last step's; 0 for none at all."""
    keep: int = 2
    """Checkpoints kept besides the last."""
    evaluate: int = 8
    """Prompts for the closing evaluation; 0 for none."""
    evaluate_tokens: int = 48
    """New tokens a prompt."""
    loss_rows: int = 2048
    """Rows of logits that exist at a time."""
    dense_limit_gb: float = 4.0
    """Largest score table of one layer on the dense path."""
    warm: bool = True
    """Run every bucket once on zero-weight batches before the first step."""
    threads: int = 0
    """CPU threads of a tensor operation in each worker; 0 leaves torch's choice. Tiny models are faster with 1."""
    wandb: str = ""
    """A Weights & Biases project; empty for none."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        require_ranges("run", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyConfig:
    """How many workers of each kind, and what they are."""

    targets: int = 1
    drafters: int = 1
    runtime: RuntimeName = "auto"
    """auto: inline for 1 + 1, else one process a worker. data-parallel: one process a drafter, each with a target of
    its own on the same device."""
    queue: int = 2
    """Micro-batches of features a drafter may have waiting."""

    def __post_init__(self) -> None:
        """Check the counts."""
        require_ranges("topology", self)
        _require(
            self.runtime != "inline" or (self.targets, self.drafters) == (1, 1),
            "topology.runtime",
            f"inline holds one worker of each kind, not {self.targets} + {self.drafters}",
            "use --runtime processes, or --runtime threads for one process",
        )
        _require(
            self.runtime != "data-parallel" or self.targets in {1, self.drafters},
            "topology.targets",
            f"data-parallel has a target beside each of its {self.drafters} drafters, not {self.targets}",
            "give --drafters alone",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """One run."""

    profile: str
    target: TargetConfig = TargetConfig()
    drafter: DrafterConfig = DrafterConfig()
    data: DataConfig = DataConfig()
    optim: OptimConfig = OptimConfig()
    run: RunConfig = RunConfig()
    topology: TopologyConfig = TopologyConfig()

    @property
    def runtime(self) -> Literal["inline", "threads", "processes", "data-parallel"]:
        """The runtime that `auto` stands for."""
        if self.topology.runtime != "auto":
            return self.topology.runtime
        return "inline" if (self.topology.targets, self.topology.drafters) == (1, 1) else "processes"

    @property
    def launched(self) -> bool:
        """Whether each worker is a process of its own, which a launcher starts."""
        return self.runtime in {"processes", "data-parallel"}

    @property
    def workers(self) -> int:
        """Processes that a launcher starts, or threads of the one process."""
        together = self.runtime == "data-parallel"
        return self.topology.drafters + (0 if together else self.topology.targets)

    @property
    def together(self) -> int:
        """Batches in a row that share a bucket."""
        return self.data.together or self.topology.drafters

    @property
    def micro_batches(self) -> int:
        """Micro-batches an optimizer step takes over all drafters."""
        return self.optim.accumulate * self.topology.drafters


SECTIONS: Mapping[str, type] = {
    field.name: typing.cast("type", field.type) for field in dataclasses.fields(TrainConfig) if field.name != "profile"
}


def build(profile: str, layers: list[Mapping[str, Mapping[str, object]]]) -> TrainConfig:
    """Return the config of `profile` from {section: {name: value}} layers, later ones winning.

    Raises ConfigError for an unknown section or key and for a value of another type.
    """
    merged: dict[str, dict[str, object]] = {name: {} for name in SECTIONS}
    for layer in layers:
        for section, values in layer.items():
            if section not in SECTIONS:
                raise ConfigError(f"{section}: no such section", f"sections are {', '.join(SECTIONS)}")
            for name, value in values.items():
                merged[section][name] = _fit(section, name, value)
    built = {section: SECTIONS[section](**values) for section, values in merged.items()}
    return TrainConfig(profile=profile, **built)


def _fit(section: str, name: str, value: object) -> object:
    kinds = typing.get_type_hints(SECTIONS[section])
    key = f"{section}.{name}"
    if name not in kinds:
        raise ConfigError(f"{key}: no such key", f"keys of {section} are {', '.join(kinds)}")
    kind = kinds[name]
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        _require(
            value in choices, key, f"{value!r} is none of {', '.join(choices)}", f"use one of {', '.join(choices)}"
        )
        return value
    if typing.get_origin(kind) is tuple:
        item = typing.get_args(kind)[0]
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(_scalar(key, part, item) for part in values)
    return _scalar(key, value, kind)


def _scalar(key: str, value: object, kind: type) -> object:
    if kind is float and type(value) is int:
        return float(value)
    _require(type(value) is kind, key, f"{value!r} is not a {kind.__name__}", f"give a value of type {kind.__name__}")
    return value


def read_file(path: Path) -> Mapping[str, Mapping[str, object]]:
    """Return the sections of a TOML file; raises ConfigError naming the file."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror}", "give a readable TOML file") from error
    except UnicodeDecodeError as error:
        line, told = not_utf8(error)
        raise ConfigError(f"--config {path}: line {line}: {told}", "save the file as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--config {path}: {error}", "fix the TOML at that line") from error
    for section, values in found.items():
        _require(isinstance(values, dict), str(path), f"{section} is not a table", f"write keys under [{section}]")
    return found


def parse_setting(text: str) -> Mapping[str, Mapping[str, object]]:
    """Return one `SECTION.NAME=VALUE` as a layer; VALUE is TOML, or a bare word for a string."""
    key, equals, value = text.partition("=")
    section, dot, name = key.strip().partition(".")
    _require(
        bool(equals and dot),
        f"--set {text}",
        "not of the form SECTION.NAME=VALUE",
        "write for example --set optim.clip=0.5",
    )
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return {section: {name: parsed}}
