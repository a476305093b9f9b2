"""kill -9 before every single change of the disk: the venv is the old one or the new one, and the next command goes on.

Each point is a run of its own on a fresh copy: the process ends right before its n-th open for writing, rename, link,
removal, new folder, child process or call of renameat2 and syncfs (tests/factories/killed.py).
"""

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.factories.make_scene import Scene, State, make_scene, workers

RESTORE = ("restore", "--profile", "small", "--venv", "venv", "--yes")
ROLLBACK = ("rollback", "--venv", "venv", "--yes")
PRUNE = ("prune", "--keep", "0", "--venv", "venv", "--yes")
# The cheapest command that recovers: it takes the lock, puts things right and removes nothing.
LOOK = ("prune", "--keep", "99", "--venv", "venv", "--yes")
_COUNTS: dict[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A command to be killed at each of its changes."""

    name: str
    command: tuple[str, ...]
    exchange: bool = True
    only_swap: bool = False
    """Leave out what comes before the swap's own journal entry."""
    least: int
    """How many points there must be, so that a hook which sees nothing fails."""
    may_lose_kept: bool = False


CASES = (
    Case(name="restore", command=RESTORE, least=14),
    Case(name="restore, two renames", command=RESTORE, exchange=False, only_swap=True, least=4),
    Case(name="rollback", command=ROLLBACK, least=8),
    Case(name="rollback, two renames", command=ROLLBACK, exchange=False, only_swap=True, least=4),
    Case(name="prune", command=PRUNE, least=14, may_lose_kept=True),
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("scene"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_killed_at_every_point(scene: Scene, tmp_path: Path, case: Case) -> None:
    whole = scene.again(tmp_path / "whole")
    code, events = whole.killed(case.command, 0, exchange=case.exchange)
    assert code == 0
    whole.settled()
    new = whole.venv()
    points = _points(events, only_swap=case.only_swap)
    assert len(points) >= case.least
    _COUNTS[case.name] = len(points)

    def try_one(at: int) -> None:
        _kill_and_recover(scene.again(tmp_path / str(at)), case, at, (scene.old, new))

    _each(try_one, points)


def _points(events: Sequence[str], *, only_swap: bool) -> list[int]:
    """Return the numbers of the events that count."""
    journaled = [
        number for number, event in enumerate(events, 1) if "rename" in event and event.endswith("journal.json")
    ]
    # The journal's new file is opened just before it takes its place.
    first = journaled[-1] - 1 if only_swap else 1
    return list(range(first, len(events) + 1))


def _each(try_one: Callable[[int], None], points: Sequence[int]) -> None:
    with ThreadPoolExecutor(workers()) as pool:
        for _ in pool.map(try_one, points):
            pass


def _kill_and_recover(scene: Scene, case: Case, at: int, allowed: tuple[State, State]) -> None:
    code, _ = scene.killed(case.command, at, exchange=case.exchange)
    assert code == -signal.SIGKILL, at
    left = scene.venv()
    # With two renames there is a moment without a venv; the journal knows, and the next command ends it.
    assert left in allowed or (not case.exchange and left == {}), f"in between at {at}"
    pending = (scene.stack.store / "journal.json").exists()
    _nothing_lost(scene, case)
    # Now and then the next command is the same one again; otherwise the cheapest one that recovers.
    command = case.command if at % 4 == 0 else LOOK
    answer = scene.stack.run(*command)
    assert answer.code == 0, f"at {at}: {answer.err}"
    assert not pending or "an earlier " in answer.err or "was being pruned" in answer.err, (
        f"at {at}: nothing was said: {answer.err}"
    )
    assert command is not LOOK or scene.venv() in allowed
    scene.settled()
    _nothing_lost(scene, case)


def _nothing_lost(scene: Scene, case: Case) -> None:
    there = scene.everywhere()
    assert scene.old in there
    assert case.may_lose_kept or scene.kept in there
    assert scene.others() == scene.mine


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two renames"])
def test_the_recovery_itself_is_killed_at_every_point(scene: Scene, tmp_path: Path, exchange: bool) -> None:  # noqa: FBT001
    """Killed in the middle of a swap, and killed again while that is being put right."""

    def torn(folder: Path) -> Scene:
        made = scene.again(folder)
        made.killed(ROLLBACK, last, exchange=exchange)
        assert (made.stack.store / "journal.json").exists()
        return made

    _, events = scene.again(tmp_path / "whole").killed(ROLLBACK, 0, exchange=exchange)
    # Right before the last rename: the kept venv is in place, or nothing is, and the old one is on its way.
    renames = [number for number, event in enumerate(events, 1) if event.startswith("os.rename")]
    # The one after it is of the record of what the checks found, when the exchange is over.
    assert "verdicts.json" in events[renames[-1] - 1]
    last = renames[-2]
    code, events = torn(tmp_path / "recovered").killed(LOOK, 0, exchange=exchange)
    assert code == 0
    points = _points(events, only_swap=False)
    assert len(points) >= 5
    _COUNTS[f"recovery, {exchange}"] = len(points)

    def try_one(at: int) -> None:
        again = torn(tmp_path / str(at))
        assert again.killed(LOOK, at, exchange=exchange)[0] == -signal.SIGKILL
        case = Case(name="", command=LOOK, least=0)
        _nothing_lost(again, case)
        answer = again.stack.run(*LOOK)
        assert answer.code == 0, answer.err
        assert again.venv() == again.kept
        again.settled()
        _nothing_lost(again, case)

    _each(try_one, points)


def test_there_were_at_least_fifty_points() -> None:
    """Counted over the tests above, which run before this one; alone it has nothing to count."""
    if len(_COUNTS) < len(CASES) + 2:
        pytest.skip("the tests that count did not run")
    print(f"killed at {sum(_COUNTS.values())} points: {_COUNTS}")  # noqa: T201 - `pytest -rP` shows the figure
    assert sum(_COUNTS.values()) >= 50, _COUNTS
