"""The two steps everything is made of: features of a batch, and one drafter forward and backward.

Neither waits for another worker, so either may run inside the compile gate.
"""

import functools
import itertools
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch.nn.functional import embedding

from trainer.compile.private_code import private
from trainer.data.feature_cache import FeatureReader
from trainer.data.loader import Batch
from trainer.device import compiles, free_bytes
from trainer.drafter.attention import AttentionMask, needs_small_tiles, require_dense_fits
from trainer.drafter.mask import block_mask, dense_mask, noise_tokens, positions
from trainer.drafter.model import Drafter, Masks
from trainer.fp8 import Split, narrow_head, require_fp8
from trainer.settings.bounds import require
from trainer.settings.sections import DrafterConfig, LossConfig, RunConfig
from trainer.step.loss import ChunkKernel, LossParts, Targets, block_loss, chunk_loss, targets
from trainer.step.objectives import Objective
from trainer.step.optim import FlatParameters
from trainer.target.model import SharedWeights, Target
from trainer.writing import say

_workers = itertools.count()
"""Compiled code is a worker's own, so a step known to one is new to the next: its number is part of the signature."""


_ROWS, _ROWS_IN_PLACE = 2048, 4096
"""Rows of logits at a time, with a gradient beside them, or in their place."""


class Admission(Protocol):
    """What a step asks before it runs compiled code; CompileGate is one."""

    def step(self, signature: tuple[object, ...], device: str) -> AbstractContextManager[bool]:
        """Return a context that the step runs in."""

    def look(self) -> AbstractContextManager[None]:
        """Return a context in which nothing of this process compiles."""


class OpenDoor:
    """Admission where nothing else compiles in the process."""

    def step(self, signature: tuple[object, ...], device: str) -> AbstractContextManager[bool]:  # noqa: ARG002
        """Let the step in."""
        return nullcontext(enter_result=False)

    def look(self) -> AbstractContextManager[None]:
        """Nothing else compiles here."""
        return nullcontext()


class TargetStep:
    """Features of a batch."""

    reader: FeatureReader | None = None
    """Where the loader finds features of earlier epochs; None without a cache."""

    def __init__(self, target: Target, run: RunConfig, gate: Admission) -> None:
        """Compile the target's trunk where this device compiles."""
        self.target, self.gate, self._worker = target, gate, next(_workers)
        if compiles(run.compile, target.device):
            target.compile(run.backend)

    def run(self, batch: Batch) -> torch.Tensor:
        """Return features [B, S, F*H]; `batch` is on the target's device."""
        signature = ("target", self._worker, tuple(batch.ids.shape))
        with self.gate.step(signature, str(self.target.device)):
            return self.target.features(batch.ids, batch.packed)

    error: BaseException | None = None
    """Why what is made cannot be kept, where that is so: the run has to stop, and to raise this once it has saved."""

    def close(self) -> None:
        """End what the step has begun: nothing."""


def quick_kernel(kernel: ChunkKernel, kind: str, backend: str) -> tuple[ChunkKernel, int]:
    """Return the kernel for compiled steps on a kind of device, and how many rows of logits it is given at a time."""
    if kernel is chunk_loss and kind == "cuda" and backend == "inductor" and (in_place := _in_place()):
        return in_place, _ROWS_IN_PLACE
    (own,) = private([kernel])
    compiled: ChunkKernel = torch.compile(own, fullgraph=True, dynamic=False, backend=backend)
    return compiled, _ROWS


@functools.cache
def _in_place() -> ChunkKernel | None:
    try:
        from trainer.step.loss_kernel import chunk_loss_in_place  # noqa: PLC0415 - triton comes with torch for GPUs alone
    except ImportError as error:
        say(f"note: no triton ({error}): the loss is left to torch.compile")
        return None
    return chunk_loss_in_place


