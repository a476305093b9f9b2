"""What surrounds a command breaks: streams, variables, folders, clocks, users. The venv is the old one or the new one.

After each fault: the venv is one of the two, byte for byte; every former venv is still there; nothing of the user's is
touched; the message has no traceback; the next command goes on.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from tests.factories.make_scene import Scene, make_scene, state
from tests.factories.make_stack import make_stack
from tests.factories.small_disk import small_disk

RESTORE = ("restore", "--profile", "small", "--venv", "venv", "--yes")
REPAIR = ("repair", "--profile", "small", "--venv", "venv", "--yes")
ROLLBACK = ("rollback", "--venv", "venv", "--yes")
PRUNE = ("prune", "--keep", "0", "--venv", "venv", "--yes")
LOOK = ("prune", "--keep", "99", "--venv", "venv", "--yes")
COMMANDS = (RESTORE, REPAIR, ROLLBACK, PRUNE)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return make_scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture
def work(scene: Scene, tmp_path: Path) -> Scene:
    return scene.again(tmp_path / "work")


def _start(
    scene: Scene, *command: str, extra: Mapping[str, str] | None = None, **more: object
) -> "subprocess.Popen[str]":
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    environ = {name: value for name, value in (scene.stack.environment | dict(extra or {})).items() if value != "UNSET"}
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        scene.stack.command(*command), cwd=scene.folder, env=environ, text=True, **streams
    )


def _whole(scene: Scene, *, pruned: bool = False) -> None:
    """Fail unless nothing is lost, nothing is under way, and the next command works."""
    there = scene.everywhere()
    assert scene.old in there
    assert pruned or scene.kept in there
    assert scene.others() == scene.mine
    look = scene.stack.run(*LOOK)
    assert look.code == 0, look.err
    scene.settled()
    answer = scene.stack.run(*RESTORE)
    assert answer.code == 0, answer.err
    assert scene.old in scene.everywhere()


def _once(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    while not condition():
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.002)


def _building(scene: Scene) -> Callable[[], bool]:
    builds = scene.stack.store / "builds"
    return lambda: builds.is_dir() and any((path / "bin" / "python").exists() for path in builds.iterdir())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_reader_that_left(work: Scene, command: tuple[str, ...]) -> None:
    """Nobody reads stdout and stderr any more (a pager that was closed, a dropped connection): EPIPE on both."""
    reading, writing = os.pipe()
    os.close(reading)
    with _start(work, *command, stdout=writing, stderr=writing) as process:
        os.close(writing)
        process.wait(timeout=120)
    assert process.returncode == 0, "it was told not to ask, so it does what was asked"
    _whole(work, pruned=command is PRUNE)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_closed_streams(work: Scene, command: tuple[str, ...]) -> None:
    """As a cron job or a service may start it: descriptors 0, 1 and 2 are closed."""
    line = " ".join(work.stack.command(*command))
    done = subprocess.run(
        ["sh", "-c", f"exec {line} <&- >&- 2>&-"], cwd=work.folder, env=work.stack.environment, check=False
    )
    assert done.returncode in (0, 2, 4), done.returncode
    _whole(work, pruned=command is PRUNE)


def test_nohup_without_a_terminal(work: Scene) -> None:
    """The terminal is closed under it: SIGHUP is ignored, and so it must go on to its end."""
    with _start(work, *RESTORE, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
        _once(_building(work), process)
        process.send_signal(signal.SIGHUP)
        err = process.communicate(timeout=120)[1]
    assert process.returncode == 0, err
    _whole(work)


@pytest.mark.parametrize("command", [RESTORE, REPAIR], ids=lambda command: command[0])
def test_stopped_and_continued(work: Scene, command: tuple[str, ...]) -> None:
    """Ctrl-Z in the middle, a second command meanwhile, then `fg`."""
    with _start(work, *command) as process:
        _once(_building(work), process)
        process.send_signal(signal.SIGSTOP)
        refused = work.stack.run(*ROLLBACK)
        assert refused.code == 4
        assert f"another envdoctor (process {process.pid}) is changing FOLDER/venv" in refused.err
        process.send_signal(signal.SIGCONT)
        err = process.communicate(timeout=120)[1]
    assert process.returncode == 0, err
    _whole(work)


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"HOME": "UNSET"}, 0),
        ({"HOME": "/proc/nowhere/at/all"}, 0),
        ({"TMPDIR": "/proc/nowhere/at/all"}, 0),
        ({"PATH": "UNSET"}, 0),
        ({"PATH": ""}, 0),
        ({"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, 0),
        ({"XDG_CACHE_HOME": "/proc/nowhere", "XDG_CONFIG_HOME": "/proc/nowhere"}, 0),
        ({"PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere"}, None),
        ({"COLUMNS": "-7", "TERM": "no-such-terminal", "FORCE_COLOR": "1"}, 0),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_odd_variables(work: Scene, variables: dict[str, str], code: int | None) -> None:
    with _start(work, *RESTORE, extra=variables) as process:
        err = process.communicate(timeout=120)[1]
    assert code is None or process.returncode == code, err
    assert "Traceback" not in err or code is None
    _whole(work)


def test_a_temporary_folder_from_which_nothing_may_be_run(work: Scene, tmp_path: Path) -> None:
    try:
        with small_disk(tmp_path / "noexec") as disk:
            subprocess.run(["mount", "-o", "remount,noexec", disk], check=True)
            with _start(work, *RESTORE, extra={"TMPDIR": str(disk)}) as process:
                err = process.communicate(timeout=120)[1]
    except OSError as error:
        pytest.skip(str(error))
    assert process.returncode == 0, err
    _whole(work)


def test_virtual_env_names_a_folder_that_is_gone(work: Scene) -> None:
    gone = work.folder / "deleted"
    answer = work.stack.run("rollback", "--yes", extra={"VIRTUAL_ENV": str(gone)})
    assert (answer.code, answer.out) == (2, "")
    assert "no backup of FOLDER/deleted is kept" in answer.err
    made = work.stack.run("restore", "--profile", "small", "--yes", extra={"VIRTUAL_ENV": str(gone)})
    assert (made.code, made.out.splitlines()[0].startswith("restored FOLDER/deleted")) == (0, True)
    shutil.rmtree(gone)
    shutil.rmtree(work.folder / ".envdoctor" / "deleted")
    _whole(work)


def test_the_shell_stands_in_the_venv(work: Scene) -> None:
    """Its folder is moved away under it: every command by an absolute path still works from there."""
    venv = str(work.stack.venv)
    profile = str(work.folder / "profiles" / "small.toml")
    for command in (
        ("restore", "--profile", profile, "--venv", venv, "--yes"),
        ("rollback", "--venv", venv, "--yes"),
        ("prune", "--keep", "99", "--venv", venv, "--yes"),
    ):
        done = subprocess.run(
            work.stack.command(*command),
            cwd=venv + "/lib",
            env=work.stack.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    _whole(work)


@pytest.mark.parametrize(
    "command",
    [("restore", "--profile", "small", "--yes"), ("repair", "--yes"), ("check",), ("check", "--color", "never")],
    ids=["restore", "repair", "check", "check by typer"],
)
def test_started_in_a_folder_that_was_deleted(work: Scene, tmp_path: Path, command: tuple[str, ...]) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = " ".join(work.stack.command(*command, "--venv", str(work.stack.venv)))
    done = subprocess.run(
        ["sh", "-c", f"cd {gone} && rmdir {gone} && exec {line}"],
        env=work.stack.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "error: the folder that this command was started in does not exist any more\n\n"
        "hint: change to one that does: `cd`\n",
    )
    assert work.venv() == work.old
    _whole(work)


def _while_building(scene: Scene, command: Sequence[str], change: Callable[[], object]) -> tuple[int, str]:
    """Run a command and change something as soon as its copy has an interpreter; return its code and stderr."""
    ready = _building(scene)
    with _start(scene, *command) as process:

        def wait() -> None:
            while not ready() and process.poll() is None:
                time.sleep(0.002)
            change()

        thread = threading.Thread(target=wait)
        thread.start()
        err = process.communicate(timeout=120)[1]
        thread.join()
    assert "Traceback" not in err
    return process.returncode, err


def test_the_lock_is_edited_meanwhile(work: Scene) -> None:
    """What was shown is what is done: the lock that the plan was made of, and its hash in the note."""
    lock = work.folder / "lockfiles" / "small.txt"
    before = lock.read_text()
    code, err = _while_building(work, RESTORE, lambda: lock.write_text(before + "# edited\n"))
    assert code == 0, err
    note = (work.stack.venv / "envdoctor-restore.json").read_text()
    assert sha256(before.encode()).hexdigest() in note
    lock.write_text(before)
    _whole(work)


def test_uvs_cache_is_removed_meanwhile(work: Scene) -> None:
    cache = Path(work.stack.environment["UV_CACHE_DIR"])
    kept = cache.with_name("kept-cache")
    shutil.copytree(cache, kept, symlinks=True)
    try:
        code, err = _while_building(work, RESTORE, lambda: shutil.rmtree(cache, ignore_errors=True))
        assert code in (0, 4), err
        assert code == 0 or work.venv() == work.old
    finally:
        shutil.rmtree(cache, ignore_errors=True)
        kept.rename(cache)
    _whole(work)


@pytest.mark.parametrize("command", [RESTORE, REPAIR], ids=lambda command: command[0])
def test_the_build_is_removed_meanwhile(work: Scene, command: tuple[str, ...]) -> None:
    """Somebody tidies up the hidden folder while it is being filled."""
    builds = work.stack.store / "builds"
    code, err = _while_building(work, command, lambda: shutil.rmtree(builds, ignore_errors=True))
    assert code in (0, 4), err
    assert code == 0 or work.venv() == work.old
    _whole(work)


def test_the_venv_is_deleted_meanwhile(work: Scene) -> None:
    """The new one takes the place that is empty by then; what was deleted, a person deleted."""
    code, err = _while_building(work, RESTORE, lambda: shutil.rmtree(work.stack.venv))
    assert code == 0, err
    assert (work.stack.venv / "bin" / "python").exists()
    assert work.kept in work.everywhere()
    assert work.others() == work.mine
    work.settled()


def test_the_clock_jumps(work: Scene) -> None:
    """Generations are numbered, not dated: a clock that goes back a century changes nothing."""
    for day in ("1971-01-01", "2099-12-31", "1971-01-01"):
        script = (
            "import datetime as d, runpy, sys\n"
            "class Jumped(d.datetime):\n    @classmethod\n    def now(cls, tz=None):\n"
            f"        return cls.fromisoformat('{day}T00:00:00+00:00')\n"
            "d.datetime = Jumped\nfrom envdoctor.__main__ import main\nmain()\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, *RESTORE, "--force"],
            cwd=work.folder,
            env=work.stack.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (work.stack.store / "generations").iterdir()) == [
        "0001",
        "0002",
        "0003",
        "0004",
    ]
    _whole(work)


def test_a_store_on_another_file_system(work: Scene) -> None:
    """Somebody linked the hidden folder's place to a larger disk: nothing could be swapped from there."""
    try:
        with small_disk(work.folder / "disk") as disk:
            store = work.folder / ".envdoctor"
            shutil.copytree(store, disk / "store", symlinks=True)
            store.rename(work.folder / "aside")
            store.mkdir()
            subprocess.run(["mount", "--bind", disk / "store", store], check=True)
            answer = work.stack.run(*RESTORE)
            subprocess.run(["umount", store], check=True)
            store.rmdir()
            (work.folder / "aside").rename(store)
    except OSError as error:
        pytest.skip(str(error))
    assert answer.code == 4
    assert "is on another file system than FOLDER/venv, so nothing can be swapped between them" in answer.err
    assert work.venv() == work.old
    (work.folder / "disk").rmdir()
    _whole(work)


