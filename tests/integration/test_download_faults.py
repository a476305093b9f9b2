"""A restore that is killed, or whose disk fills up, while uv downloads (benchmarks/download_faults.py: for real)."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.factories.make_index import Index, make_index
from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import make_venv, tree_state
from tests.factories.make_wheel import make_wheel
from tests.factories.small_disk import leave, roomy, small_disk

LARGE = "large-1.0-py3-none-any.whl"


def _mountable(folder: Path) -> bool:
    try:
        with small_disk(folder):
            return True
    except OSError:
        return False


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Make a stack with a large wheel, over an old venv."""
    wheel = make_wheel(tmp_path / "wheels", "large", "1.0", files={"large.bin": os.urandom(400_000)})
    return make_stack(tmp_path, wheel)


@pytest.fixture
def index(stack: Stack) -> Iterator[Index]:
    """Serve its wheels, the large one slowly."""
    with make_index(stack.folder / "wheels", {LARGE: "slow"}) as made:
        stack.environment |= {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "PIP_INDEX_URL": made.url}
        yield made


@contextmanager
def _downloading(stack: Stack, index: Index) -> "Iterator[subprocess.Popen[str]]":
    """Start a restore and go on once it downloads; it does not outlive the block."""
    command = stack.command("restore", "-p", "small", "--venv", "venv", "--yes")
    with subprocess.Popen(
        command, cwd=stack.folder, env=stack.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        try:
            deadline = time.monotonic() + 60
            while LARGE not in index.downloads():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield started
        finally:
            started.kill()


def _in_cache(cache: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"UV_CACHE_DIR={cache}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found


def test_killed_while_it_downloads_the_venv_is_as_it_was_and_the_next_run_is_whole(stack: Stack, index: Index) -> None:
    make_venv(stack.venv, stack.wheels[1], cache=stack.cache)
    before = tree_state(stack.venv)
    with _downloading(stack, index) as started:
        started.send_signal(signal.SIGKILL)
        started.communicate()
    deadline = time.monotonic() + 30
    while _in_cache(stack.cache) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (started.returncode, _in_cache(stack.cache), tree_state(stack.venv)) == (-signal.SIGKILL, [], before)
    del index.faults[LARGE]
    answer = stack.restore()
    assert answer.code == 0, answer.err
    assert "Recover  " in answer.err
    assert not any((stack.store / "builds").glob("*"))


def test_a_disk_that_fills_up_while_it_downloads(stack: Stack, index: Index, tmp_path: Path) -> None:
    if not _mountable(tmp_path / "try"):
        pytest.skip("a tmpfs cannot be mounted here")
    with small_disk(tmp_path / "disk") as disk:
        stack.environment["UV_CACHE_DIR"] = str(disk / "cache")
        with _downloading(stack, index) as started:
            leave(disk, 4)
            out, err = started.communicate(timeout=60)
        assert (started.returncode, out) == (4, "")
        error = stack.plain(err)[stack.plain(err).index("error: ") :]
        assert error == (
            "error: the disk is full\nFOLDER/venv was not created\n\n"
            "hint: free some space (`uv cache prune` and old backups are candidates) and run it again\n"
        )
        assert not stack.venv.exists()
        roomy(disk)
        del index.faults[LARGE]
        assert stack.restore().code == 0
