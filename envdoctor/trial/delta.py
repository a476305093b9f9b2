"""Which of many changes break something: delta debugging over sets of numbers, pure.

A test says of a set of changes whether what they make is good, bad, or cannot be judged. What is searched is found by
halving while one change explains it, each further change that takes part by one more search, and the result is made
1-minimal by ddmin (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002). No assumption
about the test makes an answer wrong: at worst it costs more tests.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from envdoctor.model.frozen import frozen

Outcome = Literal["good", "bad", "skip"]
Test = Callable[[frozenset[int]], Outcome]


@frozen
class Forces:
    """What each change brings along: a new release may require a new release of something else."""

    count: int
    """StackChanges are the numbers below it."""
    along: Mapping[int, frozenset[int]]
    """Change -> what cannot stay as it was when it is made."""

    def closed(self, chosen: Iterable[int]) -> frozenset[int]:
        """Return the chosen changes with all that they force."""
        found: set[int] = set()
        pending = list(chosen)
        while pending:
            at = pending.pop()
            if at not in found:
                found.add(at)
                pending += self.along.get(at, ())
        return frozenset(found)

    def without(self, undone: Collection[int]) -> frozenset[int]:
        """Return every change that can be made while those are undone: nothing that forces one of them."""
        left = set(range(self.count)) - set(undone)
        while gone := {at for at in left if not self.along.get(at, frozenset()) <= left}:
            left -= gone
        return frozenset(left)

    def ordered(self) -> tuple[int, ...]:
        """Return the changes, each after what it forces, otherwise in their order; circles are broken anywhere."""
        done: dict[int, None] = {}
        for start in range(self.count):
            stack = [(start, False)]
            seen: set[int] = set()
            while stack:
                at, entered = stack.pop()
                if entered:
                    done.setdefault(at)
                elif at not in done and at not in seen:
                    seen.add(at)
                    stack.append((at, True))
                    stack += [(other, False) for other in sorted(self.along.get(at, ()), reverse=True)]
        return tuple(done)


@frozen
class Explanation:
    """Which changes are at fault."""

    causes: tuple[frozenset[int], ...]
    """Each is bad by itself, with what it forces, and none of its changes can be left out. One that holds several is
    bad only together."""
    undone: frozenset[int]
    """What is undone when all of them are: they, and what forces one of them."""
    verified: bool
    """Everything else together was tested, and is good."""


def explain(forces: Forces, test: Test) -> Explanation:
    """Return the causes of what is bad when every change is made and good when none is; both must have been tested.

    Independent causes are found one after the other, until what is left is good.
    """
    known: dict[frozenset[int], Outcome] = {frozenset(): "good", frozenset(range(forces.count)): "bad"}

    def asked(chosen: Iterable[int]) -> Outcome:
        wanted = forces.closed(chosen)
        if wanted not in known:
            known[wanted] = test(wanted)
        return known[wanted]

    order = forces.ordered()
    causes: list[frozenset[int]] = []
    undone: set[int] = set()
    while True:
        left = forces.without(undone)
        outcome = asked(left)
        if outcome != "bad":
            every = frozenset(range(forces.count)) - left
            return Explanation(causes=tuple(causes), undone=every, verified=outcome == "good")
        cause = smallest([at for at in order if at in left], asked)
        causes.append(frozenset(cause))
        undone |= causes[-1]


def smallest(items: Sequence[int], asked: Callable[[Iterable[int]], Outcome]) -> list[int]:
    """Return changes that are bad together and of which none can be left out; all of `items` together are bad.

    Where a test cannot judge, its set counts as not known to be bad.
    """
    wanted: list[int] = []
    left = list(items)
    # Always: `wanted` and `left` together are bad.
    while left and (not wanted or asked(wanted) != "bad"):
        low, high = 0, len(left)
        while high - low > 1:
            middle = (low + high) // 2
            if asked([*wanted, *left[:middle]]) == "bad":
                high = middle
            else:
                low = middle
        wanted.append(left[high - 1])
        left = left[: high - 1]
    return ddmin(wanted, asked)


def ddmin(items: Sequence[int], asked: Callable[[Iterable[int]], Outcome]) -> list[int]:
    """Return a part of `items` that is bad as they are, and of which no single change can be left out."""
    items = list(items)
    parts = 2
    while len(items) > 1:
        chunks = _split(items, parts)
        found = next((chunk for chunk in chunks if asked(chunk) == "bad"), None)
        if found is not None:
            items, parts = found, 2
            continue
        rests = [[at for at in items if at not in chunk] for chunk in chunks] if parts > 2 else []
        found = next((rest for rest in rests if asked(rest) == "bad"), None)
        if found is not None:
            items, parts = found, max(parts - 1, 2)
        elif parts >= len(items):
            break
        else:
            parts = min(len(items), 2 * parts)
    return items


def _split(items: Sequence[int], parts: int) -> list[list[int]]:
    bounds = [len(items) * at // parts for at in range(parts + 1)]
    return [list(items[start:end]) for start, end in pairwise(bounds)]
