"""Checkpoints: a folder that appears whole or not at all, without pickles, resumable bit for bit.

OUTPUT/checkpoints/step-000100/
    drafter.safetensors    fp32 masters by parameter name
    moments.safetensors    AdamW's exp_avg and exp_avg_sq by parameter name
    state.json             step, position in the data, what the run was (its identity), size and sha256 of each file,
                           the tokens of a reduced vocabulary

No random state is kept because none is carried: every draw is made from (seed, purpose, batch number).
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from trainer.errors import CheckpointError
from trainer.writing import say

SCHEMA = 2
MASTERS, MOMENTS = "drafter.safetensors", "moments.safetensors"
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
    kept: Sequence[int] | None = None
    """The tokens that a drafter with a reduced vocabulary can say."""


def save(root: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Write a checkpoint under `root` and remove all but the newest `keep` + 1; returns its folder.

    Raises CheckpointError when it cannot be written; the checkpoints before it stay as they were.
    """
    place = root / f"{_PREFIX}{checkpoint.step:06d}"
    made = root / f".{place.name}.partial"
    try:
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
        made.mkdir()
        _write(made, checkpoint)
        made.rename(place)
        _sync(root)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(made, ignore_errors=True)
        raise CheckpointError(
            f"{place}: cannot be written: {getattr(error, 'strerror', None) or error}",
            "make room or give the folder back, then go on with --resume from the checkpoint before it",
        ) from error
    for old in steps(root)[: -(keep + 1)]:
        left = root / f"{_PREFIX}{old:06d}"
        try:
            shutil.rmtree(left)
        except OSError as error:
            # Somebody's link, or not ours to remove: no reason to end the run.
            say(f"{left}: an old checkpoint stays: {error.strerror or error}")
    return place


def _write(made: Path, checkpoint: Checkpoint) -> None:
    save_file(_plain(checkpoint.masters), made / MASTERS)
    save_file(_plain(checkpoint.moments), made / MOMENTS)
    state = {
        "schema": SCHEMA, "step": checkpoint.step, "batches": checkpoint.batches,
        "optimizer_steps": checkpoint.optimizer_steps, "identity": checkpoint.identity, "files": _measured(made),
    }  # fmt: skip
    if checkpoint.kept is not None:
        state["kept"] = list(checkpoint.kept)
    (made / "state.json").write_text(json.dumps(state, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for file in made.iterdir():
        _sync(file)
    _sync(made)


def _measured(place: Path) -> dict[str, dict[str, object]]:
    """Return size and sha256 of both files, hashed side by side: they are gigabytes."""
    with ThreadPoolExecutor(2) as pool:
        digests = pool.map(_sha256, [place / name for name in (MASTERS, MOMENTS)])
        return {
            name: {"size": (place / name).stat().st_size, "sha256": digest}
            for name, digest in zip((MASTERS, MOMENTS), digests, strict=True)
        }


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def steps(root: Path) -> list[int]:
    """Return the steps that have a whole checkpoint under `root`, ascending."""
    if not root.is_dir():
        return []
    found = (_NAME.fullmatch(entry.name) for entry in root.iterdir())
    return sorted(int(name[1]) for name in found if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint on disk, with every file there in its size; its tensors are not read yet."""

    place: Path
    state: Mapping[str, Any]

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return int(self.state["step"])

    def load(self) -> Checkpoint:
        """Read it; raises CheckpointError for a file that is not what was written, or weights that are not finite."""
        for name, found in _measured(self.place).items():
            if found != self.state["files"][name]:
                raise CheckpointError(
                    f"{self.place / name}: its sha256 is not that of what was written", _remove(self.place)
                )
        masters = load_file(self.place / MASTERS)
        for name, tensor in masters.items():
            if not bool(tensor.isfinite().all()):
                raise CheckpointError(
                    f"{self.place / MASTERS}: {name} holds NaN or infinite values", _remove(self.place)
                )
        return Checkpoint(
            step=self.step, batches=self.state["batches"], optimizer_steps=self.state["optimizer_steps"],
            identity=self.state["identity"], masters=masters, moments=load_file(self.place / MOMENTS),
            kept=self.state.get("kept"),
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
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{place}/state.json: {error}", _remove(place)) from error
    _require_state(state, place)
    for name, written in state["files"].items():
        actual = (place / name).stat().st_size if (place / name).is_file() else None
        if actual != written["size"]:
            told = "missing" if actual is None else f"{actual} bytes"
            raise CheckpointError(f"{place / name}: {told}, {written['size']} bytes were written", _remove(place))
    return Saved(place=place, state=state)


def _remove(place: Path) -> str:
    return f"remove {place} to resume from the one before"


def _require_state(state: Any, place: Path) -> None:
    """Raise CheckpointError for a state.json that this trainer did not write."""
    if isinstance(state, dict) and state.get("schema") != SCHEMA:
        raise CheckpointError(
            f"{place}: schema {state.get('schema')}, this trainer reads {SCHEMA}",
            "resume with the trainer that wrote it",
        )
    kinds = {"step": int, "batches": int, "optimizer_steps": int, "identity": dict, "files": dict}
    wrong = [name for name, kind in kinds.items() if not isinstance(state, dict) or type(state.get(name)) is not kind]
    if not wrong and not _describes(state["files"]):
        wrong = ["files"]
    if not wrong and "kept" in state and tokens_digest(state["kept"]) != state["identity"].get("vocabulary"):
        wrong = ["kept"]
    if wrong:
        raise CheckpointError(f"{place}/state.json: {', '.join(wrong)} not as a checkpoint has it", _remove(place))


def _describes(files: Mapping[str, Any]) -> bool:
    """Return whether this is what `_measured` makes."""
    return sorted(files) == sorted((MASTERS, MOMENTS)) and all(
        isinstance(told, dict) and {key: type(value) for key, value in told.items()} == {"size": int, "sha256": str}
        for told in files.values()
    )


def tokens_digest(tokens: object) -> str:
    """Return what stands for the tokens of a reduced vocabulary in an identity."""
    return hashlib.sha256(str(tokens).encode()).hexdigest()[:16]


def identity_digest(identity: Mapping[str, object]) -> str:
    """Return what stands for an identity where it is only compared."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


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
