"""Whether the rows give a run something to do: tokens to learn from, and prompts for evaluations."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from trainer.data.buckets import Plan
from trainer.data.rows import Rows
from trainer.errors import DataError

SPARED = 20
"""Of so many rows one is held out at most, where conversations are a row each."""
_LARGEST = 4
"""A source gives up no more than a row in so many, however many rows its conversations have."""


def held_out(rows: Rows, asked: int) -> tuple[int, ...]:
    """Return the rows that are kept from training as prompts of evaluations: about `asked`, one in SPARED at most.

    They are drawn from all sources in proportion, the same for every seed of a run, so that runs and stages are
    evaluated on the same prompts. A conversation is held out whole, and so are all that ask the same first: what is
    asked once goes first, as it costs the training least.
    """
    total = len(rows.lengths)
    share = min(asked, total // SPARED)
    if not share:
        return ()
    of_question: dict[int, list[int]] = {}
    conversations: Counter[int] = Counter()
    sources: list[list[int]] = [[] for _ in rows.groups]
    source = (place for place, size in enumerate(rows.groups) for _ in range(size))
    before = None
    for row, (place, (asks, talk)) in enumerate(zip(source, rows.talks, strict=True)):
        if asks not in of_question:
            sources[place].append(asks)
        of_question.setdefault(asks, []).append(row)
        conversations[asks] += (asks, talk) != before
        before = (asks, talk)
    found: list[int] = []
    for place, count in enumerate(_shares(share, rows.groups)):
        generator = random.Random(place)  # noqa: S311 - no secret
        taken, room = 0, rows.groups[place] // _LARGEST
        for _, _, asks in sorted((conversations[asks], generator.random(), asks) for asks in sources[place]):
            if taken >= count:
                break
            own = of_question[asks]
            if len(own) <= room:
                found += own
                room -= len(own)
                taken += len(own) // conversations[asks]
    return tuple(sorted(found))


def _shares(count: int, sizes: Sequence[int]) -> list[int]:
    """Return `count` divided in proportion to `sizes`, the largest remainders rounded up."""
    total = sum(sizes)
    shares = [count * size // total for size in sizes]
    left = sorted(range(len(sizes)), key=lambda place: -(count * sizes[place] % total))
    for place in left[: count - sum(shares)]:
        shares[place] += 1
    return shares


def require_learnable(rows: Rows, plan: Plan) -> None:
    """Raise DataError when no planned row has an anchor and a token to predict: two of the assistant's in a row.

    The search ends at the first such row.
    """
    count = 0
    for row, length in plan.placed():
        if any(one and other for one, other in pairwise(rows[row].wanted[:length])):
            return
        count += 1
    raise DataError(
        f"data.buckets: none of {count} rows, cut to {plan.config.buckets[-1]} tokens, has two of the assistant's in"
        " a row to learn from",
        "add a longer bucket to data.buckets, or give rows whose loss_mask marks the assistant's tokens",
    )


def prompts(rows: Rows, chosen: Iterable[int]) -> list[list[int]]:
    """Return the chosen rows up to where the assistant first speaks, each prompt once.

    A row without such a place, or with it at 0, is left out.
    """
    found: dict[tuple[int, ...], None] = {}
    for index in chosen:
        row = rows[index]
        start = next((place for place, flag in enumerate(row.wanted) if flag), 0)
        if start:
            found[tuple(row.ids[:start])] = None
    return [list(prompt) for prompt in found]
