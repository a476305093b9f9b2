"""The states: each fault alone, the recipes, and combinations of two faults drawn by a seed."""

import os
import random
from collections.abc import Iterator

from tests.closure.faults import FAULTS
from tests.closure.recipes import RECIPES
from tests.closure.scene import Scene

SEPARATOR = " + "
DRAWN_BY = int(os.environ.get("ENVDOCTOR_CLOSURE_SEED", "20261130"))
"""The seed of what tests draw; the summary of a run prints it."""


def singles() -> list[str]:
    """Return the state of each fault alone, and each recipe."""
    return [*FAULTS, *RECIPES]


def pairs(count: int, seed: int) -> Iterator[str]:
    """Yield that many different combinations of two faults."""
    draw, told, names = random.Random(seed), set(), sorted(FAULTS)  # noqa: S311 - a reproducible draw
    while len(told) < min(count, len(names) * (len(names) - 1) // 4):
        one, two = draw.sample(names, 2)
        if one.partition(":")[2] != two.partition(":")[2] and (one, two) not in told:
            told.add((one, two))
            yield f"{one}{SEPARATOR}{two}"


class ImpossibleError(Exception):
    """The two faults exclude each other: what the one changes the other has taken away."""


def bring_about(scene: Scene, state: str) -> frozenset[str]:
    """Make the state in a fresh scene; return the words that its findings may name (none: any).

    Raises ImpossibleError where the faults can be made in neither order.
    """
    if state in RECIPES:
        scene.renew()
        RECIPES[state](scene)
        return frozenset()
    names = list(filter(None, state.split(SEPARATOR)))
    for order in (names, names[::-1]):
        scene.renew()
        try:
            for name in order:
                FAULTS[name].act(scene)
        except (OSError, StopIteration, AssertionError) as error:
            reason = error
        else:
            return frozenset().union(*(FAULTS[name].about for name in names))
    raise ImpossibleError(state) from reason
