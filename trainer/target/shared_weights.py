"""The target's embedding and head alone, for drafter processes: the rest of the target never enters their memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn
from transformers import AutoModelForCausalLM

from trainer.errors import TargetModelError
from trainer.target.loading import weights_index
from trainer.target.model import SharedWeights, read_config, require_plain_embedding


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


def shared_bytes(path: Path, itemsize: int) -> int:
    """Return the bytes of the two weights, from the files' headers alone, at `itemsize` bytes a value."""
    config = read_config(path)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = config.tie_word_embeddings and _stored(weights_index(path), _name(model, head)) is None
    return itemsize * (embedding.weight.numel() + (0 if tied else head.weight.numel()))


def _name(model: nn.Module, wanted: nn.Module) -> str:
    return next(f"{name}.weight" for name, module in model.named_modules() if module is wanted)


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
