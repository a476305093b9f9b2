"""The command line: flags for what is changed often, --set for every other key. No torch here."""

import argparse
import errno
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from trainer.config import TrainConfig, build, parse_setting, read_file
from trainer.errors import ConfigError
from trainer.presets import PRESETS, preset

GateMode = Literal["enforce", "warn", "off"]

# Flag -> the key it sets; the name of a key is what an error message shows.
_SHORTCUTS: Mapping[str, tuple[str, type, str]] = {
    "--steps": ("run.steps", int, "optimizer steps"),
    "--seed": ("run.seed", int, "seed of everything that is drawn"),
    "--device": ("run.device", str, "auto, cpu or cuda"),
    "--compile": ("run.compile", str, "auto, on or off"),
    "--target": ("target.path", str, "folder of a local Hugging Face causal LM"),
    "--data": ("data.path", str, ".jsonl or .parquet file of conversations, or a folder of them"),
    "--runtime": ("topology.runtime", str, "auto, inline, threads or processes"),
    "--targets": ("topology.targets", int, "target workers"),
    "--drafters": ("topology.drafters", int, "drafter workers"),
    "--wandb": ("run.wandb", str, "Weights & Biases project"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What the command line asked for."""

    config: TrainConfig
    argv: tuple[str, ...]
    output: Path
    resume: bool
    quiet: bool
    gate: GateMode | None
    gate_reason: str


def _new_folder(profile: str) -> Path:
    if "RANK" in os.environ:
        raise ConfigError("--output: every process must be given the same folder", "add --output DIR to the command")
    return Path("runs") / f"{profile}-{time.strftime('%Y%m%d-%H%M%S')}"


def parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m trainer`."""
    made = argparse.ArgumentParser(prog="python -m trainer", description="Train a DFlash drafter for a frozen target.")
    made.add_argument("--profile", required=True, help=f"known-good stack and preset: {', '.join(PRESETS)}")
    made.add_argument("--gate", choices=("enforce", "warn", "off"), help="what a wrong stack does (default: enforce)")
    made.add_argument("--gate-reason", default="", help="why the gate is off or only warns; it is logged")
    made.add_argument("--config", type=Path, help="TOML file with any of the sections")
    made.add_argument("--set", action="append", default=[], metavar="SECTION.NAME=VALUE", help="set any key")
    for flag, (key, kind, told) in _SHORTCUTS.items():
        made.add_argument(flag, type=kind, help=f"{told} ({key})")
    made.add_argument("--output", type=Path, help="folder of the run (default: runs/PROFILE-TIME)")
    made.add_argument("--resume", action="store_true", help="go on from the last checkpoint under --output")
    made.add_argument("--quiet", action="store_true", help="no progress")
    return made


def parse(argv: Sequence[str]) -> Arguments:
    """Return the arguments; raises ConfigError for a bad value, exits 2 for a bad flag."""
    found = parser().parse_args(argv)
    layers = [preset(found.profile)]
    if found.config is not None:
        layers.append(read_file(found.config))
    layers += [parse_setting(text) for text in found.set]
    for flag, (key, _, _) in _SHORTCUTS.items():
        value = getattr(found, flag.removeprefix("--"))
        if value is not None:
            section, name = key.split(".")
            layers.append({section: {name: value}})
    config = build(found.profile, layers)
    return Arguments(
        config=config, argv=tuple(argv), output=found.output or _new_folder(found.profile),
        resume=found.resume, quiet=found.quiet,
        gate=cast("GateMode | None", found.gate), gate_reason=found.gate_reason,
    )  # fmt: skip


def make_output(place: Path) -> None:
    """Make the run's folder; raises ConfigError when it cannot be made or written."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ConfigError(
            f"--output {place}: {error.strerror}", "give a folder that can be made and written"
        ) from error