@pytest.mark.parametrize("command", [RESTORE, ROLLBACK, PRUNE], ids=lambda command: command[0])
def test_another_users_store(work: Scene, command: tuple[str, ...]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(work.stack.store, 12345, 12345)
    answer = work.stack.run(*command)
    os.chown(work.stack.store, 0, 0)
    assert (answer.code, "belongs to another user, so nothing in it is touched" in answer.err) == (4, True)
    assert work.venv() == work.old
    _whole(work)


@pytest.mark.parametrize(
    "name",
    ["with space", "ünïcödé-环境", "line\nfeed", "-dash", "quote'\"$x`y`", "a" * 200, "percent%20name"],
    ids=ascii,
)
def test_any_name_of_a_venv(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    stack = make_stack(folder)
    venv = str(folder / name)
    first = stack.run("restore", "--profile", "small", f"--venv={venv}", "--yes")
    assert first.code == 0, first.err
    before = state(Path(venv))
    for command in (
        ("restore", "--profile", "small", "--force"),
        ("rollback",),
        ("repair", "--profile", "small"),
        ("prune", "--keep", "0"),
    ):
        answer = stack.run(*command, f"--venv={venv}", "--yes")
        assert answer.code == 0, answer.err
    assert state(Path(venv)) == before
    done = subprocess.run(
        [f"{venv}/bin/python", "-c", "import torch; print(torch.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2.13.0+cpu\n"


def test_a_path_as_long_as_a_path_may_be(tmp_path: Path) -> None:
    """The store's own path is longer than the venv's: what does not fit any more is said, and changes nothing."""
    folder = tmp_path / "project"
    folder.mkdir()
    stack = make_stack(folder)
    deep = folder
    while len(str(deep)) < 3900:
        deep = deep / ("d" * 100)
    os.makedirs(deep)  # noqa: PTH103
    answer = stack.run("restore", "--profile", "small", "--venv", str(deep / "venv"), "--yes")
    assert answer.code in (0, 4), answer.err
    assert "Traceback" not in answer.err
    assert answer.code == 0 or not (deep / "venv").exists()
