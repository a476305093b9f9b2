"""Whether the rows give a run something to do: tokens to learn from, and prompts for the closing evaluation."""

from collections.abc import Iterable
from itertools import pairwise

from trainer.data.buckets import Plan
from trainer.data.rows import Rows
from trainer.errors import DataError


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
    """Return the chosen rows up to where the assistant first speaks; one without such a place, or at 0, is left out."""
    found = []
    for index in chosen:
        row = rows[index]
        start = next((place for place, flag in enumerate(row.wanted) if flag), 0)
        if start:
            found.append(list(row.ids[:start]))
    return found
