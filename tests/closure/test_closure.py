"""Obey what a check prints and check again: the cause is gone, nothing else broke, or it was said that it stays."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.closure.faults import FAULTS
from tests.closure.law import Outcome
from tests.closure.recipes import RECIPES
from tests.closure.states import pairs

PAIRS, SEED = 24, 20261130
HEALTHY = ""
KNOWN: dict[str, str] = {}
"""State -> why the law is broken there today."""

# Of the same fault in different files some are enough for every day; the benchmark takes all.
_OF_ONE_KIND = 3


def _every_day() -> Iterator[str]:
    taken = Counter[str]()
    for name in FAULTS:
        kind, _, _what = name.partition(":")
        taken[kind] += 1
        if kind == "mishap" or taken[kind] <= _OF_ONE_KIND:
            yield name


# Pairs that broke the law once.
FORMER = (
    "folder:init + info-record-cut:plain",
    "folder:cudnn + info-record-garbage:nvidia-cudnn-cu12",
    "package-link:cudnn + info-RECORD:nvidia-cudnn-cu12",
    "filled:init + info-record-cut:plain",
    "info-RECORD:plain + package-elsewhere:plain",
    "info-renamed:plain + emptied:data",
    "info-renamed:plain + stale-whole:plain-2.0",
    "info-renamed:plain + info-METADATA:plain",
    "package-elsewhere:plain + folder:init",
    "taken:cudnn + dangling:nccl",
    "pythonpath:torch + pythonpath:random",
    "library-path:nvjitlink + truncated:torch-init",
    "two-owners:nccl + info-file:plain",
    "moved:venv + info-record-empty:tool",
    "moved:venv + mishap:no-metadata",
    "script-stale:tool + mishap:site-linked-lost",
    "mishap:site-linked-lost + info-empty:tool",
)
STATES = list(dict.fromkeys([HEALTHY, *_every_day(), *RECIPES, *FORMER, *pairs(PAIRS, SEED)]))


def _marked(state: str) -> object:
    marks = [pytest.mark.xfail(reason=KNOWN[state], strict=True)] if state in KNOWN else []
    return pytest.param(state, marks=marks, id=state.replace(" ", "") or "healthy")


@pytest.mark.parametrize("state", [_marked(state) for state in STATES])
def test_what_is_printed_heals(state: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[state]
    assert outcome.made
    assert not outcome.failures, "\n".join([*outcome.failures, *outcome.trace])


def test_there_are_as_many_states_as_promised() -> None:
    assert len(set(STATES)) == len(STATES) >= 120
