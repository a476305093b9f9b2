"""Runs on a node and imports nothing of this program: unpacks the tool, does the tasks that were asked for, tidies up.

Its text travels in front of the archive on standard input (`rollout/payload.py`); sys.argv has the mark of its answer
and the request as JSON: {"name", "scratch", "machine", "tasks"}. The folder has the same name each time, so that a plan
that names the profile in it is the same plan the next time. The answer is {"tasks"}, what each task said that was
begun, or {"problem"} where none was.
"""

import fcntl
import json
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import zlib
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

_MARK = "envdoctor-node"
_OUT = 2 << 20
"""Bytes that are kept of what the tasks say."""
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from envdoctor.cli.on_node import main; main()"
_FILES = "{files}/"
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|KEY|AUTH", re.IGNORECASE)
_SHORTEST_SECRET = 6
_STEP_SECONDS = 0.5
_TRIES = 5


class _OtherwiseError(Exception):
    """Why nothing was begun here."""


class _Stops:
    """What asks this program to stop. The tasks are asked once: they tidy up, and a second signal would break that."""

    def __init__(self) -> None:
        """Answer the signals from now on; what nohup ignores stays ignored."""
        self.held = True
        """Whether a signal is noted only: there is nothing to tidy up yet, or this program is at it."""
        self._came = False
        self._tasks: subprocess.Popen[bytes] | None = None
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._answer)

    def hand_on_to(self, tasks: "subprocess.Popen[bytes]") -> None:
        """Ask these to stop from now on, and at once where a signal came already."""
        self._tasks = tasks
        if self._came:
            tasks.terminate()

    def stop(self) -> None:
        """Ask the tasks to stop, once."""
        if self._came:
            return
        self._came = True
        if self._tasks is not None:
            self._tasks.terminate()
        elif not self.held:
            raise _OtherwiseError("it was asked to stop")

    def release(self) -> None:
        """Have a signal raise _OtherwiseError from now on, until `held` again; raise it where one came already."""
        self.held = False
        if self._came:
            raise _OtherwiseError("it was asked to stop")

    def _answer(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.stop()


def visit(request: dict[str, Any], source: BinaryIO, stops: _Stops) -> dict[str, Any]:
    """Do the tasks one after the other, up to the first that does not end well; return what each of them said."""
    machine = os.uname().machine
    if machine != request["machine"]:
        raise _OtherwiseError(f"this node is {machine}, and the tool that came is for {request['machine']}")
    folder = f"{request['scratch']}/envdoctor-fleet-{os.geteuid()}-{request['name']}"
    lock = _own_folder(folder)
    try:
        stops.release()
        _unpack(source, folder)
        stops.held = True
        return {"tasks": _do(_with_paths(request["tasks"], f"{folder}/files/"), f"{folder}/tool", lock, stops)}
    finally:
        stops.held = True
        _tidy(folder)
        os.close(lock)


def _with_paths(value: Any, files: str) -> Any:
    """Return the tasks with the folder of what travelled where a value begins with `{files}/`."""
    if isinstance(value, dict):
        return {key: _with_paths(item, files) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_paths(item, files) for item in value]
    return files + value[len(_FILES) :] if isinstance(value, str) and value.startswith(_FILES) else value


def _tidy(folder: str) -> None:
    """Remove the folder, its lock last: until then no other visit unpacks there."""
    for name in ("tool", "files"):
        shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
    with suppress(OSError):
        Path(folder, "lock").unlink()
        Path(folder).rmdir()  # fails where another visit has just locked it, whose it is then


def _own_folder(folder: str) -> int:
    """Make a folder that nobody else can write, empty it, and return the descriptor of its lock."""
    for _ in range(_TRIES):
        try:
            lock = _open_lock(folder)
        except FileNotFoundError as error:
            if not Path(folder).parent.is_dir():
                raise _OtherwiseError(_no_room(folder, "made", error)) from error
            continue  # another one has just tidied up
        except OSError as error:
            raise _OtherwiseError(_no_room(folder, "made", error)) from error
        if _is_locked(folder, lock):
            for name in ("tool", "files"):
                shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
            return lock
        os.close(lock)
    raise _OtherwiseError(f"{folder} is removed again and again")


def _open_lock(folder: str) -> int:
    with suppress(FileExistsError):
        Path(folder).mkdir(0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise _OtherwiseError(
            f"{folder} is not a folder of this user alone; remove it, or name another: `--scratch FOLDER`"
        )
    return os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _is_locked(folder: str, lock: int) -> bool:
    """Lock it; tell whether it is still the folder's. Another visit may have tidied up meanwhile."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(lock).st_ino == Path(folder, "lock").stat().st_ino
    except BlockingIOError:
        raise _OtherwiseError("another fleet command is at work on this node") from None
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _OtherwiseError(_no_room(folder, "locked", error)) from error


def _no_room(folder: str, what: str, error: OSError) -> str:
    return f"{folder} cannot be {what}: {error.strerror or error}; `--scratch FOLDER` names another"


def _unpack(source: BinaryIO, folder: str) -> None:
    try:
        with tarfile.open(fileobj=source, mode="r|gz") as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(folder)  # noqa: S202 - this program packed it, and the filter holds it inside
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise _OtherwiseError(f"what was sent did not arrive whole: {error}") from error
    except OSError as error:
        raise _OtherwiseError(_no_room(folder, "filled", error)) from error


def _do(tasks: Any, tool: str, lock: int, stops: _Stops) -> list[Any]:
    """Start the tasks and return what they said; they are asked to stop when nobody listens to this node any more."""
    told = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ENVDOCTOR_"))}
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-Xutf8=1", "-c", _START, tool, json.dumps(tasks)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=told,
        pass_fds=(lock,),  # where this program is killed, the folder is theirs until they end
    )
    stops.hand_on_to(process)
    streams = {name: bytearray() for name in ("stdout", "stderr")}
    threads = [threading.Thread(target=_keep, args=(getattr(process, name), kept)) for name, kept in streams.items()]
    for thread in threads:
        thread.start()
    listener = select.poll()
    listener.register(1, 0)
    while process.poll() is None:
        if listener.poll(0):
            stops.stop()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STEP_SECONDS)
    for thread in threads:
        thread.join()
    return _said(bytes(streams["stdout"]), bytes(streams["stderr"]), process.returncode, len(tasks))


def _said(out: bytes, err: bytes, code: int, tasks: int) -> list[Any]:
    """Return what each task said that was begun, a line each; of one that died without a word, how."""
    said: list[Any] = []
    for line in out.splitlines():
        try:
            said.append(json.loads(line))
        except ValueError:
            break
    if not code and said and (len(said) == tasks or said[-1].get("code")):
        return said
    last = _last_line(err)
    return [
        *said,
        {"code": code or 1, "problem": f"it ended with {code}" + (f": {last}" if last else ""), "died": True},
    ]


def _last_line(err: bytes) -> str:
    """Return the last line of its errors without what the variables of this node hold as secrets."""
    said = (err.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET:
            said = said.replace(value, "***")
    return said[:500]


def _keep(stream: BinaryIO, kept: bytearray) -> None:
    with stream:
        while chunk := stream.read1(1 << 16):  # type: ignore[attr-defined]
            kept += chunk
            del kept[:-_OUT]


def main() -> None:
    """Print one answer."""
    try:
        stops = _Stops()
        mark, request = sys.argv[1:]
        told = visit(json.loads(request), sys.stdin.buffer, stops)
    except _OtherwiseError as error:
        told = {"problem": str(error)}
    text = json.dumps(told)
    sys.stdout.write(f"\n{_MARK} {mark} {len(text.encode())}\n{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
