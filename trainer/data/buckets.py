"""Which rows make up which batch: a function of lengths, seed and batch number, and of nothing else.

Every worker computes the same plan, so a batch is named by its number alone; resuming at batch n needs only n,
and one worker, many threads and many processes see the same batches.
"""

import hashlib
import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import torch

from trainer.data.packing import pack
from trainer.errors import ConfigError
from trainer.settings.sections import DataConfig

Drawn = tuple[int, tuple[tuple[int, ...], ...]]
"""A batch of an epoch: its bucket's length, and for each of its rows the members that are in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """One batch before it is read."""

    index: int
    epoch: int
    length: int
    """S, the bucket."""
    size: int
    """B, rows; fewer members than this leave empty rows, so that the shape stays."""
    layout: tuple[tuple[int, ...], ...]
    """The members of each row: one, or several where rows are packed."""

    @property
    def members(self) -> tuple[int, ...]:
        """All members."""
        return tuple(chain.from_iterable(self.layout))


class Plan:
    """The endless sequence of batches over a data set."""

    def __init__(
        self,
        lengths: Sequence[int],
        config: DataConfig,
        seed: int,
        groups: Sequence[int] = (),
        together: int = 1,
        *,
        without: Collection[int] = (),
        named: Callable[[int], str] = "row {}".format,
    ) -> None:
        """Sort rows into buckets; `groups` are the counts of rows that each weight of the config is for.

        Rows `without` are left out. `named` says where a row comes from.

        So many batches in a row as `together` says share a bucket, as far as there are enough of it in an epoch.

        Raises ConfigError when no row is left, or one is overlong and that is an error.
        """
        self.config, self.seed, self.together = config, seed, together
        self.sizes = {length: max(1, config.tokens // length) for length in config.buckets}
        self.dropped = 0
        self.truncated = 0
        self._rows: dict[int, list[int]] = {length: [] for length in config.buckets}
        # Only what packing needs: a number a row.
        self._lengths = lengths if config.pack else ()
        for row, length in enumerate(lengths):
            if row not in without:
                self._place(row, length, named)
        self._ends = list(accumulate(groups)) if config.weights else []
        self._per_epoch = sum(
            -(-self._filled(length, rows) // self.sizes[length]) for length, rows in self._rows.items()
        )
        if not self._per_epoch:
            raise ConfigError("data.path: no row is left after the length rules", "add a longer bucket to data.buckets")
        self._orders: dict[int, list[Drawn]] = {}
        self._lock = threading.Lock()

    def _place(self, row: int, length: int, named: Callable[[int], str]) -> None:
        buckets = self.config.buckets[-1:] if self.config.pack else self.config.buckets
        fitting = next((bucket for bucket in buckets if length <= bucket), None)
        if fitting is None:
            if self.config.overlong == "error":
                raise ConfigError(
                    f"data.buckets: {named(row)} has {length} tokens, the last bucket {self.config.buckets[-1]}",
                    "add a longer bucket, or set data.overlong to truncate or drop",
                )
            if self.config.overlong == "drop":
                self.dropped += 1
                return
            self.truncated += 1
            fitting = self.config.buckets[-1]
        self._rows[fitting].append(row)

    @property
    def overlong(self) -> str:
        """What became of the rows longer than the last bucket, in words; empty when there are none."""
        count, done = (self.dropped, "dropped") if self.dropped else (self.truncated, "truncated")
        if not count:
            return ""
        total = self.dropped + sum(len(rows) for rows in self._rows.values())
        last = self.config.buckets[-1]
        return f"data.overlong: {count} of {total} rows are longer than the last bucket ({last}) and are {done}"

    def placed(self) -> Iterator[tuple[int, int]]:
        """Yield each row that is kept, with the length of its bucket."""
        for length, rows in self._rows.items():
            for row in rows:
                yield row, length

    @property
    def lengths(self) -> tuple[int, ...]:
        """The buckets that have rows: the lengths of all batches."""
        return tuple(length for length, rows in self._rows.items() if rows)

    @property
    def batches_per_epoch(self) -> int:
        """How many batches see every row once."""
        return self._per_epoch

    def batch(self, index: int) -> PlannedBatch:
        """Return batch number `index`, counted over all epochs."""
        epoch, place = divmod(index, self._per_epoch)
        with self._lock:
            order = self._orders.get(epoch)
            if order is None:
                # Threads on both sides of an epoch's end take turns: its order and the one beside it are kept.
                for other in [kept for kept in self._orders if abs(kept - epoch) > 1]:
                    del self._orders[other]
                order = self._orders[epoch] = self._order(epoch)
        length, members = order[place]
        return PlannedBatch(index=index, epoch=epoch, length=length, size=self.sizes[length], layout=members)

    def _order(self, epoch: int) -> list[Drawn]:
        generator = torch.Generator().manual_seed(derive(self.seed, f"epoch {epoch}"))
        rounds: list[list[Drawn]] = []
        left: list[Drawn] = []
        for length, rows in self._rows.items():
            drawn = self._drawn(rows, generator)
            shuffled = [drawn[i] for i in torch.randperm(len(drawn), generator=generator).tolist()]
            filled: list[tuple[int, ...]] = [(row,) for row in shuffled]
            if self.config.pack:
                filled = self._packed(shuffled, length)
                filled = [filled[i] for i in torch.randperm(len(filled), generator=generator).tolist()]
            size = self.sizes[length]
            batches = [(length, tuple(filled[start : start + size])) for start in range(0, len(filled), size)]
            whole = len(batches) - len(batches) % self.together
            rounds += [batches[start : start + self.together] for start in range(0, whole, self.together)]
            left += batches[whole:]
        order = [rounds[i] for i in torch.randperm(len(rounds), generator=generator).tolist()]
        # What the last epoch's final round still lacks comes first, so that whole rounds stay whole.
        lacking = -epoch * self._per_epoch % self.together
        while len(left) < lacking and order:
            left += order.pop()
        return [*left[:lacking], *(batch for each in order for batch in each), *left[lacking:]]

    def _filled(self, length: int, rows: list[int]) -> int:
        """Return how many rows of a batch an epoch fills in a bucket: as many in every epoch."""
        if self.config.pack:
            return len(self._packed(rows, length))
        return sum(count for _, count in self._shares(rows))

    def _packed(self, rows: list[int], room: int) -> list[tuple[int, ...]]:
        found = pack([min(self._lengths[row], room) for row in rows], room)
        return [tuple(rows[index] for index in each) for each in found]

    def _shares(self, rows: list[int]) -> list[tuple[list[int], int]]:
        """Return the rows of each source in a bucket with how many of them an epoch sees."""
        if not self._ends:
            return [(rows, len(rows))] if rows else []
        sources: list[list[int]] = [[] for _ in self.config.weights]
        for row in rows:
            sources[bisect_right(self._ends, row)].append(row)
        return [
            (own, max(1, round(weight * len(own))))
            for own, weight in zip(sources, self.config.weights, strict=True)
            if own
        ]

    def _drawn(self, rows: list[int], generator: torch.Generator) -> list[int]:
        """Return the rows of a bucket that this epoch sees, as often as their source's weight says."""
        found: list[int] = []
        for own, count in self._shares(rows):
            times, rest = divmod(count, len(own))
            found += own * times
            if rest:
                found += [own[i] for i in torch.randperm(len(own), generator=generator)[:rest].tolist()]
        return found


def derive(seed: int, purpose: str) -> int:
    """Return a seed for one purpose, so that no two uses of randomness share a stream."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
