"""What each value of the config may be: one table, so that no key is without its check."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from trainer.errors import ConfigError

_Range = tuple[Callable[[Any], bool], str, str]


def _least(low: float, cure: str | None = None, problem: str = "{}") -> _Range:
    return (lambda value: value >= low), problem, cure or f"use at least {low}"


def _whole_heads(value: int) -> bool:
    return value >= 0 and value % 2 == 0


def _decay_rates(value: tuple[float, ...]) -> bool:
    return len(value) == 2 and all(0 <= rate < 1 for rate in value)


def require(condition: bool, key: str, problem: str, cure: str) -> None:  # noqa: FBT001 - an assertion with a message
    """Raise ConfigError naming the key when the condition does not hold."""
    if not condition:
        raise ConfigError(f"{key}: {problem}", cure)


_OWN = "use 0 for the target's own"
RANGES: Mapping[str, _Range] = {
    "target.tensor_parallel": _least(1, problem="{} devices"),
    "target.features": _least(1, "select at least 1", "{} layers"),
    "drafter.layers": _least(1, problem="{} layers"),
    "drafter.block": _least(2, problem="width {} predicts nothing"),
    "drafter.anchors": _least(1, problem="{} blocks a row"),
    "drafter.sliding_layers": (
        lambda value: min(value, default=0) >= 0, "negative id in {}", "count layers from 0",
    ),
    "drafter.sliding_window": _least(1, problem="{} positions"),
    "drafter.heads": _least(0, _OWN),
    "drafter.key_value_heads": _least(0, _OWN),
    "drafter.head_dim": (
        _whole_heads, "{} cannot be halved for rotary positions", "use an even size, or 0 for the target's own",
    ),
    "drafter.intermediate": _least(0, _OWN),
    "drafter.gamma": _least(0, "use 0 for the published value", "{} is negative"),
    "drafter.vocabulary": _least(0, "use 0 for all of the target's tokens", "{} tokens"),
    "drafter.mask_token": _least(-1, "use -1 to let it be chosen"),
    "data.buckets": (
        lambda value: list(value) == sorted(set(value)) and min(value, default=0) >= 8,
        "{} is not ascending from at least 8", "list each length once, shortest first",
    ),
    "data.weights": (
        lambda value: all(0 < weight < math.inf for weight in value), "{}", "use positive numbers, 1 for each row once",
    ),
    "data.tokens": _least(1, "use at least the shortest bucket", "{} positions"),
    "data.together": _least(0, "use 0 for as many as there are drafters", "{} batches"),
    "data.prefetch": _least(1, problem="{} batches"),
    "loss.alpha": (lambda value: 0 <= value <= 1, "{}", "use 0 to 1 (0.5)"),
    "cache.size_gb": (lambda value: 0 <= value < math.inf, "{}", "use a size in GB, such as 200"),
    "optim.learning_rate": (lambda value: 0 < value < math.inf, "{}", "use a positive rate"),
    "optim.warmup": (lambda value: 0 <= value < 1, "{} is not a share of the steps", "use 0 to 0.99"),
    "optim.final": (lambda value: 0 <= value < math.inf, "{}", "use a share of learning_rate, 0 for none"),
    "optim.betas": (_decay_rates, "{} is not a pair of rates", "use two rates from 0 to below 1, such as [0.9, 0.999]"),
    "optim.epsilon": (lambda value: 0 <= value < math.inf, "{}", "use 0 or more (1e-8)"),
    "optim.weight_decay": (lambda value: 0 <= value < math.inf, "{}", "use 0 or more"),
    "optim.clip": (lambda value: value > 0, "{}", "use a positive norm (1.0)"),
    "optim.accumulate": _least(1),
    "run.steps": _least(1),
    "run.epochs": _least(0, "use 0 to give run.steps"),
    "run.evaluate_every": _least(0, "use 0 for no evaluation while it trains"),
    "run.profile": (
        lambda value: not value or (len(value) == 2 and 1 <= value[0] <= value[1]),
        "{} is not a first and a last step", "give two steps such as [20, 22], or none",
    ),
    "run.seed": (lambda value: 0 <= value < 2**63, "{}", "use 0 to 2**63 - 1"),
    "run.log_every": _least(1),
    "run.save_every": _least(0, "use 0 for none but that of a run that is stopped"),
    "run.keep": _least(0, "use 0 or more"),
    "run.evaluate": _least(0, "use 0 for no evaluation"),
    "run.evaluate_tokens": _least(1),
    "run.evaluate_positions": _least(1),
    "run.loss_rows": _least(0, "use 0 for the default"),
    "run.dense_limit_gb": (lambda value: value > 0, "{}", "use a positive size"),
    "run.threads": _least(0, "use 0 for torch's choice"),
    "topology.targets": _least(1),
    "topology.drafters": _least(1),
    "topology.queue": _least(1),
}  # fmt: skip
"""Key -> what its value must be, what is said of one that is not, and the cure. NaN is in no range."""


def require_ranges(section: str, values: object) -> None:
    """Raise ConfigError for the first value of a section that is out of its range."""
    for field in dataclasses.fields(values):  # type: ignore[arg-type]
        key, value = f"{section}.{field.name}", getattr(values, field.name)
        if key in RANGES:
            holds, problem, cure = RANGES[key]
            if not holds(value):
                raise ConfigError(f"{key}: {problem.format(list(value) if isinstance(value, tuple) else value)}", cure)


class UnusedKeyError(ConfigError):
    """A key was given and does nothing, because of the value of another one."""

    def __init__(self, key: str, by: str, message: str, hint: str) -> None:
        """Keep the key and the one that it is useless by."""
        super().__init__(message, hint)
        self.key, self.by = key, by


def require_used(section: str, values: object, name: str, *, unless: bool, why: str, by: str, to: str) -> None:
    """Raise UnusedKeyError for a key that was given and does nothing: it is not at its default, and `unless` holds.

    `by` is the key that decides it, `to` says which value of that would use it.
    """
    value = getattr(values, name)
    default = next(field.default for field in dataclasses.fields(values) if field.name == name)  # type: ignore[arg-type]
    if value != default and unless:
        key = f"{section}.{name}"
        raise UnusedKeyError(key, by, f"{key}: {value} does nothing: {why}", f"omit {key}, or set {by}{to}")
