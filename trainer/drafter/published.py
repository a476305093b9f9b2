"""Weights of a published drafter as the start of a run: a Hugging Face folder with the published weight names."""

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from trainer.drafter.model import Drafter
from trainer.errors import ConfigError

_CURE = "give the folder of a drafter for this target with the same sizes, or set the drafter.* sizes to those it has"


def load_weights(model: Drafter, place: Path) -> None:
    """Load every weight of `model` from a folder; raises ConfigError naming what does not fit."""
    stored = _read(place)
    wanted = {name: parameter.shape for name, parameter in model.named_parameters()}
    problems = [f"{name} is missing" for name in wanted if name not in stored]
    problems += [f"{name} has no place in this drafter" for name in stored if name not in wanted]
    problems += [
        f"{name} is {list(tensor.shape)}, not {list(wanted[name])}"
        for name, tensor in stored.items()
        if name in wanted and tensor.shape != wanted[name]
    ]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ConfigError(f"drafter.weights {place}: {'; '.join(problems[:3])}{more}", _CURE)
    for name, tensor in stored.items():
        if not bool(tensor.isfinite().all()):
            raise ConfigError(f"drafter.weights {place}: {name} holds NaN or infinite values", _CURE)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(stored[name])


def weights_digest(place: Path) -> str:
    """Return the identity of a folder's weights; raises ConfigError when there are none."""
    digest = hashlib.sha256()
    for file in _files(place):
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()[:16]


def _files(place: Path) -> list[Path]:
    found = sorted(place.glob("*.safetensors"))
    if not found:
        raise ConfigError(f"drafter.weights {place}: no .safetensors file there", _CURE)
    return found


def _read(place: Path) -> dict[str, torch.Tensor]:
    stored: dict[str, torch.Tensor] = {}
    for file in _files(place):
        try:
            stored.update(load_file(file))
        except (SafetensorError, OSError) as error:
            raise ConfigError(f"drafter.weights {file}: cannot be read: {error}", _CURE) from error
    return stored
