"""The command line: flags for what is changed often, --set for every other key. No torch here."""

import argparse
import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envdoctor.gate import MODES, Admitted, Expected, Mode, require
from trainer.errors import ConfigError
from trainer.settings.config import TrainConfig, build, parse_setting, read_file
from trainer.settings.presets import PLAIN, PRESETS, preset

# Flag -> the key it sets; the name of a key is what an error message shows.
_SHORTCUTS: Mapping[str, tuple[str, type, str]] = {
    "--steps": ("run.steps", int, "optimizer steps"),
    "--seed": ("run.seed", int, "seed of everything that is drawn"),
    "--device": ("run.device", str, "auto, cpu or cuda"),
    "--compile": ("run.compile", str, "auto, on or off"),
    "--target": ("target.path", str, "folder of a local Hugging Face causal LM"),
    "--data": (
        "data.path",
        str,
        "file of conversations (.jsonl, .json, .parquet, .arrow) or a folder of them; may be repeated",
    ),
    "--runtime": ("topology.runtime", str, "auto, inline, threads, processes or data-parallel"),
    "--targets": ("topology.targets", int, "target workers"),
    "--drafters": ("topology.drafters", int, "drafter workers"),
    "--wandb": ("run.wandb", str, "Weights & Biases project"),
}

_REPEATED = ("--data",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """A run, ready to start."""

    config: TrainConfig
    expected: Expected
    argv: tuple[str, ...]
    output: Path
    resume: bool
    quiet: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """What the command line asked for, before its profile was read."""

    profile: str
    """A name, or the path of a profile's file."""
    preset: str | None
    layers: tuple[Mapping[str, Mapping[str, object]], ...]
    """Settings of the config file and of the flags, later ones winning."""
    argv: tuple[str, ...]
    output: Path | None
    resume: bool
    quiet: bool
    gate: Mode | None
    gate_reason: str

    def admitted(self) -> Arguments:
        """Pass the gate and return the run on what the profile says; raises ConfigError for a bad value.

        The gate raises SystemExit where the stack is not the profile's.
        """
        found = require(self.profile, mode=self.gate, reason=self.gate_reason)
        return self.on(found)

    def on(self, found: Admitted) -> Arguments:
        """Return the run on what a profile says; raises ConfigError for a bad value."""
        if self.preset is None and found.preset is None:
            raise ConfigError(
                f"--profile {self.profile}: not read, so the preset it names is not known",
                f"name the preset: --preset {' or '.join(PRESETS)}",
            )
        start = preset(self.preset or found.preset or PLAIN)
        return Arguments(
            config=build(found.profile, [start, *self.layers]), expected=found.expected, argv=self.argv,
            output=self.output or _new_folder(found.profile), resume=self.resume, quiet=self.quiet,
        )  # fmt: skip


def _new_folder(profile: str) -> Path:
    if "RANK" in os.environ:
        raise ConfigError("--output: every process must be given the same folder", "add --output DIR to the command")
    return Path("runs") / f"{profile}-{time.strftime('%Y%m%d-%H%M%S')}"


def parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m trainer`."""
    made = argparse.ArgumentParser(prog="python -m trainer", description="Train a DFlash drafter for a frozen target.")
    add_common(made)
    made.add_argument("--output", type=given("--output", Path), help="folder of the run (default: runs/PROFILE-TIME)")
    made.add_argument("--resume", action="store_true", help="go on from the last checkpoint under --output")
    made.add_argument("--quiet", action="store_true", help="no progress")
    return made


def add_common(made: argparse.ArgumentParser) -> None:
    """Add the flags that choose the stack and the settings."""
    told = "known-good stack: a name, or the path of a profile's file"
    made.add_argument("--profile", type=given("--profile"), required=True, help=told)
    made.add_argument(
        "--preset", choices=tuple(PRESETS), help=f"settings to start from (default: the profile's own, else {PLAIN})"
    )
    made.add_argument("--gate", choices=MODES, help="what a wrong stack does (default: enforce)")
    made.add_argument("--gate-reason", default="", help="why the gate is off or only warns; it is logged")
    made.add_argument("--config", type=given("--config", Path), help="TOML file with any of the sections")
    made.add_argument("--set", action="append", default=[], metavar="SECTION.NAME=VALUE", help="set any key")
    for flag, (key, kind, told) in _SHORTCUTS.items():
        made.add_argument(
            flag, type=given(flag) if kind is str else kind, action="append" if flag in _REPEATED else "store",
            help=f"{told} ({key})",
        )  # fmt: skip


def given(flag: str, kind: Callable[[str], Any] = str) -> Callable[[str], Any]:
    """Return the reader of a flag's value; it raises ConfigError for an empty one, such as of a variable not set."""

    def read(text: str) -> Any:
        if not text:
            cure = f"give a value (a variable of the shell may not be set), or omit {flag}"
            raise ConfigError(f"{flag}: empty", cure)
        return kind(text)

    return read


def parse(argv: Sequence[str]) -> CommandLine:
    """Return the command line; raises ConfigError for a setting that cannot be read, exits 2 for a bad flag."""
    return parse_common(parser().parse_args(argv), argv)


def parse_common(found: argparse.Namespace, argv: Sequence[str]) -> CommandLine:
    """Return the command line of parsed flags; raises ConfigError for a setting that cannot be read."""
    if getattr(found, "resume", False) and found.output is None:
        raise ConfigError("--resume: no --output", "add --output with the folder of the run that is to go on")
    layers = [read_file(found.config)] if found.config is not None else []
    flags: dict[str, dict[str, object]] = {}
    for text in found.set:
        for section, values in parse_setting(text).items():
            flags.setdefault(section, {}).update(values)
    for flag, (key, _, _) in _SHORTCUTS.items():
        value = getattr(found, flag.removeprefix("--"))
        if value is not None:
            section, name = key.split(".")
            flags.setdefault(section, {})[name] = value
    layers.append(flags)
    return CommandLine(
        profile=found.profile, preset=found.preset, layers=tuple(layers), argv=tuple(argv),
        output=getattr(found, "output", None), resume=getattr(found, "resume", False),
        quiet=getattr(found, "quiet", False), gate=found.gate, gate_reason=found.gate_reason,
    )  # fmt: skip


def require_pair(config: TrainConfig, *, rows: bool = True) -> None:
    """Raise ConfigError for rows without their target, or where `rows` are needed for a target without rows."""
    if config.data.path and not config.target.path:
        raise ConfigError(
            f"--data {config.data.path[0]}: no --target, and the built-in toy target knows none of its words",
            "name the target's folder with --target, or omit --data to train the toy",
        )
    if rows and config.target.path and not config.data.path:
        raise ConfigError(
            f"--target {config.target.path}: no --data, and the embedded corpus is the toy target's language",
            "name the conversations with --data, or omit --target to train the toy",
        )


def make_output(place: Path, *, resume: bool) -> None:
    """Make the run's folder; raises ConfigError when it cannot be made or written, or is not there to resume."""
    if resume and not place.is_dir():
        raise ConfigError(f"--output {place}: no such folder", "give the --output of an earlier run, or omit --resume")
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ConfigError(
            f"--output {place}: {error.strerror}", "give a folder that can be made and written"
        ) from error
