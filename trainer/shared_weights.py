"""The target's embedding and head alone, for drafter processes: the rest of the target never enters their memory."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn
from transformers import AutoModelForCausalLM

from trainer.errors import TargetModelError
from trainer.target import SharedWeights, read_config


def load_shared(path: Path, device: torch.device, dtype: torch.dtype) -> SharedWeights:
    """Return the two weights from a local model folder; tied ones are one tensor."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(read_config(path))
    embedding = _read(path, _name(model, model.get_input_embeddings())).to(device, dtype)
    head_name = _name(model, model.get_output_embeddings())
    tied = bool(getattr(model.config, "tie_word_embeddings", False)) and head_name not in _index(path)
    return SharedWeights(embedding=embedding, head=embedding if tied else _read(path, head_name).to(device, dtype))


def _name(model: nn.Module, wanted: nn.Module) -> str:
    return next(f"{name}.weight" for name, module in model.named_modules() if module is wanted)


def _index(path: Path) -> dict[str, str]:
    """Return tensor name -> file name."""
    listed = path / "model.safetensors.index.json"
    if listed.is_file():
        return dict(json.loads(listed.read_text(encoding="utf-8"))["weight_map"])
    single = path / "model.safetensors"
    if not single.is_file():
        raise TargetModelError(
            f"{path} holds no safetensors weights", "save the target with save_pretrained (safetensors)"
        )
    with safe_open(single, framework="pt") as held:
        return dict.fromkeys(held.keys(), single.name)


def _read(path: Path, name: str) -> Any:
    index = _index(path)
    if name not in index:
        raise TargetModelError(
            f"{path} stores no tensor {name}", "save the target again with this transformers release's save_pretrained"
        )
    with safe_open(path / index[name], framework="pt") as held:
        return held.get_tensor(name)
