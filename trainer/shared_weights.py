"""The target's embedding and head alone, for drafter processes: the rest of the target never enters their memory."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import AutoModelForCausalLM

from trainer.errors import TargetModelError
from trainer.target import SharedWeights, read_config, require_plain_embedding

_SAVE = "save the target with save_pretrained (safetensors)"
_FETCH = "fetch the target's folder again"


def load_shared(path: Path, device: torch.device, dtype: torch.dtype) -> SharedWeights:
    """Return the two weights from a local model folder; tied ones are one tensor."""
    config = read_config(path)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    require_plain_embedding(model)
    index = weights_index(path)
    embedding = _read(path, index, _name(model, model.get_input_embeddings())).to(device, dtype)
    head_name = _name(model, model.get_output_embeddings())
    if config.tie_word_embeddings and _stored(index, head_name) is None:
        return SharedWeights(embedding=embedding, head=embedding)
    return SharedWeights(embedding=embedding, head=_read(path, index, head_name).to(device, dtype))


def _name(model: nn.Module, wanted: nn.Module) -> str:
    return next(f"{name}.weight" for name, module in model.named_modules() if module is wanted)


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
            raise TargetModelError(f"{path} holds no safetensors weights", _SAVE)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise TargetModelError(f"{listed if listed.is_file() else single} cannot be read: {error}", _FETCH) from error
    gone = sorted({name for name in index.values() if not (path / name).is_file()})
    if gone:
        raise TargetModelError(f"{path} lacks {', '.join(gone)}, which {listed.name} lists", _FETCH)
    return index


def _stored(index: Mapping[str, str], name: str) -> str | None:
    """Return the name under which a tensor is stored: a composite model's text part has a prefix of its own."""
    inner = name.removeprefix("model.")
    names = (name, f"model.language_model.{inner}", f"language_model.model.{inner}", f"language_model.{name}")
    return next((stored for stored in names if stored in index), None)


def _read(path: Path, index: Mapping[str, str], name: str) -> Any:
    stored = _stored(index, name)
    if stored is None:
        raise TargetModelError(
            f"{path} stores no tensor {name}", "save the target again with this transformers release's save_pretrained"
        )
    with safe_open(path / index[stored], framework="pt") as held:
        return held.get_tensor(stored)
