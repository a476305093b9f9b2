"""A venv whose folder cannot be renamed, a mount point above all: its contents are exchanged, and kill -9 finds no gap.

The store is then inside the venv's folder. The mounts are real ones, made by the test, which needs root for them.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.factories.make_scene import Scene, State, make_scene, state
from tests.factories.small_disk import leave, roomy, small_disk

RESTORE = ("restore", "--profile", "small", "--venv", "venv", "--yes")
REPAIR = ("repair", "--profile", "small", "--venv", "venv", "--yes")
ROLLBACK = ("rollback", "--venv", "venv", "--yes")
PRUNE = ("prune", "--keep", "0", "--venv", "venv", "--yes")
LOOK = ("prune", "--keep", "99", "--venv", "venv", "--yes")
UNPRIVILEGED = Path(__file__).parents[1] / "factories" / "unprivileged.py"
POINTS: dict[str, int] = {}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("scene"))


def _contents(folder: Path) -> State:
    return {path: told for path, told in state(folder).items() if path.split("/")[0] != ".envdoctor"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """A scene whose venv is a mount point, with its kept generation inside."""

    scene: Scene

    @property
    def folder(self) -> Path:
        """The venv's folder."""
        return self.scene.stack.venv

    @property
    def store(self) -> Path:
        """What envdoctor keeps, inside it."""
        return self.folder / ".envdoctor" / "venv"

    def venv(self) -> State:
        """Return the state of what is in the folder, but for the store."""
        return _contents(self.folder)

    def kept(self) -> list[State]:
        """Return the state of each kept generation."""
        return [state(path) for path in sorted((self.store / "generations").glob("*"))]

    def settled(self) -> None:
        """Fail unless nothing is left under way."""
        assert not (self.store / "journal.json").exists()
        assert list((self.store / "builds").glob("*")) == []
        assert (self.folder / "pyvenv.cfg").is_file()


