"""Linear layers in fp8: e4m3 weights and inputs, one scale for each row of either.

Of the frozen target the weights are quantised once; of the drafter in each step, from its bf16 parameters: its outputs
and the gradients of its inputs are fp8 products, those of its weights bf16 ones. A product's error is about 3.7 % of
its norm with random data (bf16: 0.17 %); whether a drafter minds is for its acceptance to say, so this is off unless it
is asked for.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import nn
from torch.autograd.function import FunctionCtx

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
        made: torch.Tensor = _TrainedProduct.apply(hidden.flatten(0, -2), self.weight)
        return made.unflatten(0, hidden.shape[:-1])


def replace_linears(
    module: nn.Module, fewest: int = FEWEST, make: Callable[[nn.Linear], nn.Module] = Float8Linear
) -> int:
    """Put `make`'s in the place of the linear layers below `module` that are large enough; return how many.

    `module` must own its table of children: modules shared with another model are copied on the way, not changed.
    """
    count = 0
    for name, child in list(module._modules.items()):  # noqa: SLF001 - the table itself is replaced
        if type(child) is nn.Linear and name not in ROUTERS and fits(child, fewest):
            module._modules[name] = make(child)  # noqa: SLF001
            count += 1
        elif child is not None and child._modules:  # noqa: SLF001
            own = copy_shell(child)
            module._modules[name] = own  # noqa: SLF001
            count += replace_linears(own, fewest, make)
    return count


def narrow_head(head: torch.Tensor) -> Narrow | None:
    """Return a frozen head [V, H] in fp8; None where its sizes are not multiples of 16."""
    if any(size % 16 for size in head.shape):
        return None
    values, scale = quantise(head.detach())
    return values, scale.t().contiguous()


def fits(linear: nn.Linear, fewest: int = FEWEST) -> bool:
    """Return whether the fp8 product takes this layer: its sizes are multiples of 16, and it is worth it."""
    rows, columns = linear.weight.shape
    return rows % 16 == 0 and columns % 16 == 0 and linear.weight.numel() >= fewest


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
