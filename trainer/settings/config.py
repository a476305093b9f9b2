"""What a run is: frozen, validated sections. No torch here, so that the gate can refuse before it is imported.

A key is written SECTION.NAME ("optim.learning_rate"). Every error names the key and says what to change.
"""

import dataclasses
import difflib
import tomllib
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trainer.errors import ConfigError, not_utf8, too_much
from trainer.settings.bounds import UnusedKeyError, require, require_used
from trainer.settings.sections import (
    CacheConfig,
    DataConfig,
    DrafterConfig,
    LossConfig,
    OptimConfig,
    RunConfig,
    TargetConfig,
    TopologyConfig,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """One run."""

    profile: str
    target: TargetConfig = field(default_factory=TargetConfig)
    drafter: DrafterConfig = field(default_factory=DrafterConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    run: RunConfig = field(default_factory=RunConfig)
    topology: TopologyConfig = field(default_factory=TopologyConfig)

    def __post_init__(self) -> None:
        """Check what concerns two sections."""
        require(
            not self.run.evaluate_every or self.runtime in {"inline", "data-parallel"},
            "run.evaluate_every",
            f"in the {self.runtime} runtime no worker holds a drafter and a target",
            "use --runtime data-parallel or inline, or set run.evaluate_every=0",
        )
        require(
            not (self.run.extends and self.drafter.weights),
            "run.extends",
            "its weights come from the earlier run, and drafter.weights names others",
            "give one of the two",
        )
        require_used(
            "drafter", self.drafter, "gamma", unless=self.loss.positions != "decay",
            why=f"loss.positions={self.loss.positions} has no fixed decay", by="loss.positions", to="=decay",
        )  # fmt: skip
        size, drafters = self.target.tensor_parallel, self.topology.drafters
        require(
            size == 1 or self.runtime == "data-parallel",
            "target.tensor_parallel",
            f"in the {self.runtime} runtime each target is on one device",
            f"use --runtime data-parallel --drafters {-(-drafters // size) * size}",
        )
        require(
            drafters % size == 0,
            "target.tensor_parallel",
            f"{drafters} drafters are not groups of {size} devices",
            f"use --drafters {-(-drafters // size) * size}, or a target.tensor_parallel that divides {drafters}",
        )

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


# A type -> what a user is asked for.
_KINDS: Mapping[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}
_PATHS = ("target.path", "data.path")
"""Keys that decide what is trained: an empty path would quietly mean the toy."""
SECTIONS: Mapping[str, type] = {
    each.name: typing.cast("type", each.type) for each in dataclasses.fields(TrainConfig) if each.name != "profile"
}


def build(profile: str, layers: list[Mapping[str, Mapping[str, object]]]) -> TrainConfig:
    """Return the config of `profile` from {section: {name: value}} layers, later ones winning.

    A key that a later layer makes useless is left out: a file's run.evaluate_tokens, where a flag sets run.evaluate=0.

    Raises ConfigError for an unknown section or key and for a value of another type.
    """
    merged: dict[str, dict[str, object]] = {name: {} for name in SECTIONS}
    depth: dict[str, int] = {}
    for place, layer in enumerate(layers):
        for section, values in layer.items():
            if section not in SECTIONS:
                raise ConfigError(f"{section}: no such section", _meant(section, SECTIONS, "sections are"))
            for name, value in values.items():
                merged[section][name] = _fit(section, name, value)
                depth[f"{section}.{name}"] = place
    while True:
        try:
            return TrainConfig(profile=profile, **{name: SECTIONS[name](**values) for name, values in merged.items()})
        except UnusedKeyError as error:
            if depth.get(error.by, -1) <= depth[error.key]:
                raise
            section, _, name = error.key.partition(".")
            del merged[section][name]


def _fit(section: str, name: str, value: object) -> object:
    kinds = typing.get_type_hints(SECTIONS[section])
    key = f"{section}.{name}"
    if name not in kinds:
        raise ConfigError(f"{key}: no such key", _meant(name, kinds, f"keys of {section} are", section))
    if key in _PATHS and "" in (value if isinstance(value, list | tuple) else [value]):
        raise ConfigError(f"{key}: empty", "give a path (a variable of the shell may not be set), or omit the key")
    kind = kinds[name]
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        require(value in choices, key, f"{value!r} is none of {', '.join(choices)}", f"use one of {', '.join(choices)}")
        return value
    if typing.get_origin(kind) is tuple:
        item = typing.get_args(kind)[0]
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(_scalar(key, part, item) for part in values)
    return _scalar(key, value, kind)


def _meant(name: str, known: Iterable[str], listed: str, section: str = "") -> str:
    """Return the hint for a name that is not there: the closest one, or all of them."""
    near = difflib.get_close_matches(name, list(known), n=1)
    if near:
        return f"did you mean {section + '.' if section else ''}{near[0]}?"
    elsewhere = [other for other, kind in SECTIONS.items() if section and name in typing.get_type_hints(kind)]
    if elsewhere:
        return f"use {elsewhere[0]}.{name}"
    return f"{listed} {', '.join(known)}"


def _scalar(key: str, value: object, kind: type) -> object:
    if kind is float and type(value) is int:
        return float(value)
    require(type(value) is kind, key, f"{value!r} is not {_KINDS[kind]}", f"give {_KINDS[kind]}")
    require(not isinstance(value, str) or "\0" not in value, key, f"{value!r} has a null byte", "write it without")
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
    except (ValueError, RecursionError) as error:
        # Besides TOML's own errors those of an integer with thousands of digits, and of deep nesting.
        raise ConfigError(f"--config {path}: {too_much(error)}", "fix the TOML at that line") from error
    for section, values in found.items():
        require(isinstance(values, dict), str(path), f"{section} is not a table", f"write keys under [{section}]")
    return found


def parse_setting(text: str) -> Mapping[str, Mapping[str, object]]:
    """Return one `SECTION.NAME=VALUE` as a layer; VALUE is TOML, or a bare word for a string."""
    key, equals, value = text.partition("=")
    section, dot, name = key.strip().partition(".")
    require(
        bool(equals and dot),
        f"--set {text}",
        "not of the form SECTION.NAME=VALUE",
        "write for example --set optim.clip=0.5",
    )
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--set {key}=..: {too_much(error)}", "give a value that can be read") from error
    return {section: {name: parsed}}
