"""A target too large for one device: split over the devices of a group, by the plan transformers has for its layers.

Each device holds a share of the heads and of the MLP's channels; after the attention and after the MLP the group sums,
so the output of a layer, and with it every feature, is whole on each device. The embedding, the norms and the head are
whole everywhere: the drafter beside the target needs two of them.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import transformers
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from trainer.data.loader import Batch
from trainer.data.packing import Packed
from trainer.errors import ConfigError, TargetModelError
from trainer.target.loading import load_model

KEY = "target.tensor_parallel"
STYLES: Mapping[str, int] = {
    "colwise": -2, "packed_colwise": -2, "colwise_gather_output": -2,
    "rowwise": -1, "packed_rowwise": -1, "rowwise_split_input": -1,
}  # fmt: skip
"""Style of transformers' plan -> the axis of a weight that it splits."""
SUMS = frozenset({"moe_tp_experts"})
"""Styles that split nothing and sum what a module returns."""
WHOLE = frozenset({"replicated_with_grad_allreduce"})
"""Styles about gradients, which a frozen model has none of; their hooks would break a compiled layer's graph."""
_ENDS = ("lm_head", "embed")
"""What is whole on each device, whatever the plan says."""

Ids = tuple[torch.Tensor, Packed | None]
"""Tokens [B, S] that a target takes, and their documents where rows are packed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorGroup:
    """The processes that hold one target together; this one is number `place` of `size`."""

    size: int
    place: int
    leads: bool
    """Whether rank 0, which leads the run, is one of them."""
    group: Any
    """Their process group: gloo for CPU tensors, and NCCL for CUDA ones where the devices are GPUs."""
    mesh: Any
    """The same as a torch DeviceMesh of one axis."""

    def exchange(self, batch: Batch) -> list[Ids | None]:
        """Return what each member's batch, on the host, asks the target for; None where its features are cached."""
        own = None if batch.features is not None else (batch.ids, batch.packed)
        found = self._everyone(own)
        return [_pinned(each) if batch.ids.is_pinned() and each is not None else each for each in found]

    def asked(self, stop: Callable[[], bool]) -> Callable[[], bool]:
        """Return a `stop` that all members answer alike: whether any of them was asked to."""
        return lambda: any(self._everyone(stop()))

    def _everyone(self, own: Any) -> list[Any]:
        held: list[Any] = [None] * self.size
        dist.all_gather_object(held, own, group=self.group)
        return held


def _pinned(ids: Ids) -> Ids:
    tokens, packed = ids
    return tokens.pin_memory(), None if packed is None else packed.pinned()


def split_plan(path: Path, size: int) -> dict[str, str]:
    """Return module pattern -> style for the target in `path` over `size` devices.

    Raises TargetModelError where transformers has no plan for it that is known here, and ConfigError where a head
    or a channel would be cut through.
    """
    model = _weightless(path)
    told = getattr(model, "tp_plan", None) or {}
    plan = {key: style for key, style in told.items() if style not in WHOLE and not any(end in key for end in _ENDS)}
    unknown = sorted(set(plan.values()) - set(STYLES) - SUMS)
    if not plan or unknown:
        what = f"splits its layers by {', '.join(unknown)}" if unknown else "has no tensor-parallel plan for it"
        raise TargetModelError(
            f"{KEY}: {path} is a {model.config.model_type}, and transformers {transformers.__version__} {what}",
            f"use {KEY}=1 with a device that holds the target",
        )
    if any("attn" in key for key in plan):
        _require_whole_heads(model.config.get_text_config(), size)
    for name, parameter in model.named_parameters():
        axis = _axis(plan, name, parameter)
        if axis is not None and parameter.shape[axis] % size:
            raise ConfigError(
                f"{KEY}: {size} does not divide the {parameter.shape[axis]} channels of {name}",
                "use a number that divides them",
            )
    return plan


def _require_whole_heads(config: Any, size: int) -> None:
    heads = config.num_attention_heads
    narrow = getattr(config, "num_key_value_heads", None) or heads
    for count, what in ((heads, "attention heads"), (narrow, "key-value heads")):
        if count % size:
            able = [str(each) for each in range(1, narrow + 1) if narrow % each == 0 and heads % each == 0]
            raise ConfigError(f"{KEY}: {size} does not divide the target's {count} {what}", f"use {' or '.join(able)}")


def _weightless(path: Path) -> Any:
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path, local_files_only=True))


def _axis(plan: Mapping[str, str], name: str, parameter: torch.Tensor) -> int | None:
    """Return the axis along which a parameter is split; None for one that is whole."""
    generic = re.sub(r"\.\d+(?=\.|$)", ".*", name)
    style = plan.get(generic) or plan.get(generic.rpartition(".")[0], "")
    axis = STYLES.get(style)
    if axis is None or parameter.dim() > 1:
        return axis
    # The bias of a layer: it goes with the outputs.
    return -1 if axis == -2 else None


def load_split(path: Path, dtype: torch.dtype, group: TensorGroup, device: torch.device) -> nn.Module:
    """Return the target with this process's shares on `device`: nothing else of a split weight is read from the files.

    Raises TargetModelError where transformers did not split it as planned.
    """
    plan = split_plan(path, group.size)
    with _local_rank(device):
        model = load_model(path, dtype, tp_plan=plan, device_mesh=group.mesh)
    found = dict(model.named_parameters())
    for name, whole in _weightless(path).named_parameters():
        wanted = list(whole.shape)
        axis = _axis(plan, name, whole)
        if axis is not None:
            wanted[axis] //= group.size
        if name in found and list(found[name].shape) != wanted:
            raise TargetModelError(
                f"{KEY}: transformers {transformers.__version__} loaded {name} as {list(found[name].shape)}, and a"
                f" share of it is {wanted}",
                f"use {KEY}=1, or the transformers release of the profile",
            )
    return model


@contextmanager
def _local_rank(device: torch.device) -> Iterator[None]:
    """Have transformers take `device`: it reads the device's index from LOCAL_RANK."""
    before = os.environ.get("LOCAL_RANK")
    os.environ["LOCAL_RANK"] = str(device.index or 0)
    try:
        yield
    finally:
        os.environ.pop("LOCAL_RANK") if before is None else os.environ.update(LOCAL_RANK=before)


def weight_bytes(path: Path, size: int, itemsize: int) -> int:
    """Return the bytes of a target's weights on each of `size` devices that hold it, at `itemsize` bytes a value.

    Buffers, such as the frequencies of rotary positions, keep their own type and are whole everywhere.
    """
    plan = split_plan(path, size) if size > 1 else {}
    values, model = 0, _weightless(path)
    for name, parameter in model.named_parameters():
        values += parameter.numel() // (1 if _axis(plan, name, parameter) is None else size)
    return values * itemsize + sum(each.numel() * each.element_size() for each in model.buffers())


def members(world: int, size: int) -> Sequence[range]:
    """Return the ranks of each group: neighbours, so that a group stays on one host where it can."""
    return [range(first, first + size) for first in range(0, world, size)]