class DrafterStep:
    """One forward and backward of a micro-batch, its gradients added to the flat sums."""

    def __init__(
        self,
        model: Drafter,
        shared: SharedWeights,
        drafter: DrafterConfig,
        mask_token: int,
        run: RunConfig,
        gate: Admission,
        objective: Objective | None = None,
    ) -> None:
        """Move nothing: `model` and `shared` are on the drafter's device already. The default objective is DFlash's."""
        self.model, self.shared, self.gate, self.mask_token = model, shared, gate, mask_token
        self._worker = next(_workers)
        self.device = shared.embedding.device
        self.objective = objective = objective or Objective.of(LossConfig(), drafter)
        kept = None if objective.kept is None else objective.kept.to(self.device)
        self._head = shared.head if kept is None else shared.head[kept]
        index = objective.index()
        self._index = None if index is None else index.to(self.device)
        self.dense_limit = int(run.dense_limit_gb * 1e9)
        self.compiled = compiles(run.compile, self.device)
        self.flex = self.compiled and self.device.type == "cuda"
        self.kernel = objective.kernel()
        model.recompute = drafter.recompute
        model.small_tiles = needs_small_tiles(self.device)
        self.parameters = FlatParameters(model)
        if drafter.fp8:
            require_fp8(self.device, "drafter.fp8")
            require(self.compiled, "drafter.fp8", "only compiled steps multiply in fp8", "use --compile on")
            Split.of(model, self._head.shape).told("drafter.fp8")
        self._narrow = narrow_head(self._head) if drafter.fp8 else None
        rows = _ROWS
        if self.compiled:
            model.compile_layers(run.backend, fp8=drafter.fp8)
            self.kernel, rows = quick_kernel(self.kernel, self.device.type, run.backend)
        self.chunk = run.loss_rows or rows

    def run(self, batch: Batch, features: torch.Tensor) -> LossParts:
        """Return the detached parts of one micro-batch; the gradients are in `parameters`."""
        signature = ("drafter", self._worker, tuple(batch.ids.shape), batch.shape, features.dtype, "backward")
        with self.gate.step(signature, str(self.device)):
            parts = self._forward(batch, features)
            parts.loss_sum.backward()
            self.parameters.collect()
        return LossParts(
            loss_sum=parts.loss_sum.detach(),
            correct=parts.correct,
            counted=parts.counted,
            run_length=parts.run_length,
            blocks=parts.blocks,
        )

    def _forward(self, batch: Batch, features: torch.Tensor) -> LossParts:
        tokens = noise_tokens(batch.ids, batch.anchors, batch.shape, self.mask_token)
        block = embedding(tokens, self.shared.embedding)
        packed = batch.packed
        starts, ends, places = (packed.starts, packed.ends, packed.places) if packed is not None else (None, None, None)
        where = positions(batch.anchors, batch.shape, starts, places)
        own = self.model.shape.features * self.model.shape.hidden
        hidden = self.model(features[..., :own], block, where, self._masks(batch, starts))
        wanted = targets(
            batch.ids, batch.loss_mask, batch.anchors, batch.shape, self.objective.gamma, ends=ends, index=self._index
        )
        teacher = self._teacher(batch, features[..., own:], wanted) if self.objective.teacher else None
        return block_loss(
            hidden, self._head, wanted, chunk=self.chunk, kernel=self.kernel, teacher=teacher, narrow=self._narrow
        )

    def _teacher(self, batch: Batch, last: torch.Tensor, wanted: Targets) -> torch.Tensor:
        """Return the target's last states [B * N * (K-1), H] that predict each block position: those one before it."""
        offset = torch.arange(wanted.labels.shape[-1], device=self.device)
        place = (batch.anchors.clamp(min=0)[:, :, None] + offset).clamp(max=batch.shape.context - 1).flatten(1)
        return last.gather(1, place[..., None].expand(-1, -1, last.shape[-1])).flatten(0, 1)

    @property
    def width(self) -> int:
        """W, channels of the features that it takes."""
        shape = self.model.shape
        return (shape.features + int(self.objective.teacher)) * shape.hidden

    def _masks(self, batch: Batch, starts: torch.Tensor | None) -> Masks:
        shape = self.model.shape
        full = self._mask(batch, 0, starts)
        return Masks(full=full, sliding=self._mask(batch, shape.window, starts) if shape.sliding else None)

    def _mask(self, batch: Batch, window: int, starts: torch.Tensor | None) -> AttentionMask:
        if self.flex:
            return block_mask(batch.anchors, batch.shape, window, starts)
        limit = min(self.dense_limit, free_bytes(self.device))
        require_dense_fits(batch.ids.shape[0], self.model.shape.heads, batch.shape, limit)
        return dense_mask(batch.anchors, batch.shape, window, starts)
