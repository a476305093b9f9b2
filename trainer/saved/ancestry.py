"""A run that goes on where another one ended: more steps, another rate or another number of workers, as a new stage.

`run.extends` names the folder of the earlier run. The new stage starts with its newest weights and moments, has a
schedule of its own, reads on where the earlier one stopped, and its checkpoints record what came before.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from trainer.errors import CheckpointError
from trainer.saved import checkpoint
from trainer.saved.checkpoint import Saved

Ancestry = tuple[Mapping[str, object], ...]
"""The stages before, the first one first: {"run", "step", "batches", "identity", "rows", "held_out"}."""
SAME = ("target_files", "target", "layer_ids", "drafter", "block", "mask_token", "vocabulary")
"""What a later stage shares with an earlier one: without these its weights would mean something else."""


def parent_of(folder: Path) -> Saved:
    """Return the newest checkpoint of a run's folder; raises CheckpointError when there is none."""
    try:
        return checkpoint.find(folder / "checkpoints")
    except CheckpointError as error:
        raise CheckpointError(
            f"run.extends: {error.message}", "give the --output folder of a run that has saved a checkpoint"
        ) from error


def lineage(parent: Saved, folder: Path) -> Ancestry:
    """Return the stages before a run that extends `parent`."""
    identity = parent.state["identity"]
    told = checkpoint.identity_digest(identity)
    stage = {
        "run": folder.name, "step": parent.step, "batches": parent.state["batches"], "identity": told,
        "rows": identity.get("rows"), "held_out": identity.get("held_out"),
    }  # fmt: skip
    return (*identity.get("ancestry", ()), stage)


def require_extendable(parent: Saved, wanted: Mapping[str, object], folder: Path) -> None:
    """Raise CheckpointError naming every key in which the earlier run has another drafter or target."""
    plain = json.loads(json.dumps(wanted))
    saved = parent.state["identity"]
    changed = [
        f"{key}: there {saved.get(key)!r}, now {plain.get(key)!r}" for key in SAME if saved.get(key) != plain.get(key)
    ]
    if changed:
        hint = "give these settings as they were there; steps, optim.*, loss.*, rows and workers may differ"
        if "vocabulary" in saved and "vocabulary" in plain and "kept" not in parent.state:
            hint += "; 0.4.0 kept no list of the drafter's tokens: extend it over its own rows first, then that stage"
        raise CheckpointError(f"run.extends: {folder} has another drafter or target: {'; '.join(changed)}", hint)
