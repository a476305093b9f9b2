"""Linear layers in fp8: e4m3 weights and inputs, one scale for each row of either.

Of the frozen target the weights are quantised once; of the drafter in each step, from its bf16 parameters: its outputs
and the gradients of its inputs are fp8 products, those of its weights bf16 ones. A product's error is about 3.7 % of
its norm with random data (bf16: 0.17 %); whether a drafter minds is for its acceptance to say, so this is off unless it
is asked for.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import nn
from torch.autograd.function import FunctionCtx
from torch.nn.functional import linear

from trainer.errors import ConfigError

E4M3_MAX = 448.0
"""Largest finite e4m3 value."""
FEWEST = 1 << 16
"""Weights a layer must have: below that the product costs less than the quantising."""
Narrow: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""e4m3 weights [O, I] and their scales [1, O]."""
ROUTERS = frozenset({"gate", "router"})
"""Names of layers that choose experts: a choice that flips costs more than its product."""


def quantise(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return e4m3 values and the float32 scales [R, 1] of rows [R, C]: values * scale is what they stand for."""
    wide = rows.float()
    scale = wide.abs().amax(dim=-1, keepdim=True).clamp(min=1e-12) / E4M3_MAX
    return (wide / scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn), scale


class Float8Linear(nn.Module):
    """A frozen linear layer whose product is made in fp8."""

    weight: torch.Tensor
    scale: torch.Tensor

    def __init__(self, linear: nn.Linear) -> None:
        """Quantise the weight [O, I] once; the given layer stays as it is."""
        super().__init__()
        weight, scale = quantise(linear.weight.detach())
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale.t().contiguous())
        self.bias = linear.bias

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return [.., O] of [.., I], in the dtype of `hidden`."""
        values, scale = quantise(hidden.flatten(0, -2))
        made = product(values, scale, self.weight, self.scale, hidden.dtype, self.bias)
        return made.unflatten(0, hidden.shape[:-1])


def product(
    values: torch.Tensor,
    scale: torch.Tensor,
    weight: torch.Tensor,
    by_column: torch.Tensor,
    dtype: torch.dtype,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return [R, O] in `dtype` of e4m3 values [R, I] with scale [R, 1] and weight [O, I] with scale [1, O]."""
    return torch._scaled_mm(  # noqa: SLF001 - torch has no public name for it
        values, weight.t(), scale_a=scale, scale_b=by_column, bias=bias, out_dtype=dtype, use_fast_accum=True
    )


class _TrainedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(hidden, weight)
        values, scale = quantise(hidden)
        narrow, by_row = quantise(weight)
        return product(values, scale, narrow, by_row.t().contiguous(), hidden.dtype)

    @staticmethod
    def backward(ctx: FunctionCtx, *upstream: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        (given,) = upstream
        hidden, weight = ctx.saved_tensors
        values, scale = quantise(given)
        narrow, by_row = quantise(weight.t())
        by_hidden = product(values, scale, narrow.contiguous(), by_row.t().contiguous(), given.dtype)
        return by_hidden, given.t() @ hidden


class Float8TrainedLinear(nn.Module):
    """A linear layer without bias that learns: the parameter stays the given layer's."""

    def __init__(self, linear: nn.Linear) -> None:
        """Share the weight [O, I]."""
        super().__init__()
        self.weight = linear.weight

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return [.., O] of [.., I], in the dtype of `hidden`."""
        return _trained_product(hidden, self.weight)


def _trained_product(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    made: torch.Tensor = _TrainedProduct.apply(hidden.flatten(0, -2), weight)
    return made.unflatten(0, hidden.shape[:-1])


def multiply_together(hidden: torch.Tensor, *layers: nn.Linear | Float8TrainedLinear) -> torch.Tensor:
    """Return the outputs of linear layers of one kind, without biases, side by side, by one product."""
    weight = torch.cat([layer.weight for layer in layers])
    return (_trained_product if isinstance(layers[0], Float8TrainedLinear) else linear)(hidden, weight)


def replace_linears(module: nn.Module, make: Callable[[nn.Linear], nn.Module] = Float8Linear) -> None:
    """Put `make`'s in the place of the linear layers below `module` that fp8 products take (see `Split.of`).

    `module` must own its table of children: modules shared with another model are copied on the way, not changed.
    """
    for name, child in list(module._modules.items()):  # noqa: SLF001 - the table itself is replaced
        if type(child) is nn.Linear and not _why_not(name, child.weight):
            module._modules[name] = make(child)  # noqa: SLF001
        elif child is not None and child._modules:  # noqa: SLF001
            own = copy_shell(child)
            module._modules[name] = own  # noqa: SLF001
            replace_linears(own, make)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Which matrices of a model are multiplied in fp8, and which are not."""

    narrow: int
    """How many are."""
    wide: Mapping[str, str]
    """Those that are not -> why; a number of a layer is written *."""
    layers: int
    """Bytes of the layers among them in fp8; the drafter's are there for a moment only."""
    head: int
    """Bytes of the head in fp8; 0 where it is not."""

    @classmethod
    def of(cls, module: nn.Module, head: torch.Size | None = None) -> "Split":
        """Return what `replace_linears` does with `module` and `narrow_head` with a head of this size."""
        narrow, layers, wide = 0, 0, {}
        linear = {f"{name}.weight" for name, each in module.named_modules() if type(each) is nn.Linear}
        for name, weight in module.named_parameters():
            if weight.dim() < 2:
                continue
            owner = name.rpartition(".")[0]
            why = _why_not(owner.rpartition(".")[2], weight) if name in linear else "not a linear layer"
            if why:
                wide[re.sub(r"(^|\.)\d+(?=\.)", r"\1*", owner if name in linear else name)] = why
            else:
                narrow, layers = narrow + 1, layers + narrow_bytes(weight.shape)
        odd = "" if head is None else _odd(head)
        if odd:
            wide["logits"] = odd
        held = 0 if odd or head is None else narrow_bytes(head)
        return cls(narrow=narrow + bool(held), wide=wide, layers=layers, head=held)

    def told(self, key: str) -> str:
        """Return what stays in bf16, for a person; empty where nothing does; raises ConfigError where all does."""
        listed = "; ".join(f"{name} ({why})" for name, why in self.wide.items())
        if not self.narrow:
            raise ConfigError(f"{key}: nothing of it can be multiplied in fp8: {listed}", f"set {key}=false")
        return f"{key}: in bf16 stay {listed}" if listed else ""


def narrow_bytes(size: torch.Size) -> int:
    """Return what a matrix of this size [O, I] takes in fp8: its values and a scale for each row."""
    rows, columns = size
    return rows * columns + 4 * rows


def _why_not(name: str, weight: torch.Tensor) -> str:
    if name in ROUTERS:
        return "it chooses experts"
    if odd := _odd(weight.shape):
        return odd
    return f"{weight.numel():,} weights are too few to gain" if weight.numel() < FEWEST else ""


def _odd(size: torch.Size) -> str:
    """Return why the fp8 product does not take a matrix of this size [O, I]; empty where it does."""
    odd = [f"{each:,}" for each in size if each % 16]
    return f"{' and '.join(odd)} {'is no multiple' if len(odd) == 1 else 'are no multiples'} of 16" if odd else ""


def narrow_head(head: torch.Tensor) -> Narrow | None:
    """Return a frozen head [V, H] in fp8; None where its sizes are not multiples of 16."""
    if _odd(head.shape):
        return None
    values, scale = quantise(head.detach())
    return values, scale.t().contiguous()


def copy_shell(module: nn.Module) -> nn.Module:
    """Return a module with the same parameters and a table of children of its own."""
    twin = module.__class__.__new__(module.__class__)
    twin.__dict__.update(module.__dict__)
    twin.__dict__["_modules"] = dict(module._modules)  # noqa: SLF001
    return twin


def require_fp8(device: torch.device, key: str) -> None:
    """Raise ConfigError naming the config's key where the device multiplies no fp8."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 9):
        return
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU"
    raise ConfigError(
        f"{key}: {name} does not multiply fp8", f"set {key}=false, or use a GPU of compute capability 8.9 on"
    )
