"""A stop that comes where Python drops the exception that answers it: the command stops, and says what the venv is."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.factories.make_scene import Scene, make_scene, workers

_PROGRAM = Path(__file__).parents[1] / "factories" / "stopped.py"
_COMMANDS = {
    "restore": ("restore", "--profile", "small", "--venv", "venv", "--yes"),
    "repair": ("repair", "--profile", "small", "--venv", "venv", "--yes"),
    "fix": ("check", "--fix", "--profile", "small", "--venv", "venv", "--yes"),
    "rollback": ("rollback", "--venv", "venv", "--yes"),
    "try": ("try", "--venv", "venv", "--yes", "--", "uv", "pip", "uninstall", "plain"),
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("scene"))


def _run(scene: Scene, folder: Path, command: str, *point: object) -> tuple[Scene, int, str, int]:
    """Run a command in a copy of the scene; return the copy, the exit code, stderr and how many points there were."""
    again = scene.again(folder / "work")
    events = folder / "events"
    how, number, at = point
    done = subprocess.run(
        [sys.executable, str(_PROGRAM), str(how), str(number), str(at), str(events), *_COMMANDS[command]],
        cwd=again.folder,
        env=again.stack.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        # A shell that runs the tests in the background hands SIGINT on as ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    return again, done.returncode, done.stderr, len(events.read_text().splitlines())


@pytest.mark.parametrize(("command", "how", "step"), [
    ("restore", "fork", 1), ("repair", "fork", 1), ("fix", "fork", 2), ("try", "fork", 2), ("restore", "del", 2),
    ("rollback", "del", 1), ("repair", "del", 16),
])  # fmt: skip
def test_no_stop_is_lost(scene: Scene, tmp_path: Path, command: str, how: str, step: int) -> None:
    for name in ("whole", *(str(number) for number in range(1, 200))):
        (tmp_path / name).mkdir()
    whole, code, err, points = _run(scene, tmp_path / "whole", command, how, int(signal.SIGINT), 0)
    assert code == 0, err
    new, last = whole.venv(), err

    def stop(at: int) -> None:
        number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[at % 3]
        again, code, err, _ = _run(scene, tmp_path / str(at), command, how, int(number), at)
        assert "Traceback" not in err
        assert "Exception ignored" not in err
        # Before the swap it is as it was, after it the new one: and that is what the command says.
        state = {str(scene.old): "is as it was", str(new): "holds "}[str(again.venv())]
        assert (code, err.count(state)) == (130, 1), err
        assert scene.old in again.everywhere()
        assert again.others() == scene.mine
        again.settled()

    assert points, last
    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(stop, range(1, points + 1, step)))
