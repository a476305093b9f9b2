"""Planned batches to tensors, prepared ahead of the step by one thread.

The thread runs plain tensor operations only: nothing that is compiled or traced, so it may run beside a compile.
"""

import dataclasses
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Self

import torch

from trainer.data.buckets import Plan, PlannedBatch, derive
from trainer.data.feature_cache import FeatureReader
from trainer.data.packing import Packed, layout, packed
from trainer.data.rows import Rows
from trainer.drafter.mask import BlockShape, visible_pairs
from trainer.settings.sections import DrafterConfig, LossConfig
from trainer.step.flops import BatchWork
from trainer.step.loss import targets
from trainer.step.objectives import Objective


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Where a row of the data set stands in a batch."""

    row: int
    """Its number in the data set."""
    line: int
    at: int
    """Its first position in that line of the batch."""
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch: B rows of S positions with N anchors each."""

    index: int
    shape: BlockShape
    ids: torch.Tensor
    """int64 [B, S], padded on the right."""
    loss_mask: torch.Tensor
    """bool [B, S], the assistant's tokens."""
    anchors: torch.Tensor
    """int64 [B, N], ascending, -1 for absent."""
    weight: float
    """Sum of the loss weights: known on the host, so that no step waits for the device to tell it."""
    tokens: int
    """Real tokens, padding left out."""
    work: BatchWork
    """What the FLOP count needs."""
    origins: tuple[str, ...]
    packed: Packed | None = None
    """Where a row holds several documents."""
    documents: tuple[Document, ...] = ()
    """The rows of the data set in it; none in a warm-up batch."""
    features: torch.Tensor | None = None
    """[B, S, W] where they were read from the feature cache, until the target's step hands them on."""
    cached: bool = False
    """Whether the target has nothing to compute for it."""

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on `device`; the copy from pinned memory does not wait."""
        moved = {name: getattr(self, name).to(device, non_blocking=True) for name in ("ids", "loss_mask", "anchors")}
        if self.features is not None:
            moved["features"] = self.features.to(device, non_blocking=True)
        return dataclasses.replace(self, **moved, packed=None if self.packed is None else self.packed.to(device))

    def bare(self) -> "Batch":
        """Return the batch without the features, which are large and have been handed on."""
        return self if self.features is None else dataclasses.replace(self, features=None)

    def describe(self) -> str:
        """Name the batch for a message."""
        return f"batch {self.index} ({self.ids.shape[0]} x {self.shape.context} positions: {', '.join(self.origins)})"


def choose_anchors(
    loss_mask: torch.Tensor, count: int, generator: torch.Generator, documents: torch.Tensor | None = None
) -> torch.Tensor:
    """Return `count` anchors a row, int64 [B, count] ascending, -1 at the end where a row has too few.

    A position can be an anchor when it and the next one belong to the assistant and, in a packed row, to the same of
    its `documents` [B, S]: the drafter then starts from a token the target wrote and has at least one to predict.
    """
    able = torch.zeros_like(loss_mask)
    able[:, :-1] = loss_mask[:, :-1] & loss_mask[:, 1:]
    if documents is not None:
        able[:, :-1] &= documents[:, :-1] == documents[:, 1:]
    draw = torch.rand(able.shape, generator=generator)
    draw = torch.where(able, draw, -1.0)
    kept = min(count, able.shape[1])
    best = draw.topk(kept, dim=1)
    place = torch.where(best.values >= 0, best.indices, loss_mask.shape[1]).sort(dim=1).values
    place = torch.where(place == loss_mask.shape[1], -1, place)
    return torch.nn.functional.pad(place, (0, count - kept), value=-1)


class BatchMaker:
    """Reads the rows of a planned batch and chooses its anchors."""

    def __init__(
        self,
        rows: Rows,
        plan: Plan,
        drafter: DrafterConfig,
        pad: int,
        *,
        pin: bool,
        cache: FeatureReader | None = None,
        objective: Objective | None = None,
    ) -> None:
        """Bind the data; `pad` is the token for padding, `pin` is for CUDA, `cache` has features of some rows.

        `objective` says what is learnt (default: DFlash's).
        """
        self.rows, self.plan, self.drafter, self.pad, self.pin = rows, plan, drafter, pad, pin
        self.cache = cache
        self.objective = objective or Objective.of(LossConfig(), drafter)
        self._index = self.objective.index()

    def make(self, planned: PlannedBatch) -> Batch:
        """Return the batch; the same number gives the same batch in every worker."""
        ids = torch.full((planned.size, planned.length), self.pad, dtype=torch.int64)
        loss_mask = torch.zeros(planned.size, planned.length, dtype=torch.bool)
        origins = []
        documents = []
        lengths: list[list[int]] = [[] for _ in range(planned.size)]
        for line, members in enumerate(planned.layout):
            at = 0
            for member in members:
                row = self.rows[member]
                length = min(len(row.ids), planned.length)
                ids[line, at : at + length] = torch.tensor(row.ids[:length], dtype=torch.int64)
                loss_mask[line, at : at + length] = torch.tensor(row.wanted[:length], dtype=torch.bool)
                origins.append(row.origin)
                lengths[line].append(length)
                documents.append(Document(row=member, line=line, at=at, length=length))
                at += length
        generator = torch.Generator().manual_seed(derive(self.plan.seed, f"anchors {planned.index}"))
        made = self._finish(planned.index, ids, loss_mask, generator, lengths=lengths, origins=tuple(origins))
        made = dataclasses.replace(made, documents=tuple(documents))
        features = self._cached(made)
        return made if features is None else dataclasses.replace(made, features=features, cached=True)

    def _cached(self, batch: Batch) -> torch.Tensor | None:
        """Return the batch's features where all of them are in the cache; those of padding are 0."""
        cache = self.cache
        if cache is None or not cache.holds([(each.row, each.length) for each in batch.documents]):
            return None
        found = torch.empty(*batch.ids.shape, cache.spec.width, dtype=cache.spec.dtype, pin_memory=self.pin)
        ends = [0] * len(found)
        for each in batch.documents:
            if not cache.read(each.row, found[each.line, each.at : each.at + each.length]):
                return None
            ends[each.line] = each.at + each.length
        for line, end in enumerate(ends):
            found[line, end:] = 0
        return found

    def _finish(
        self,
        index: int,
        ids: torch.Tensor,
        loss_mask: torch.Tensor,
        generator: torch.Generator,
        *,
        lengths: list[list[int]],
        origins: tuple[str, ...],
    ) -> Batch:
        """Return the batch of these tensors with its anchors and host-side sums; `lengths` of each row's documents."""
        documents, places = layout(lengths, ids.shape[1]) if self.plan.config.pack else (None, None)
        anchors = choose_anchors(loss_mask, self.drafter.anchors, generator, documents)
        held = None if documents is None or places is None else packed(documents, places, anchors)
        starts, ends = (None, None) if held is None else (held.starts, held.ends)
        shape = BlockShape(context=ids.shape[1], blocks=anchors.shape[1], width=self.drafter.block)
        wanted = targets(ids, loss_mask, anchors, shape, self.objective.gamma, ends=ends, index=self._index)
        weight = float(wanted.weights.sum())
        window = self.drafter.sliding_window if self.drafter.sliding_layers else 0
        work = BatchWork(
            lengths=tuple(chain.from_iterable(lengths)), blocks=int((anchors >= 0).sum()), width=shape.width,
            visible=visible_pairs(anchors, shape, starts=starts),
            sliding=visible_pairs(anchors, shape, window, starts) if window else 0,
        )  # fmt: skip
        if self.pin:
            ids, loss_mask, anchors = ids.pin_memory(), loss_mask.pin_memory(), anchors.pin_memory()
            held = None if held is None else held.pinned()
        return Batch(
            index=index,
            shape=shape,
            ids=ids,
            loss_mask=loss_mask,
            anchors=anchors,
            weight=weight,
            tokens=sum(work.lengths),
            work=work,
            origins=origins,
            packed=held,
        )

    def blank(self, length: int) -> Batch:
        """Return a batch of this bucket's shape with every anchor in place and random tokens, for warming up."""
        size = self.plan.sizes[length]
        generator = torch.Generator().manual_seed(length)
        ids = torch.full((size, length), self.pad, dtype=torch.int64)
        loss_mask = torch.ones(size, length, dtype=torch.bool)
        return self._finish(-1, ids, loss_mask, generator, lengths=[[length]] * size, origins=("warm-up",))


class Loader:
    """Batches of the given numbers, made ahead of their use."""

    def __init__(self, maker: BatchMaker, indices: Iterator[int], ahead: int) -> None:
        """Start the thread."""
        self._queue: queue.Queue[Batch | BaseException | None] = queue.Queue(maxsize=ahead)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(maker, indices), name="loader", daemon=True)
        self._thread.start()

    def _work(self, maker: BatchMaker, indices: Iterator[int]) -> None:
        try:
            for index in indices:
                if not self._put(maker.make(maker.plan.batch(index))):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, who raises it
            self._put(error)

    def _put(self, item: Batch | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def __iter__(self) -> "Loader":
        """Return itself."""
        return self

    def __next__(self) -> Batch:
        """Return the next batch; an error of the thread is raised here."""
        item = self._queue.get()
        if item is None:
            raise StopIteration
        if isinstance(item, BaseException):
            raise item
        return item

    def __enter__(self) -> Self:
        """Return itself; leaving stops the thread, which must not outlive an error of the main one."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop the thread."""
        self.close()

    def close(self) -> None:
        """Stop the thread; batches made ahead are dropped."""
        self._stop.set()
        self._thread.join()