@contextmanager
def mounted(scene: Scene, folder: Path) -> Iterator[Mounted]:
    """Copy the scene and bind its venv onto itself: same file system, and yet no rename."""
    again = scene.again(folder)
    venv = again.stack.venv
    (folder / ".envdoctor").rename(venv / ".envdoctor")
    done = subprocess.run(["mount", "--bind", venv, venv], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield Mounted(scene=again)
    finally:
        subprocess.run(["umount", "--lazy", venv], check=True)


def test_restore_rollback_and_prune_work(scene: Scene, tmp_path: Path) -> None:
    with mounted(scene, tmp_path / "work") as made:
        stack = made.scene.stack
        inode = made.folder.stat().st_ino
        planned = stack.run("restore", "--profile", "small", "--venv", "venv", "--dry-run")
        assert planned.out.splitlines()[-1] == (
            "  4. move it into FOLDER/venv, what is in it now is kept at FOLDER/venv/.envdoctor/venv/generations/0002; "
            "that folder cannot be renamed (a mount point, or its parent may not be written), so the venv is "
            "incomplete for a moment; after an interruption the journal completes or undoes it"
        )
        answer = stack.run(*RESTORE)
        assert (answer.code, answer.out.splitlines()[1]) == (
            0,
            "the old venv is kept at FOLDER/venv/.envdoctor/venv/generations/0002; "
            "no process that this user can see uses it",
        )
        new = made.venv()
        assert made.kept() == [scene.kept, scene.old]
        assert (made.folder.stat().st_ino, made.scene.others()) == (inode, scene.mine)
        code = "import sys, torch; print(torch.__version__, sys.prefix)"
        told = subprocess.run(
            [made.folder / "bin/python", "-B", "-c", code], capture_output=True, text=True, check=True
        ).stdout
        assert told == f"2.13.0+cpu {made.folder}\n"
        assert stack.run(*RESTORE).out.startswith("FOLDER/venv already holds small")
        assert stack.run(*ROLLBACK).code == 0
        assert (made.venv(), made.kept()) == (scene.old, [scene.kept, new])
        repaired = stack.run(*REPAIR)
        assert repaired.code == 0, repaired.err
        assert made.kept() == [scene.kept, new, scene.old]
        assert "mine too" in (made.folder / "share" / "results.csv").read_text()
        assert stack.run("prune", "--keep", "1", "--venv", "venv", "--yes").code == 0
        assert made.kept() == [scene.old]
        made.settled()
    assert not (tmp_path / "work" / ".envdoctor").exists(), "the store is inside"


def test_an_empty_mount_gets_a_venv(scene: Scene, tmp_path: Path) -> None:
    again = scene.again(tmp_path / "work")
    try:
        disk = small_disk(tmp_path / "work" / "new")
        with disk as folder:
            answer = again.stack.run("restore", "--profile", "small", "--venv", "new", "--yes")
            assert (answer.code, answer.out) == (
                0, "restored FOLDER/new: 4 packages, 31 files (2 kB) verified by sha256\n",
            )  # fmt: skip
            assert (folder / "bin" / "python").exists()
            assert not (folder / ".envdoctor" / "new" / "generations").exists()
    except OSError as error:
        pytest.skip(str(error))


# A restore and a repair fill the folder as a rollback does: of their points some are enough for every day.
@pytest.mark.parametrize(
    ("command", "share"),
    [
        (ROLLBACK, 1),
        (PRUNE, 1),
        *((command, 3) for command in (RESTORE, REPAIR)),
        *(pytest.param(command, 1, marks=pytest.mark.giant) for command in (RESTORE, REPAIR)),
    ],
    ids=lambda it: it[0] if isinstance(it, tuple) else f"1 in {it}",
)
def test_killed_at_every_point(scene: Scene, tmp_path: Path, command: tuple[str, ...], share: int) -> None:
    with mounted(scene, tmp_path / "whole") as made:
        code, events = made.scene.killed(command, 0)
        assert code == 0
        made.settled()
        new = made.venv()
    journaled = [
        number for number, event in enumerate(events, 1) if "rename" in event and event.endswith("journal.json")
    ]
    # Before the swap nothing differs from an ordinary venv's restore, and is killed there.
    # The journal's new file is opened just before it takes its place.
    first = journaled[-2] - 1 if command in (RESTORE, REPAIR) else 1
    points = range(first, len(events) + 1)
    assert len(points) >= 8
    sample = random.Random(20261130).sample(points, len(points) // share)  # noqa: S311 - the same in each run
    POINTS[command[0]] = max(POINTS.get(command[0], 0), len(sample))
    between = 0
    for at in sample:
        with mounted(scene, tmp_path / str(at)) as made:
            assert made.scene.killed(command, at)[0] == -signal.SIGKILL
            whole = made.venv() in (scene.old, new)
            between += not whole
            assert whole or (made.store / "journal.json").exists(), at
            answer = made.scene.stack.run(*LOOK)
            assert answer.code == 0, f"at {at}: {answer.err}"
            assert whole or "an earlier " in answer.err, f"at {at}: nothing was said: {answer.err}"
            assert made.venv() in (scene.old, new), at
            assert scene.old in (made.venv(), *made.kept()), at
            assert command == PRUNE or scene.kept in (made.venv(), *made.kept()), at
            assert made.scene.others() == scene.mine
            made.settled()
    assert command == PRUNE or between * share >= 4, "the moments in between were not met"


@pytest.mark.parametrize("phase", ["emptying", "filling"])
def test_the_recovery_itself_is_killed_at_every_point(scene: Scene, tmp_path: Path, phase: str) -> None:
    with mounted(scene, tmp_path / "whole") as made:
        events = made.scene.killed(ROLLBACK, 0)[1]
        new = made.venv()
    renames = [
        number for number, event in enumerate(events, 1) if event.startswith("os.rename") and "journal" not in event
    ]
    # Killed after the second file has been put aside, or after the second has been put in.
    inward = [number for number in renames if "/generations/0001/" in events[number - 1].split(" ")[1]]
    torn = {"emptying": renames[2], "filling": inward[2]}[phase]
    expected = {"emptying": scene.old, "filling": new}[phase]
    at = 0
    while True:
        at += 1
        with mounted(scene, tmp_path / str(at)) as made:
            assert made.scene.killed(ROLLBACK, torn)[0] == -signal.SIGKILL
            assert made.venv() not in (scene.old, new)
            code, _ = made.scene.killed(LOOK, at)
            assert code in (0, -signal.SIGKILL)
            assert made.scene.stack.run(*LOOK).code == 0
            assert made.venv() == expected, at
            made.settled()
            assert scene.kept in (made.venv(), *made.kept())
        if code == 0:
            break
    assert at >= 6
    POINTS[f"recovery, {phase}"] = at - 1


def test_what_is_in_the_way_is_never_written_over(scene: Scene, tmp_path: Path) -> None:
    with mounted(scene, tmp_path / "whole") as made:
        events = made.scene.killed(ROLLBACK, 0)[1]
        new = made.venv()
    last = max(number for number, event in enumerate(events, 1) if event.startswith("os.rename") and "0001/" in event)
    with mounted(scene, tmp_path / "work") as made:
        assert made.scene.killed(ROLLBACK, last)[0] == -signal.SIGKILL
        missing = next(name for name in sorted(os.listdir(made.store / "generations" / "0001")))  # noqa: PTH208
        mine = made.folder / missing
        mine.write_text("mine")
        refused = made.scene.stack.run(*LOOK)
        assert (refused.code, refused.err) == (
            4,
            f"error: FOLDER/venv/{missing} was put there while the venv was being exchanged, and is in the way\n\n"
            "hint: move it away, and run this again: what is left of the exchange is then done\n",
        )
        assert mine.read_text() == "mine"
        shutil.move(mine, tmp_path / "mine")
        assert made.scene.stack.run(*LOOK).code == 0
        assert made.venv() == new


def test_a_mount_inside_the_venv_stops_the_swap_and_all_is_as_it_was(scene: Scene, tmp_path: Path) -> None:
    with mounted(scene, tmp_path / "work") as made:
        share = made.folder / "share"
        subprocess.run(["mount", "--bind", share, share], check=True)
        try:
            answer = made.scene.stack.run(*RESTORE)
            assert answer.code == 4
            assert answer.err.endswith(
                "error: FOLDER/venv/share is a mount point, which cannot be renamed\n"
                "FOLDER/venv is as it was\n\n"
                "hint: restore into another folder: `--venv PATH`\n"
            )
            assert (made.venv(), made.kept()) == (scene.old, [scene.kept])
            made.settled()
        finally:
            subprocess.run(["umount", share], check=True)


@pytest.mark.parametrize(
    ("command", "pages"),
    [*((ROLLBACK, pages) for pages in range(6)), *((RESTORE, pages) for pages in range(0, 160, 16))],
)
def test_a_full_disk(scene: Scene, tmp_path: Path, command: tuple[str, ...], pages: int) -> None:
    made = Mounted(scene=scene.again(tmp_path / "work"))
    made.folder.rename(tmp_path / "aside")
    try:
        with small_disk(made.folder) as disk:
            shutil.copytree(tmp_path / "aside", disk, symlinks=True, dirs_exist_ok=True)
            shutil.copytree(made.scene.folder / ".envdoctor", disk / ".envdoctor", symlinks=True)
            leave(disk, pages)
            answer = made.scene.stack.run(*command)
            assert answer.code in (0, 4), answer.err
            assert "Traceback" not in answer.err
            assert (made.venv() == scene.old) is (answer.code == 4), answer.err
            roomy(disk)
            look = made.scene.stack.run(*LOOK)
            assert look.code == 0, look.err
            assert (made.venv() == scene.old) is (answer.code == 4), answer.err
            assert scene.old in (made.venv(), *made.kept())
            assert scene.kept in (made.venv(), *made.kept())
            made.settled()
    except OSError as error:
        pytest.skip(str(error))


def test_a_venv_in_a_folder_of_somebody_elses(scene: Scene, tmp_path: Path) -> None:
    """Its parent may not be written: the store is inside, and the venv is restored all the same."""
    made = Mounted(scene=scene.again(tmp_path / "work"))
    (made.scene.folder / ".envdoctor").rename(made.folder / ".envdoctor")
    made.scene.folder.chmod(0o555)
    try:
        done = subprocess.run(
            [sys.executable, UNPRIVILEGED, *RESTORE],
            cwd=made.scene.folder,
            env=made.scene.stack.environment,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        made.scene.folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert made.kept() == [scene.kept, scene.old]
    made.settled()


def test_the_points_are_counted() -> None:
    """Counted over the tests above, which run before this one."""
    if len(POINTS) < 6:
        pytest.skip("the tests that count did not run")
    print(f"killed at {sum(POINTS.values())} points of mount points: {POINTS}")  # noqa: T201 - `pytest -rP` shows the figure
    assert sum(POINTS.values()) >= 60
