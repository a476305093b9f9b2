"""The sections of a run's config: frozen, each validated by itself. No torch here (see trainer/settings/config.py)."""

from dataclasses import dataclass
from typing import Literal

from trainer.settings.bounds import require, require_ranges, require_used

Device = Literal["auto", "cpu", "cuda"]
RuntimeName = Literal["auto", "inline", "threads", "processes", "data-parallel"]
Overlong = Literal["truncate", "drop", "error"]
BadRows = Literal["stop", "skip"]
LossKind = Literal["ce", "kl"]
PositionWeights = Literal["decay", "dpace"]
Switch = Literal["auto", "on", "off"]


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
    fp8: bool = False
    """Multiply the linear layers of the frozen target in fp8 (e4m3) with a scale a row; about 3.7 % error a product.
    Evaluation decodes with the target as it is. CUDA devices of compute capability 8.9 and later."""
    tensor_parallel: int = 1
    """Devices that hold one target together, each a share of every layer; data-parallel only."""

    def __post_init__(self) -> None:
        """Check what needs no model."""
        require_ranges("target", self)
        require(
            len(set(self.layer_ids)) == len(self.layer_ids),
            "target.layer_ids",
            f"a layer is listed twice in {list(self.layer_ids)}",
            "list each layer once",
        )
        require_used(
            "target", self, "features", unless=bool(self.layer_ids),
            why=f"target.layer_ids={list(self.layer_ids)} names the layers", by="target.layer_ids", to="=[]",
        )  # fmt: skip
        require(
            not (self.fp8 and self.tensor_parallel > 1),
            "target.fp8",
            f"the layers that target.tensor_parallel={self.tensor_parallel} splits are multiplied as they are",
            "set target.fp8=false",
        )
        require(
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
    vocabulary: int = 0
    """Tokens the drafter can say: the most frequent of what the assistant says in the rows; 0 for all the target's."""
    fp8: bool = False
    """Multiply the drafter's linear layers and its logits in fp8 (e4m3) with a scale a row, and the gradients that flow
    back through the layers; gradients of weights, masters and the export stay as they are. CUDA devices of compute
    capability 8.9 and later."""
    recompute: bool = False
    """Recompute each layer's activations in the backward: less memory, a third more drafter compute."""

    def __post_init__(self) -> None:
        """Check the ranges and the layers."""
        require_ranges("drafter", self)
        require(
            list(self.sliding_layers) == sorted(set(self.sliding_layers) & set(range(self.layers))),
            "drafter.sliding_layers",
            f"{list(self.sliding_layers)} of a drafter with {self.layers} layers",
            f"list layers from 0 to {self.layers - 1} once each, ascending",
        )
        require_used(
            "drafter", self, "sliding_window", unless=not self.sliding_layers,
            why="drafter.sliding_layers names no layer", by="drafter.sliding_layers",
            to=" to those that slide",
        )  # fmt: skip


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
        require(
            self.tokens >= self.buckets[0],
            "data.tokens",
            f"{self.tokens} positions, and the shortest bucket has {self.buckets[0]}",
            "use at least the shortest bucket",
        )
        require(
            len(self.weights) in {0, len(self.path)},
            "data.weights",
            f"{len(self.weights)} weights for {len(self.path)} paths",
            "give one weight for each entry of data.path, or none",
        )
        require(
            not (self.pack and self.weights),
            "data.pack",
            "rows drawn by weight are not packed",
            "omit data.weights, or list a file in data.path as often as it is to be seen",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LossConfig:
    """What the drafter is asked for (trainer/step/objectives.py)."""

    kind: LossKind = "ce"
    """ce: the text's token. kl: the target's distribution; the target then runs all its layers."""
    positions: PositionWeights = "decay"
    """decay: fixed weights that fall over a block (drafter.gamma). dpace: weights from the drafter's confidence."""
    alpha: float = 0.5
    """Smoothing of dpace's confidence: 0 for none, 1 for weights that ignore it."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        require_ranges("loss", self)
        require_used(
            "loss", self, "alpha", unless=self.positions != "dpace",
            why=f"loss.positions={self.positions} has no smoothing", by="loss.positions", to="=dpace",
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """The target's features on disk, for epochs 2 and later."""

    path: str = ""
    """A folder; empty for no cache."""
    size_gb: float = 0.0
    """What the folder may hold, in GB (10**9 bytes). A run whose rows take more is refused before it starts."""

    def __post_init__(self) -> None:
        """Check that a cache has a size."""
        require_ranges("cache", self)
        require(
            not self.path or self.size_gb > 0,
            "cache.size_gb",
            f"cache.path is {self.path}, and the folder may hold nothing",
            "set cache.size_gb to the GB the folder may hold",
        )
        require_used(
            "cache", self, "size_gb", unless=not self.path, why="cache.path is empty, so nothing is cached",
            by="cache.path", to=" to the folder",
        )  # fmt: skip


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
    epochs: int = 0
    """Passes over the rows, instead of `steps`; 0 takes `steps`."""
    extends: str = ""
    """The folder of an earlier run that this one goes on from, with a schedule of its own."""
    seed: int = 0
    device: Device = "auto"
    compile: Switch = "auto"
    """auto: on for CUDA, off for CPU."""
    backend: str = "inductor"
    """torch.compile's backend."""
    log_every: int = 10
    save_every: int = 500
    """Steps between checkpoints, besides the last step's; 0 for none but that of a run that is stopped, and with
    target.tensor_parallel those before evaluations."""
    keep: int = 2
    """Checkpoints kept besides the last."""
    evaluate: int = 64
    """Rows held out as prompts of evaluations, at most one in 20; 0 for none. The interval of the acceptance length
    narrows with their root; all are decoded together (evaluate_positions)."""
    evaluate_tokens: int = 48
    """New tokens a prompt."""
    evaluate_positions: int = 32_768
    """Positions an evaluation decodes at a time, padding included; 4.8 GB of keys and values at Qwen3-8B's size."""
    evaluate_every: int = 0
    """Steps between evaluations while it trains, at temperature 0 and 1; the best drafter is kept. 0 for none."""
    profile: tuple[int, ...] = ()
    """First and last step to record with torch's profiler; empty for none."""
    loss_rows: int = 0
    """Rows of logits that exist at a time; 0 for 4,096 where their gradient takes their place (loss.kind=ce with
    loss.positions=decay, compiled by inductor on a GPU) and 2,048 elsewhere."""
    dense_limit_gb: float = 4.0
    """Largest score table of one layer on the dense path."""
    warm: bool = True
    """Run every bucket once on zero-weight batches before the first step."""
    threads: int = 0
    """CPU threads of a tensor operation in each worker; 0 leaves torch's choice. Tiny models are faster with 1."""
    wandb: str = ""
    """A Weights & Biases project; empty for none."""
    tensorboard: bool = False
    """Write TensorBoard event files to tensorboard/ in the run's folder."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        require_ranges("run", self)
        for name in ("evaluate_tokens", "evaluate_positions", "evaluate_every"):
            require_used(
                "run", self, name, unless=not self.evaluate, why="run.evaluate is 0, so nothing is evaluated",
                by="run.evaluate", to=" to the number of prompts",
            )  # fmt: skip


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
        require(
            self.runtime != "inline" or (self.targets, self.drafters) == (1, 1),
            "topology.runtime",
            f"inline holds one worker of each kind, not {self.targets} + {self.drafters}",
            "use --runtime processes, or --runtime threads for one process",
        )
        require(
            self.runtime != "data-parallel" or self.targets in {1, self.drafters},
            "topology.targets",
            f"data-parallel has a target beside each of its {self.drafters} drafters, not {self.targets}",
            "give --drafters alone",
        )
