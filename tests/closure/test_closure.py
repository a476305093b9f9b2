"""Obey what a check prints and check again: the cause is gone, nothing else broke, or it was said that it stays."""

import random

import pytest

from tests.closure.faults import FAULTS
from tests.closure.law import Outcome
from tests.closure.recipes import RECIPES
from tests.closure.states import DRAWN_BY, pairs

MORE, PAIRS = 12, 14
HEALTHY = ""
KNOWN: dict[str, str] = {}
"""State -> why the law is broken there today."""


def _every_day() -> list[str]:
    """Return each kind of fault in one file, and some in others; `make test-giants` takes each in every file."""
    first = {name if name.startswith("mishap:") else name.partition(":")[0]: name for name in reversed(FAULTS)}
    chosen = [name for name in FAULTS if name in first.values()]
    others = [name for name in FAULTS if name not in first.values()]
    return [*chosen, *random.Random(DRAWN_BY).sample(others, MORE)]  # noqa: S311 - a reproducible draw


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
    "mishap:site-linked-lost + info-record-empty:tool",
    "info-renamed:plain + two-owners:both",
    "info-copied:plain + mishap:bytecode-unchecked",
    "mishap:no-metadata + mishap:venv-upgraded",
    "mishap:venv-upgraded + at-risk:cudnn",
    "info-METADATA:plain + folder:init",
    # A repair that refused its copy for what stood behind the error that it had repaired.
    "truncated:torch-c + uninstalled:nvidia-nvjitlink-cu12",
    "dangling:torch-init + uninstalled:nvidia-nccl-cu12",
    "dangling:torch-init + version:torchvision==0.24.0",
    "mishap:target-torch + dangling:torch-version",
    "version:torch-cpu + truncated:torch-version",
)
STATES = list(dict.fromkeys([HEALTHY, *_every_day(), *RECIPES, *FORMER, *pairs(PAIRS, DRAWN_BY)]))
OTHERS = [name for name in FAULTS if name not in STATES]


def _marked(state: str) -> object:
    marks = [pytest.mark.xfail(reason=KNOWN[state], strict=True)] if state in KNOWN else []
    marks += [pytest.mark.giant] if state in OTHERS else []
    return pytest.param(state, marks=marks, id=state.replace(" ", "") or "healthy")


@pytest.mark.parametrize("state", [_marked(state) for state in (*STATES, *OTHERS)])
def test_what_is_printed_heals(state: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[state]
    assert outcome.made
    assert not outcome.failures, "\n".join([*outcome.failures, *outcome.trace])


def test_there_are_as_many_states_as_promised() -> None:
    assert len(set(STATES)) == len(STATES) >= 120
