"""The target's step with a feature cache beside it: what it makes is written by a thread, what is there is handed on.

The thread copies, hashes and writes: nothing that is compiled or traced. A disk that is slower than the target makes
the target wait in the first epoch. A disk that takes no more stops the run as a signal does: it saves, then ends with
the error.
"""

import functools
import queue
import threading
from collections.abc import Callable, Sequence

import torch

from trainer.assemble import Parts
from trainer.data.feature_cache import CacheSpec, FeatureReader, FeatureWriter
from trainer.data.loader import Batch, Document
from trainer.runtime.steps import Admission, DrafterStep, TargetStep
from trainer.settings.sections import RunConfig
from trainer.target.model import SharedWeights, Target

_WAITING = 3
"""Batches of features that may wait for the disk."""
_Job = tuple[Sequence[Document], torch.Tensor, torch.cuda.Event | None]


def target_step_of(parts: Parts, target: Target, gate: Admission) -> TargetStep:
    """Return the target's step, with the cache that the run asks for."""
    spec = parts.cache_spec(target.device)
    if spec is None:
        return TargetStep(target, parts.config.run, gate)
    return CachedTargetStep(target, parts.config.run, gate, spec, parts.plan.batches_per_epoch)


def drafter_step_of(parts: Parts, device: torch.device, shared: SharedWeights, gate: Admission) -> DrafterStep:
    """Return the drafter's step, as this run starts it."""
    config = parts.config
    return DrafterStep(
        parts.drafter(device), shared, config.drafter, parts.mask_token, config.run, gate, parts.objective
    )


class CachedTargetStep(TargetStep):
    """Features of a batch: from the cache where the loader found them, else made and kept."""

    def __init__(self, target: Target, run: RunConfig, gate: Admission, spec: CacheSpec, per_epoch: int) -> None:
        """Start the writing thread; `per_epoch` batches are an epoch."""
        super().__init__(target, run, gate)
        self._found = FeatureReader(spec)
        self.reader = self._found
        self._keeper = _Keeper(spec)
        self._per_epoch, self._epoch = per_epoch, 0
        self._taken: set[int] = set()
        self._stream = torch.cuda.Stream(target.device) if target.device.type == "cuda" else None

    def run(self, batch: Batch) -> torch.Tensor:
        """Return features [B, S, W]; `batch` is on the target's device."""
        epoch = max(batch.index, 0) // self._per_epoch
        if epoch != self._epoch:
            # What was made in the last epoch counts from now on.
            self._epoch = epoch
            self._keeper.put("flush")
        if batch.features is not None:
            return batch.features
        if epoch:
            # Another worker may have made these rows in the first epoch: none is kept twice where that is known.
            self._found.look()
        features = super().run(batch)
        wanted = [each for each in batch.documents if self._new(each.row)]
        if wanted and self.error is None:
            self._taken.update(each.row for each in wanted)
            self._keeper.put((wanted, *self._on_host(features)))
        return features

    def _new(self, row: int) -> bool:
        return row not in self._taken and row not in self._found.entries

    def _on_host(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.cuda.Event | None]:
        if self._stream is None:
            return features, None
        self._stream.wait_stream(torch.cuda.current_stream(features.device))
        with torch.cuda.stream(self._stream):
            held = torch.empty(features.shape, dtype=features.dtype, pin_memory=True)
            held.copy_(features, non_blocking=True)
            features.record_stream(self._stream)
            done = torch.cuda.Event()
            done.record(self._stream)
        return held, done

    @property
    def error(self) -> BaseException | None:  # type: ignore[override]
        """Why what is made can no longer be kept."""
        return self._keeper.error

    def close(self) -> None:
        """Write what is still to be written; `error` says whether that was possible."""
        self._keeper.close()


class _Keeper:
    """The thread that writes."""

    def __init__(self, spec: CacheSpec) -> None:
        self._writer = FeatureWriter(spec)
        self._queue: queue.Queue[_Job | str] = queue.Queue(_WAITING)
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._write, name="feature-cache", daemon=True)
        self._thread.start()

    def put(self, job: _Job | str) -> None:
        self._queue.put(job)

    def close(self) -> None:
        self._queue.put("close")
        self._thread.join()

    def _write(self) -> None:
        while True:
            job = self._queue.get()
            if job == "close" and self.error is None:
                self._guarded(self._writer.flush)
            if job == "close":
                return
            if self.error is not None:
                # Take what comes, so that nobody waits for room.
                continue
            if isinstance(job, str):
                self._guarded(self._writer.flush)
            else:
                self._guarded(functools.partial(self._keep, *job))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the runtime raises it
            self.error = error

    def _keep(self, rows: Sequence[Document], features: torch.Tensor, done: torch.cuda.Event | None) -> None:
        if done is not None:
            done.synchronize()
        for each in rows:
            self._writer.add(each.row, features[each.line, each.at : each.at + each.length])
