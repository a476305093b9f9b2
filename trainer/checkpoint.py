"""Checkpoints: a folder that appears whole or not at all, without pickles, resumable bit for bit.

OUTPUT/checkpoints/step-000100/
    drafter.safetensors    fp32 masters by parameter name
    moments.safetensors    AdamW's exp_avg and exp_avg_sq by parameter name
    state.json             step, position in the data, and what the run was (its identity)

No random state is kept because none is carried: every draw is made from (seed, purpose, batch number).
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from trainer.errors import CheckpointError

SCHEMA = 1
_PREFIX = "step-"
_NAME = re.compile(r"step-(\d{6}|[1-9]\d{6,})")
"""What `save` names a folder; anything else under the root is somebody's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One saved state, on the CPU."""

    step: int
    """Optimizer steps done."""
    batches: int
    """Micro-batches consumed over all drafters."""
    optimizer_steps: int
    identity: Mapping[str, object]
    masters: dict[str, torch.Tensor]
    moments: dict[str, torch.Tensor]


def save(root: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Write a checkpoint under `root` and remove all but the newest `keep` + 1; returns its folder."""
    root.mkdir(parents=True, exist_ok=True)
    _sweep(root)
    place = root / f"{_PREFIX}{checkpoint.step:06d}"
    made = root / f".{place.name}.partial"
    made.mkdir()
    save_file(_plain(checkpoint.masters), made / "drafter.safetensors")
    save_file(_plain(checkpoint.moments), made / "moments.safetensors")
    files = {file.name: file.stat().st_size for file in sorted(made.iterdir())}
    state = {
        "schema": SCHEMA, "step": checkpoint.step, "batches": checkpoint.batches,
        "optimizer_steps": checkpoint.optimizer_steps, "identity": checkpoint.identity, "files": files,
    }  # fmt: skip
    (made / "state.json").write_text(json.dumps(state, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for file in made.iterdir():
        _sync(file)
    _sync(made)
    made.rename(place)
    _sync(root)
    for old in steps(root)[: -(keep + 1)]:
        shutil.rmtree(root / f"{_PREFIX}{old:06d}")
    return place


def steps(root: Path) -> list[int]:
    """Return the steps that have a whole checkpoint under `root`, ascending."""
    if not root.is_dir():
        return []
    found = (_NAME.fullmatch(entry.name) for entry in root.iterdir())
    return sorted(int(name[1]) for name in found if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint on disk, whole by its sizes; its tensors are not read yet."""

    place: Path
    state: Mapping[str, Any]

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return int(self.state["step"])

    def load(self) -> Checkpoint:
        """Read it."""
        return Checkpoint(
            step=self.step, batches=self.state["batches"], optimizer_steps=self.state["optimizer_steps"],
            identity=self.state["identity"], masters=load_file(self.place / "drafter.safetensors"),
            moments=load_file(self.place / "moments.safetensors"),
        )  # fmt: skip


def find(root: Path, step: int | None = None) -> Saved:
    """Return the newest checkpoint under `root`, or that of `step`; raises CheckpointError naming what is wrong."""
    found = steps(root)
    if not found or (step is not None and step not in found):
        wanted = "no checkpoint" if step is None else f"no checkpoint of step {step}"
        raise CheckpointError(f"{root}: {wanted}", "start without --resume, or give the --output of an earlier run")
    place = root / f"{_PREFIX}{found[-1] if step is None else step:06d}"
    try:
        state = json.loads((place / "state.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise CheckpointError(
            f"{place}/state.json: {error}", f"remove {place} to resume from the one before"
        ) from error
    if state.get("schema") != SCHEMA:
        raise CheckpointError(
            f"{place}: schema {state.get('schema')}, this trainer reads {SCHEMA}",
            "resume with the trainer that wrote it",
        )
    for name, size in state["files"].items():
        actual = (place / name).stat().st_size if (place / name).is_file() else None
        if actual != size:
            raise CheckpointError(
                f"{place / name}: {'missing' if actual is None else f'{actual} bytes'}, {size} bytes were written",
                f"remove {place} to resume from the one before",
            )
    return Saved(place=place, state=state)


def require_same(saved: Mapping[str, object], wanted: Mapping[str, object], root: Path) -> None:
    """Raise CheckpointError naming every key in which the saved run differs from this one."""
    # Through JSON, so that tuples and lists compare as what was stored.
    plain = json.loads(json.dumps(wanted))
    changed = [
        f"{key}: saved {saved.get(key)!r}, now {plain.get(key)!r}"
        for key in sorted({*saved, *plain})
        if saved.get(key) != plain.get(key)
    ]
    if changed:
        raise CheckpointError(
            f"{root} belongs to another run: {'; '.join(changed)}",
            "resume with the settings it was saved with, or give another --output",
        )


def _plain(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    # Views into one flat buffer share storage, which the format refuses: each is copied to its own on the CPU.
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(root: Path) -> None:
    for left in root.glob(f".{_PREFIX}*.partial"):
        shutil.rmtree(left)
