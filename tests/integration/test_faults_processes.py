"""Several commands at once, a uv that is killed, an interrupt at any moment: one venv, whole, and nothing lost."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.factories.make_index import make_index
from tests.factories.make_scene import Scene, make_scene
from tests.factories.make_wheel import make_wheel

RESTORE = ("restore", "--profile", "small", "--venv", "venv", "--yes")
REPAIR = ("repair", "--profile", "small", "--venv", "venv", "--yes")
ROLLBACK = ("rollback", "--venv", "venv", "--yes")
PRUNE = ("prune", "--keep", "9", "--venv", "venv", "--yes")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("scene"))


def _start(scene: Scene, *command: str, extra: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        scene.stack.command(*command),
        cwd=scene.folder,
        env=scene.stack.environment | (extra or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background hands SIGINT on as ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )


def test_four_commands_at_once(scene: Scene, tmp_path: Path) -> None:
    again = scene.again(tmp_path / "work")
    running = [_start(again, *command) for command in (RESTORE, REPAIR, RESTORE, ROLLBACK)]
    ended = [(process.communicate(timeout=120)[1], process.returncode) for process in running]
    for err, code in ended:
        # Who came second refuses; a plan that was made before another's swap is refused by the venv it finds.
        assert code in (0, 4), err
        late = ("another envdoctor (process ", "is another folder now, not the venv that the plan was made of")
        assert code == 0 or any(said in err for said in late), err
    assert 0 in [code for _, code in ended]
    assert again.stack.run(*PRUNE).code == 0
    there = again.everywhere()
    assert scene.old in there
    assert scene.kept in there
    assert again.others() == scene.mine
    again.settled()
    assert again.stack.run(*RESTORE).code == 0


@pytest.mark.parametrize("command", [RESTORE, REPAIR], ids=lambda command: command[0])
def test_a_uv_that_is_killed(scene: Scene, tmp_path: Path, command: tuple[str, ...]) -> None:
    again = scene.again(tmp_path / "work")
    wheels = tmp_path / "wheels"
    large = make_wheel(wheels, "nvidia-nccl-cu12", "2.1", files={"nvidia/nccl/lib/libnccl.so.2": os.urandom(400_000)})
    others = [path for path in scene.stack.wheels if "nccl" not in path.name]
    again.stack.lock(*others, large)
    with make_index(wheels) as index:
        index.faults[large.name] = "slow"
        process = _start(again, *command, extra={"PIP_NO_INDEX": "", "PIP_INDEX_URL": index.url})
        deadline = time.monotonic() + 60
        while not index.downloads() and time.monotonic() < deadline:
            time.sleep(0.01)
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 4, err
    assert err.endswith(
        f"error: uv was ended by SIGKILL\n{again.stack.venv} is as it was\n\n"
        "hint: run it again; if it was SIGKILL and stays so, memory ran out (`dmesg` names who was killed)\n"
    )
    assert again.venv() == again.old
    again.settled()


@pytest.mark.parametrize("command", [RESTORE, REPAIR, ROLLBACK], ids=lambda command: command[0])
def test_ctrl_c_at_any_moment(scene: Scene, tmp_path: Path, command: tuple[str, ...]) -> None:
    whole = scene.again(tmp_path / "whole")
    # A process of its own, as those below are: a fork of the tests' server ends before they have begun.
    began = time.monotonic()
    first = _start(whole, *command)
    err = first.communicate(timeout=60)[1]
    assert first.returncode == 0, err
    seconds = time.monotonic() - began
    new = whole.venv()
    for at in range(1, 5):
        again = scene.again(tmp_path / str(at))
        process = _start(again, *command)
        # Wherever this falls on this machine: what must hold, holds everywhere.
        time.sleep(seconds * (0.3 + 0.15 * at))
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
        assert process.returncode in (0, 130), err
        assert "Traceback" not in err
        assert again.venv() in (scene.old, new)
        assert again.stack.run(*PRUNE).code == 0
        assert scene.old in again.everywhere()
        assert again.others() == scene.mine
        again.settled()
