"""A target's weights as they are in its files: transformers fills what is not there with random numbers and goes on."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

from trainer.errors import TargetModelError, memory_is_full

FETCH = "fetch the target's folder again"
SAVE = "save the target with save_pretrained (safetensors)"
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
"""Types of weights that are values by themselves, as safetensors writes them."""
SHOWN = 3
"""Names of weights in a message."""


def weights_index(path: Path) -> dict[str, str]:
    """Return tensor name -> file name; raises TargetModelError when weights are missing or no safetensors."""
    listed = path / "model.safetensors.index.json"
    single = path / "model.safetensors"
    try:
        if listed.is_file():
            index = dict(json.loads(listed.read_text(encoding="utf-8"))["weight_map"])
        elif single.is_file():
            with safe_open(single, framework="pt") as held:
                index = dict.fromkeys(held.keys(), single.name)
        else:
            raise TargetModelError(f"{path} holds no safetensors weights", SAVE)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise TargetModelError(f"{listed if listed.is_file() else single} cannot be read: {error}", FETCH) from error
    gone = sorted({name for name in index.values() if not (path / name).is_file()})
    if gone:
        raise TargetModelError(f"{path} lacks {', '.join(gone)}, which {listed.name} lists", FETCH)
    for file in sorted(set(index.values())):
        _require_readable(path, file, {name for name, at in index.items() if at == file})
    return index


def _require_readable(path: Path, file: str, names: set[str]) -> None:
    """Raise TargetModelError when a file is cut off, lacks a tensor of the index, or holds quantised weights."""
    try:
        with safe_open(path / file, framework="pt") as held:
            stored = set(held.keys())
            kinds = {name: held.get_slice(name).get_dtype() for name in stored if name.endswith(".weight")}
    except (OSError, SafetensorError) as error:
        raise TargetModelError(f"{path / file} cannot be read: {error}", FETCH) from error
    gone = sorted(names - stored)
    if gone:
        raise TargetModelError(f"{path / file} lacks {gone[0]}, which the index lists", FETCH)
    other = sorted(name for name, kind in kinds.items() if kind not in FLOATS)
    if other:
        raise TargetModelError(
            f"{path / file}: {other[0]} is {kinds[other[0]]}: quantised weights are not read",
            "give the target in bf16, fp16 or fp32",
        )


def load_model(path: Path, dtype: torch.dtype, **more: Any) -> nn.Module:
    """Return the causal LM of a local folder (safetensors), on the CPU unless `more` says otherwise.

    Raises TargetModelError where the files cannot be read, lack a weight, or have one of another shape.
    """
    # What it would say of missing weights is raised here.
    spoken = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            path, dtype=dtype, local_files_only=True, attn_implementation="sdpa", use_safetensors=True,
            output_loading_info=True, ignore_mismatched_sizes=True, **more,
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, ImportError, SafetensorError) as error:
        if memory_is_full(error):
            raise
        told = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise TargetModelError(
            f"{path}: transformers {transformers.__version__} cannot load it: {told}", FETCH
        ) from error
    finally:
        transformers_logging.set_verbosity(spoken)
    _require_whole(path, found)
    return model


def _require_whole(path: Path, found: dict[str, Any]) -> None:
    missing, other = sorted(found["missing_keys"]), sorted(found["mismatched_keys"])
    if missing:
        raise TargetModelError(f"{path} lacks {_listed(missing)}", FETCH)
    if other:
        name, stored, wanted = other[0]
        raise TargetModelError(
            f"{path}: {name} is {list(stored)}, and config.json says {list(wanted)}", f"{FETCH}: its files do not match"
        )


def _listed(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more weights" if more > 0 else "")


def require_finite(path: Path, model: nn.Module) -> None:
    """Raise TargetModelError when a weight is NaN or infinite: every loss would be."""
    named = [(name, each) for name, each in model.named_parameters() if each.is_floating_point()]
    # One look at the device for all of them.
    finite = torch.stack([each.isfinite().all() for _, each in named]).tolist()
    bad = [name for (name, _), fine in zip(named, finite, strict=True) if not fine]
    if bad:
        raise TargetModelError(f"{path}: {_listed(bad)} {'has' if len(bad) == 1 else 'have'} NaN or infinity", FETCH)
