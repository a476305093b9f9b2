"""A disk that is full at every stage, read-only, or not ours: the venv stays as it was, the message says what to do.

The venv and its store are on a small tmpfs that the test mounts; uv's cache and the wheels are elsewhere.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories.make_scene import Scene, make_scene
from tests.factories.make_stack import make_stack
from tests.factories.make_wheel import make_wheel
from tests.factories.small_disk import leave, read_only, roomy, small_disk, used_pages, writable

RESTORE = ("restore", "--profile", "small", "--venv", "venv", "--yes")
ROLLBACK = ("rollback", "--venv", "venv", "--yes")
PRUNE = ("prune", "--keep", "0", "--venv", "venv", "--yes")
UNPRIVILEGED = Path(__file__).parents[1] / "factories" / "unprivileged.py"
RESTORE_POINTS = 21
# The cheapest command that recovers.
LOOK = ("prune", "--keep", "99", "--venv", "venv", "--yes")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    try:
        with small_disk(tmp_path / "disk") as made:
            yield made
    except OSError as error:
        pytest.skip(str(error))


def _afresh(scene: Scene, disk: Path) -> Scene:
    roomy(disk)
    shutil.rmtree(disk / "work", ignore_errors=True)
    return scene.again(disk / "work")


def _needed(scene: Scene, disk: Path) -> int:
    """Return how many pages more are in use once a restore is done."""
    again = _afresh(scene, disk)
    before = used_pages(disk)
    answer = again.stack.run(*RESTORE)
    assert answer.code == 0, answer.err
    return used_pages(disk) - before


def test_a_full_disk_at_many_points_of_a_restore(scene: Scene, disk: Path) -> None:
    needed = _needed(scene, disk)
    # All below what a finished restore takes, so that each of them must fail.
    points = [needed * number // RESTORE_POINTS for number in range(RESTORE_POINTS)]
    assert len(set(points)) == RESTORE_POINTS
    for number, pages in enumerate(points):
        again = _afresh(scene, disk)
        leave(disk, pages)
        answer = again.stack.run(*RESTORE)
        assert answer.code == 4, f"{pages} pages: {answer.err}"
        _full(answer.err)
        assert again.venv() == again.old, f"{pages} pages"
        assert again.kept in again.everywhere()
        assert again.others() == again.mine
        again.settled()
        roomy(disk)
        command = RESTORE if number % 3 == 0 else LOOK
        assert again.stack.run(*command).code == 0, f"{pages} pages"
        assert (again.venv() == again.old) == (command is LOOK)
        assert again.old in again.everywhere()
        again.settled()


def _full(err: str) -> None:
    message, _, hint = err.rpartition("\n\nhint: ")
    told = message.rpartition("error: ")[2]
    assert told.startswith("too little room: ") or "disk is full" in told, err
    assert hint.startswith("free some space"), err


@pytest.mark.parametrize("pages", [0, 1, 2])
def test_a_full_disk_and_a_rollback(scene: Scene, disk: Path, pages: int) -> None:
    again = _afresh(scene, disk)
    leave(disk, pages)
    answer = again.stack.run(*ROLLBACK)
    if answer.code == 0:
        assert again.venv() == again.kept
    else:
        assert answer.code == 4
        _full(answer.err)
        assert again.venv() == again.old
        again.settled()
        roomy(disk)
        assert again.stack.run(*ROLLBACK).code == 0
    assert again.old in again.everywhere()
    assert again.others() == again.mine
    again.settled()


def test_a_prune_makes_room_on_a_disk_that_has_none(scene: Scene, disk: Path) -> None:
    again = _afresh(scene, disk)
    leave(disk, 0)
    used = used_pages(disk)
    answer = again.stack.run(*PRUNE)
    assert answer.code == 0, answer.err
    assert used_pages(disk) < used
    assert (again.venv(), again.others()) == (again.old, again.mine)
    again.settled()


@pytest.mark.parametrize("command", [RESTORE, ROLLBACK, PRUNE], ids=lambda command: command[0])
def test_a_read_only_disk(scene: Scene, disk: Path, command: tuple[str, ...]) -> None:
    again = _afresh(scene, disk)
    read_only(disk)
    answer = again.stack.run(*command)
    assert answer.code == 4
    told = again.stack.plain(answer.err).rpartition("error: ")[2]
    assert told == (
        "FOLDER cannot be written, and the new venv is built beside the old one\n\n"
        "hint: run it as the owner of FOLDER, or restore into another folder: `--venv PATH`\n"
        if command is not PRUNE
        else "FOLDER/.envdoctor/venv cannot be written: Read-only file system\n\n"
        "hint: run it as the owner of that folder\n"
    )
    assert (again.venv(), again.others()) == (again.old, again.mine)
    writable(disk)
    assert again.stack.run(*command).code == 0


def test_neither_the_parent_nor_the_venv_may_be_written(scene: Scene, tmp_path: Path) -> None:
    again = scene.again(tmp_path / "work")
    for folder in (again.folder, again.stack.venv):
        folder.chmod(0o555)
    try:
        answer = _without_root(again, *RESTORE)
    finally:
        again.folder.chmod(0o755)
        again.stack.venv.chmod(0o755)
    assert answer == (
        4,
        "error: FOLDER cannot be written, and the new venv is built beside the old one\n\n"
        "hint: run it as the owner of FOLDER, or restore into another folder: `--venv PATH`\n",
    )
    assert (again.venv(), again.others()) == (again.old, again.mine)
    again.settled()


@pytest.mark.parametrize("where", [".envdoctor/venv", ".envdoctor/venv/generations", ".envdoctor/venv/builds"])
def test_a_store_that_may_not_be_written(scene: Scene, tmp_path: Path, where: str) -> None:
    again = scene.again(tmp_path / "work")
    (again.folder / where).chmod(0o555)
    code, err = _without_root(again, *RESTORE)
    (again.folder / where).chmod(0o755)
    assert code == 4
    assert "ermission denied" in err
    assert err.rpartition("\n\nhint: ")[2].startswith(("run ", "the new venv is built", "restore as")), err
    assert (again.venv(), again.others()) == (again.old, again.mine)
    assert again.kept in again.everywhere()
    answer = again.stack.run(*RESTORE)
    assert answer.code == 0, answer.err
    again.settled()


def test_a_read_only_venv_is_replaced_and_kept_as_it_is(scene: Scene, tmp_path: Path) -> None:
    again = scene.again(tmp_path / "work")
    folders = [path for path in again.stack.venv.rglob("*") if path.is_dir() and not path.is_symlink()]
    for folder in folders:
        folder.chmod(0o555)
    before = again.venv()
    code, err = _without_root(again, *RESTORE)
    assert code == 0, err
    assert before in again.everywhere()
    # And when it is no longer wanted, its folders' modes are no hindrance.
    code, err = _without_root(again, *PRUNE)
    assert code == 0, err
    again.settled()


def _without_root(scene: Scene, *command: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, UNPRIVILEGED, *command],
        cwd=scene.folder,
        env=scene.stack.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, scene.stack.plain(done.stderr)


@pytest.mark.parametrize("cached", [False, True], ids=["to be unpacked", "in uv's cache"])
def test_too_little_room_is_said_before_anything_is_built(tmp_path: Path, disk: Path, *, cached: bool) -> None:
    large = make_wheel(tmp_path / "made", "large", "1.0", files={"large.bin": bytes(20_000_000)})
    stack = make_stack(tmp_path / "stack", large)
    stack.environment["PIP_FIND_LINKS"] += f" {large.parent}"
    if cached:
        assert stack.restore().code == 0
    leave(disk, 1000)
    venv = ("--profile", "small", "--venv", str(disk / "venv"))
    answer = stack.run("restore", *venv, "--dry-run")
    assert answer.code == 4, answer.err
    (line,) = [line for line in answer.out.splitlines() if line.startswith("  disk ")]
    assert line == f"  disk         20.0 MB for the venv, copied from uv's cache, on {disk} (4.1 MB free)"
    used = used_pages(disk)
    answer = stack.run("restore", *venv, "--yes")
    assert (answer.code, answer.out) == (4, "")
    assert answer.err.endswith(
        f"error: too little room: the new venv needs 20.0 MB on the file system of {disk}, which has 4.1 MB free: its "
        f"files are copied, since uv's cache is on another file system or mount\n{disk}/venv was not created\n\n"
        "hint: free some space there (`envdoctor prune` removes old backups), and run it again\n"
    )
    assert used_pages(disk) == used
    roomy(disk)
    assert stack.run("restore", *venv, "--yes").code == 0


def test_too_little_room_for_uvs_cache(tmp_path: Path, disk: Path) -> None:
    large = make_wheel(tmp_path / "made", "large", "1.0", files={"large.bin": bytes(20_000_000)})
    stack = make_stack(tmp_path / "stack", large)
    stack.environment |= {
        "PIP_FIND_LINKS": f"{stack.environment['PIP_FIND_LINKS']} {large.parent}",
        "UV_CACHE_DIR": str(disk / "cache"),
    }
    leave(disk, 1000)
    answer = stack.restore()
    assert (answer.code, stack.venv.exists()) == (4, False)
    assert "error: too little room: uv's cache needs 20.0 MB on the file system of " in answer.err
    assert answer.err.endswith(
        "hint: free some space there (`envdoctor prune` removes old backups), or put uv's cache elsewhere "
        "(`UV_CACHE_DIR`), and run it again\n"
    )
    assert stack.restore(extra={"UV_CACHE_DIR": str(tmp_path / "other-cache")}).code == 0


def test_a_bind_mount_of_the_caches_file_system_takes_copies(tmp_path: Path, disk: Path) -> None:
    large = make_wheel(tmp_path / "made", "large", "1.0", files={"large.bin": bytes(20_000_000)})
    stack = make_stack(tmp_path / "stack", large)
    stack.environment |= {
        "PIP_FIND_LINKS": f"{stack.environment['PIP_FIND_LINKS']} {large.parent}",
        "UV_CACHE_DIR": str(disk / "cache"),
    }
    assert stack.restore().code == 0
    (disk / "venvs").mkdir()
    bound = tmp_path / "bound"
    bound.mkdir()
    subprocess.run(["mount", "--bind", disk / "venvs", bound], check=True)
    try:
        with pytest.raises(OSError, match="Invalid cross-device link"):
            (bound / "link").hardlink_to(disk / "cache/CACHEDIR.TAG")
        leave(disk, 1000)
        answer = stack.run("restore", "--profile", "small", "--venv", str(bound / "venv"), "--dry-run")
    finally:
        subprocess.run(["umount", "--lazy", bound], check=True)
    assert answer.code == 4, answer.err
    (line,) = [line for line in answer.out.splitlines() if line.startswith("  disk ")]
    assert line == f"  disk         20.0 MB for the venv, copied from uv's cache, on {bound} (4.1 MB free)"
