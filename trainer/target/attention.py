"""Attention of the frozen target over packed rows, by transformers' own hook: tiles of each document, no dense table.

A model class that takes its attention from transformers' AttentionInterface calls the function that is registered
under the name in its config. The trunk's layers get a config of their own with this name; the model that evaluation
decodes with keeps its own.
"""

import copy
from typing import Any

import torch
from torch import nn
from torch.nn.attention.flex_attention import BlockMask
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from trainer.drafter.attention import attend, needs_small_tiles
from trainer.errors import ConfigError, TargetModelError
from trainer.fp8 import copy_shell

NAME = "trainer_documents"
OTHER_MATHS = ("softcap", "s_aux", "position_bias", "sliding_window")
"""Arguments with which a model asks for more than scores, a scale and a softmax."""


def attend_to_documents(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Return attention [B, S, heads, D] of query [B, heads, S, D] over key and value [B, kv heads, S, D].

    With a BlockMask by flex_attention, which must run inside a compiled region; without a mask as "sdpa" does.
    """
    if not isinstance(attention_mask, BlockMask):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **more)
    asked = [name for name in OTHER_MATHS if more.get(name) is not None]
    if asked:
        raise TargetModelError(
            f"{type(module).__name__} asks its attention for {', '.join(asked)}, which packed rows do not have",
            "set data.pack=false",
        )
    small = getattr(module, "small_tiles", False)
    output = attend(query, key, value, attention_mask, small_tiles=small, scale=scaling)
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attend_to_documents)


def attend_in_documents(model: nn.Module, layers: nn.ModuleList, device: torch.device) -> None:
    """Let these layers of `model`, which must own their tables of children, attend by `attend_to_documents`.

    Raises ConfigError where the model's class does not ask transformers for the function.
    """
    small = needs_small_tiles(device)
    asks = getattr(model, "_supports_attention_backend", False)
    if not asks or not all(_redirect(layer, small) for layer in layers):
        raise ConfigError(
            f"data.pack: the attention of {type(model).__name__} cannot be replaced", "set data.pack=false"
        )


def _redirect(module: nn.Module, small: bool) -> int:  # noqa: FBT001 - handed down
    """Give the children of `module` that have a model's config one with the name; return how many there are."""
    count = 0
    for name, child in list(module._modules.items()):  # noqa: SLF001 - the table itself is replaced
        config = getattr(child, "config", None)
        if child is None or getattr(config, "_attn_implementation", None) is None:
            continue
        own = copy_shell(child)
        own.config = copy.copy(config)
        own.config._attn_implementation = NAME  # noqa: SLF001 - transformers' own spelling
        own.small_tiles = small
        module._modules[name] = own  # noqa: SLF001
        count += 1
    return count
