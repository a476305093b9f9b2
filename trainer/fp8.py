"""Linear layers of the frozen target in fp8: e4m3 weights and inputs, one scale for each row of either.

The product's error is about 3.7 % of its norm with random data (bf16: 0.17 %); whether a drafter minds is for its
acceptance to say, so this is off unless it is asked for.
"""

import torch
from torch import nn

from trainer.errors import ConfigError

E4M3_MAX = 448.0
"""Largest finite e4m3 value."""
FEWEST = 1 << 16
"""Weights a layer must have: below that the product costs less than the quantising."""
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
        made = torch._scaled_mm(  # noqa: SLF001 - torch has no public name for it
            values, self.weight.t(), scale_a=scale, scale_b=self.scale, bias=self.bias, out_dtype=hidden.dtype,
            use_fast_accum=True,
        )  # fmt: skip
        return made.unflatten(0, hidden.shape[:-1])


def replace_linears(module: nn.Module, fewest: int = FEWEST) -> int:
    """Put Float8Linear in the place of the linear layers below `module` that are large enough; return how many.

    `module` must own its table of children: modules shared with another model are copied on the way, not changed.
    """
    count = 0
    for name, child in list(module._modules.items()):  # noqa: SLF001 - the table itself is replaced
        if type(child) is nn.Linear and name not in ROUTERS and fits(child, fewest):
            module._modules[name] = Float8Linear(child)  # noqa: SLF001
            count += 1
        elif child is not None and child._modules:  # noqa: SLF001
            own = copy_shell(child)
            module._modules[name] = own  # noqa: SLF001
            count += replace_linears(own, fewest)
    return count


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


def require_fp8(device: torch.device) -> None:
    """Raise ConfigError where the device multiplies no fp8."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 9):
        return
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU"
    raise ConfigError(
        f"target.fp8: {name} does not multiply fp8", "set target.fp8=false, or use a GPU of compute capability 8.9 on"
    )
