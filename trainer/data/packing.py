"""Several conversations in one row: which go together, and what the model must know of it."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import torch


def pack(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Return the indices of `lengths` in rows of at most `room`, by best fit, longest first.

    Which lengths share a row depends on the lengths alone: another order of the same lengths gives as many rows.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    rows: list[list[int]] = []
    # Rows by what is free in them, and the sizes of free room there are, ascending.
    open_rows: dict[int, list[int]] = {}
    free: list[int] = []
    for index in order:
        length = lengths[index]
        at = bisect_left(free, length)
        if at == len(free):
            row, left = len(rows), room
            rows.append([])
        else:
            left = free[at]
            row = open_rows[left].pop()
            if not open_rows[left]:
                free.pop(at)
        rows[row].append(index)
        left -= length
        if not open_rows.setdefault(left, []):
            insort(free, left)
        open_rows[left].append(row)
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The documents of the rows of a batch. Padding at the end of a row is a document of its own."""

    documents: torch.Tensor
    """int64 [B, S]: the document of each position, counted within the row from 0."""
    places: torch.Tensor
    """int64 [B, S]: positions within their documents."""
    starts: torch.Tensor
    """int64 [B, N]: where the document of each anchor begins; 0 for absent anchors."""
    ends: torch.Tensor
    """int64 [B, N]: where it ends."""

    def to(self, device: torch.device) -> "Packed":
        """Return it on `device`; the copy from pinned memory does not wait."""
        moved = {
            name: getattr(self, name).to(device, non_blocking=True)
            for name in ("documents", "places", "starts", "ends")
        }
        return Packed(**moved)

    def pinned(self) -> "Packed":
        """Return it in pinned memory."""
        return Packed(
            documents=self.documents.pin_memory(), places=self.places.pin_memory(), starts=self.starts.pin_memory(),
            ends=self.ends.pin_memory(),
        )  # fmt: skip


def layout(lengths: Sequence[Sequence[int]], room: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (documents, places) [B, S] of rows of documents with these lengths, padded to `room` positions."""
    documents = torch.zeros(len(lengths), room, dtype=torch.int64)
    places = torch.zeros(len(lengths), room, dtype=torch.int64)
    for line, row in enumerate(lengths):
        sizes = torch.tensor([*row, room - sum(row)])
        documents[line] = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        begins = sizes.cumsum(0) - sizes
        places[line] = torch.arange(room) - begins[documents[line]]
    return documents, places


def packed(documents: torch.Tensor, places: torch.Tensor, anchors: torch.Tensor) -> Packed:
    """Return what a batch with these anchors [B, N] says of its documents."""
    at = anchors.clamp(min=0)
    starts = at - places.gather(1, at)
    own = documents.gather(1, at)
    # The first position of a later document, or the row's end.
    ends = torch.searchsorted(documents.contiguous(), own.contiguous(), right=True)
    absent = anchors < 0
    return Packed(
        documents=documents, places=places, starts=starts.masked_fill(absent, 0), ends=ends.masked_fill(absent, 0)
    )


def causal_within(documents: torch.Tensor) -> torch.Tensor:
    """Return which positions see which in the target: earlier ones of their own document, bool [B, 1, S, S]."""
    place = torch.arange(documents.shape[1], device=documents.device)
    return ((documents[:, :, None] == documents[:, None, :]) & (place[:, None] >= place))[:, None]
