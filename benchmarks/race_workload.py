"""One race trial: several threads call compiled code in a cold process while new shapes keep arriving.

Two workloads. "flex" is how other trainers write it: eager modules that call a compiled flex_attention under a mask
that create_block_mask rebuilds every step (forward only, the CPU has no flex backward). "drafter" is this trainer's
own step, compiled forward and lazily compiled backward over the dense path. The aot_eager backend traces as inductor
does and spares the code generation.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from trainer.compile.private_code import private
from trainer.compile.state import damage, prepare_thread
from trainer.data.loader import BatchMaker, choose_anchors
from trainer.drafter.model import Drafter, DrafterShape
from trainer.runtime.compile_gate import CompileGate
from trainer.runtime.steps import Admission, DrafterStep, OpenDoor
from trainer.settings.sections import DrafterConfig, RunConfig
from trainer.target.model import SharedWeights

BACKEND = "aot_eager"
LENGTHS = (64, 80, 96, 112, 128)
THREADS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one trial came to."""

    workload: str
    guarded: bool
    steps: int
    errors: tuple[str, ...]
    mismatches: int
    damage: tuple[str, ...]
    alone: int
    demoted: int

    @property
    def bad(self) -> bool:
        """Whether anything at all went wrong."""
        return bool(self.errors or self.mismatches or self.damage)


class Layers(nn.Module):
    """Eager modules around compiled attention; the head size differs by thread, as the device would."""

    def __init__(self, size: int, attention: Callable[..., torch.Tensor]) -> None:
        """Make two layers."""
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2 * size, 6 * size) for _ in range(2))
        self.size, self.attention = size, attention

    def forward(self, states: torch.Tensor, mask: Any) -> torch.Tensor:
        """Return the states after both layers."""
        for layer in self.layers:
            query, key, value = layer(states).unflatten(-1, (3, 2, self.size)).permute(2, 0, 3, 1, 4)
            attended = self.attention(query, key.contiguous(), value.contiguous(), mask)
            states = states + attended.transpose(1, 2).flatten(2)
        return states


def flex_worker(index: int, steps: int, gate: Admission) -> Callable[[int], bool]:
    """Return a function that runs one step of thread `index` and says whether it is right."""
    size = 8 * 2**index
    # Behind the gate each thread has code of its own, as the gate asks; without it all share torch's, as people do.
    function = flex_attention if isinstance(gate, OpenDoor) else private([flex_attention])[0]
    compiled = torch.compile(function, backend=BACKEND, dynamic=False)
    generator = torch.Generator().manual_seed(index)
    fast = Layers(size, lambda q, k, v, mask: compiled(q, k, v, block_mask=mask))
    plain = Layers(size, lambda q, k, v, mask: scaled_dot_product_attention(q, k, v, attn_mask=mask))
    plain.load_state_dict(fast.state_dict())

    def step(number: int) -> bool:
        length = lengths(index, number, steps)
        states = torch.randn(1, length, 2 * size, generator=generator)
        reach = torch.randint(1, length, (length,), generator=generator)

        def rule(b: Any, h: Any, q: Any, kv: Any) -> Any:  # noqa: ARG001 - flex_attention's signature
            return (kv <= q) & (kv > q - reach[q])

        with torch.no_grad(), gate.step(("flex", size, length), "cpu"):
            mask = create_block_mask(rule, 1, None, length, length, device="cpu")
            found = fast(states, mask)
        place = torch.arange(length)
        table = (place <= place[:, None]) & (place > (place - reach)[:, None])
        with torch.no_grad():
            return torch.allclose(found, plain(states, table), atol=2e-3)

    return step


def drafter_worker(index: int, steps: int, gate: Admission) -> Callable[[int], bool]:
    """Return a function that runs one drafter step, compiled, and compares its gradients with the eager ones."""
    shape = DrafterShape(
        hidden=16, layers=2, heads=2, key_value_heads=1, head_dim=8 * 2**index, intermediate=24, features=2
    )
    config = DrafterConfig(layers=2, block=4, anchors=4)
    generator = torch.Generator().manual_seed(index)
    table = torch.randn(50, 16, generator=generator) * 0.1
    shared = SharedWeights(embedding=table, head=table)
    made = []
    for compiling, door in (("on", gate), ("off", OpenDoor())):
        model = Drafter(shape)
        model.reset(index)
        run = RunConfig(compile=compiling, backend=BACKEND)  # type: ignore[arg-type]
        made.append(DrafterStep(model, shared, config, 49, run, door))
    maker = BatchMaker(None, None, config, 0, pin=False)  # type: ignore[arg-type]

    def step(number: int) -> bool:
        length = lengths(index, number, steps)
        ids = torch.randint(0, 49, (1, length), generator=generator)
        spoken = torch.ones(1, length, dtype=torch.bool)
        anchors = choose_anchors(spoken, 4, generator)
        batch = maker.finish(number, ids, spoken, anchors, tokens=length, origins=("random",))
        features = torch.randn(1, length, 32, generator=generator)
        gradients = []
        for each in made:
            each.run(batch, features)
            gradients.append(torch.cat([part.clone() for part in each.parameters.gradients()]))
            each.parameters.discard()
        return torch.allclose(*gradients, atol=1e-4)

    return step


WORKERS = {"flex": flex_worker, "drafter": drafter_worker}


def lengths(index: int, number: int, steps: int) -> int:
    """Return the length of a step: all threads start cold on the first, then meet a new one in turn."""
    every = max(1, steps // (THREADS * len(LENGTHS)))
    since = number - index * every
    known = min(len(LENGTHS), 1 + max(0, since // (THREADS * every)))
    just = since >= 0 and since % (THREADS * every) == 0
    return LENGTHS[known - 1 if just else number % known]


def run_trial(workload: str, *, guarded: bool, steps: int) -> Trial:
    """Run one trial in this process, which must not have compiled anything before."""
    gate = CompileGate(patience=300.0)
    door: Admission = gate if guarded else OpenDoor()
    done, errors, wrong = [0] * THREADS, [], [0] * THREADS

    def work(index: int) -> None:
        torch.set_num_threads(1)
        prepare_thread()
        try:
            step = WORKERS[workload](index, steps, door)
            for number in range(steps):
                wrong[index] += not step(number)
                done[index] += 1
        except BaseException as error:  # noqa: BLE001 - every kind of failure is a result
            errors.append(f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160] if str(error) else ''}")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = gate.stats
    return Trial(
        workload=workload, guarded=guarded, steps=sum(done), errors=tuple(errors), mismatches=sum(wrong),
        damage=tuple(damage()), alone=stats.alone, demoted=stats.demoted,
    )  # fmt: skip
