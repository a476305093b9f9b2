"""AdamW over flat fp32 masters, a cosine schedule, and clipping without a host sync.

All matrices live in one flat buffer and all vectors in another: gradients are reduced, normed, scaled and
applied as whole buffers, and the model's bf16 parameters are views into a bf16 copy of the masters.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from trainer.settings.sections import OptimConfig
from trainer.writing import say


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """One flat buffer: where each parameter sits, and the buffers that belong together."""

    names: tuple[str, ...]
    parameters: tuple[nn.Parameter, ...]
    master: torch.Tensor
    gradient: torch.Tensor
    working: torch.Tensor
    """The buffer the parameters are views of: the master itself when the model trains in fp32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moments:
    """AdamW's moments of a group."""

    mean: torch.Tensor
    square: torch.Tensor

    @classmethod
    def of(cls, master: torch.Tensor) -> "_Moments":
        """Start at zero."""
        return cls(mean=torch.zeros_like(master), square=torch.zeros_like(master))


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The numbers of one AdamW step."""

    shrink: float
    """What the decay leaves of a weight."""
    size: float
    """The rate over the first moment's bias correction."""
    root: float
    """The square root of the second moment's bias correction."""
    betas: tuple[float, float]
    epsilon: float


class FlatParameters:
    """The model's parameters as flat buffers, with fp32 masters and fp32 gradient sums."""

    def __init__(self, model: nn.Module) -> None:
        """Move the parameters of `model` into flat buffers on their device and in their dtype."""
        named = sorted(model.named_parameters())
        self.groups = [
            _flatten([item for item in named if (item[1].dim() > 1) == matrices]) for matrices in (True, False)
        ]
        self._fresh = True

    def collect(self) -> None:
        """Add the parameters' .grad to the fp32 sums and drop them; the first call of a step overwrites."""
        for group in self.groups:
            sums, given = [], []
            for parameter, part in zip(group.parameters, _views(group.gradient, group.parameters), strict=True):
                if parameter.grad is not None:
                    sums.append(part)
                    given.append(parameter.grad)
                elif self._fresh:
                    part.zero_()
                parameter.grad = None
            if given and self._fresh:
                torch._foreach_copy_(sums, given)
            elif given:
                torch._foreach_add_(sums, given)
        self._fresh = False

    def gradients(self) -> list[torch.Tensor]:
        """Return the flat fp32 gradient sums, for a reduction across drafters in place."""
        return [group.gradient for group in self.groups]

    def finish(self) -> None:
        """Copy the masters into the working parameters and start the next step's sums afresh."""
        with torch.no_grad():
            for group in self.groups:
                if group.working is not group.master:
                    group.working.copy_(group.master)
        self._fresh = True

    def discard(self) -> None:
        """Forget the sums collected so far."""
        self._fresh = True

    def named(self, buffers: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return views of flat `buffers` (one a group) under the parameters' names."""
        return {
            name: part
            for group, buffer in zip(self.groups, buffers, strict=True)
            for name, part in zip(group.names, _views(buffer, group.parameters), strict=True)
        }

    def masters(self) -> dict[str, torch.Tensor]:
        """Return the fp32 masters by parameter name."""
        return self.named([group.master for group in self.groups])

    def load(self, values: dict[str, torch.Tensor]) -> None:
        """Set masters and parameters from tensors by name."""
        with torch.no_grad():
            for name, master in self.masters().items():
                master.copy_(values[name])
        self.finish()


def _flatten(named: list[tuple[str, nn.Parameter]]) -> _Group:
    parameters = tuple(parameter for _, parameter in named)
    device, dtype = parameters[0].device, parameters[0].dtype
    size = sum(parameter.numel() for parameter in parameters)
    # A model in fp64 (a test's reference) keeps fp64 masters: never fewer bits than the parameters have.
    wide = torch.promote_types(dtype, torch.float32)
    master = torch.empty(size, dtype=wide, device=device)
    for parameter, part in zip(parameters, _views(master, parameters), strict=True):
        part.copy_(parameter.detach())
    working = master if dtype == wide else master.to(dtype)
    for parameter, part in zip(parameters, _views(working, parameters), strict=True):
        parameter.data = part
    return _Group(
        names=tuple(name for name, _ in named),
        parameters=parameters,
        master=master,
        gradient=torch.zeros_like(master),
        working=working,
    )


def _views(buffer: torch.Tensor, parameters: tuple[nn.Parameter, ...]) -> Iterator[torch.Tensor]:
    start = 0
    for parameter in parameters:
        yield buffer[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()


def learning_rate(config: OptimConfig, step: int, steps: int) -> float:
    """Return the rate of 0-based `step`: linear warm-up over a share of the steps, then a cosine to `final`."""
    warm = max(1, round(config.warmup * steps))
    if step < warm:
        return config.learning_rate * (step + 1) / warm
    progress = min(1.0, (step - warm) / max(1, steps - warm))
    low = config.learning_rate * config.final
    return low + (config.learning_rate - low) * 0.5 * (1.0 + math.cos(math.pi * progress))


class Optimizer:
    """AdamW on the masters: decay on matrices only, one clip over everything."""

    def __init__(self, parameters: FlatParameters, config: OptimConfig, steps: int) -> None:
        """Allocate the moments, all zero."""
        self.parameters, self.config, self.steps = parameters, config, steps
        self.taken = 0
        self._moments = [_Moments.of(group.master) for group in parameters.groups]
        self._decays = (config.weight_decay, 0.0)
        self._apply = update_on(parameters.groups[0].master.device.type)

    def step(self, index: int, weight: float) -> torch.Tensor:
        """Apply the gradient sums divided by `weight`, clipped; return the norm before clipping, on the device."""
        gradients = self.parameters.gradients()
        norms = torch.stack([torch.linalg.vector_norm(part) for part in gradients])
        norm = torch.linalg.vector_norm(norms) / weight
        divisor = torch.clamp((norm + 1e-6) / self.config.clip, min=1.0) * weight
        self.taken += 1
        rate = learning_rate(self.config, index, self.steps)
        first, second = self.config.betas
        for group, moments, decay in zip(self.parameters.groups, self._moments, self._decays, strict=True):
            self._apply(
                group.master, group.working, group.gradient, moments.mean, moments.square, divisor,
                Update(
                    shrink=1.0 - rate * decay, size=rate / (1.0 - first**self.taken),
                    root=math.sqrt(1.0 - second**self.taken), betas=(first, second), epsilon=self.config.epsilon,
                ),
            )  # fmt: skip
        self.parameters.discard()
        return norm

    def state(self) -> tuple[dict[str, torch.Tensor], int]:
        """Return the moments by name (exp_avg.NAME, exp_avg_sq.NAME) and the steps taken."""
        return {
            f"{moment}.{name}": part
            for moment, buffers in self._buffers().items()
            for name, part in self.parameters.named(buffers).items()
        }, self.taken

    def load(self, held: dict[str, torch.Tensor], taken: int) -> None:
        """Set the moments from `state`'s form."""
        for moment, buffers in self._buffers().items():
            for name, part in self.parameters.named(buffers).items():
                part.copy_(held[f"{moment}.{name}"])
        self.taken = taken

    def _buffers(self) -> dict[str, list[torch.Tensor]]:
        return {
            "exp_avg": [moments.mean for moments in self._moments],
            "exp_avg_sq": [moments.square for moments in self._moments],
        }


@functools.cache
def update_on(kind: str) -> Callable[..., None]:
    """Return what makes an update on a kind of device: on CUDA the kernel, or where triton is missing `_apply`."""
    if kind == "cuda":
        try:
            from trainer.step.optim_kernel import apply  # noqa: PLC0415 - triton comes with torch for GPUs alone
        except ImportError as error:
            say(f"note: no triton ({error}): the optimizer takes torch's operations one by one, and more time")
        else:
            return apply
    return _apply


def _apply(
    master: torch.Tensor,
    working: torch.Tensor,
    gradient: torch.Tensor,
    mean: torch.Tensor,
    square: torch.Tensor,
    divisor: torch.Tensor,
    update: Update,
) -> None:
    """Make one update of a group in place, operation by operation."""
    first, second = update.betas
    with torch.no_grad():
        gradient.div_(divisor)
        mean.lerp_(gradient, 1.0 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1.0 - second)
        spread = square.sqrt().div_(update.root).add_(update.epsilon)
        master.mul_(update.shrink).addcdiv_(mean, spread, value=-update.size)
        if working is not master:
            working.copy_(master)
