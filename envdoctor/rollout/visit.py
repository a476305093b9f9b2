"""Runs on a node and imports nothing of this program: unpacks the tool, does the tasks that were asked for, tidies up.

Its text travels in front of the archive on standard input (`rollout/payload.py`); sys.argv has the mark of its answer
and the request as JSON: {"name", "scratch", "machine", "tasks"}. The folder has the same name each time, so that a plan
that names the profile in it is the same plan the next time.
"""

import fcntl
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import zlib
from pathlib import Path
from typing import Any, BinaryIO

_MARK = "envdoctor-node"
_OUT = 2 << 20
"""Bytes that are kept of what the tasks say."""
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from envdoctor.cli.on_node import main; main()"
_STEP_SECONDS = 0.5
_TRIES = 5


class _OtherwiseError(Exception):
    """Why nothing was done here."""


def visit(request: dict[str, Any], source: BinaryIO) -> dict[str, Any]:
    """Do the tasks one after the other, up to the first that does not end well; return what each of them said."""
    machine = os.uname().machine
    if machine != request["machine"]:
        raise _OtherwiseError(f"this node is {machine}, and the tool that came is for {request['machine']}")
    folder = f"{request['scratch']}/envdoctor-fleet-{os.geteuid()}-{request['name']}"
    lock = _own_folder(folder)
    try:
        _unpack(source, folder)
        tasks = json.dumps(request["tasks"]).replace("{files}", f"{folder}/files")
        return {"tasks": _do(tasks, f"{folder}/tool")}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _own_folder(folder: str) -> int:
    """Make a folder that nobody else can write, empty it, and return the descriptor of its lock."""
    for _ in range(_TRIES):
        try:
            Path(folder).mkdir(0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise _OtherwiseError(
                f"{folder} cannot be made: {error.strerror}; `--scratch FOLDER` names another"
            ) from error
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise _OtherwiseError(
                f"{folder} is not a folder of this user alone; remove it, or name another: `--scratch FOLDER`"
            )
        try:
            lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_ino == Path(folder, "lock").stat().st_ino:
                for name in ("tool", "files"):
                    shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
                return lock
        except BlockingIOError:
            raise _OtherwiseError("another fleet command is at work on this node") from None
        except FileNotFoundError:
            continue  # another one has just tidied up
    raise _OtherwiseError(f"{folder} is removed again and again")


def _unpack(source: BinaryIO, folder: str) -> None:
    try:
        with tarfile.open(fileobj=source, mode="r|gz") as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(folder)  # noqa: S202 - this program packed it, and the filter holds it inside
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise _OtherwiseError(f"what was sent did not arrive whole: {error}") from error
    except OSError as error:
        raise _OtherwiseError(
            f"{folder} cannot be filled: {error.strerror or error}; `--scratch FOLDER` names another"
        ) from error


def _do(tasks: str, tool: str) -> Any:
    """Start the tasks and return what they said; they are asked to stop when nobody listens to this node any more."""
    told = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ENVDOCTOR_"))}
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-Xutf8=1", "-c", _START, tool, tasks],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=told,
    )
    streams = {name: bytearray() for name in ("stdout", "stderr")}
    threads = [threading.Thread(target=_keep, args=(getattr(process, name), kept)) for name, kept in streams.items()]
    for thread in threads:
        thread.start()
    before = {
        number: signal.signal(number, lambda *_: process.terminate()) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    listener = select.poll()
    listener.register(1, 0)
    while process.poll() is None:
        if listener.poll(0):
            process.terminate()
        try:
            process.wait(_STEP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    for thread in threads:
        thread.join()
    for number, handler in before.items():
        signal.signal(number, handler)
    try:
        return json.loads(streams["stdout"])
    except ValueError:
        said = streams["stderr"].decode("utf-8", "replace").strip().splitlines()
        problem = f"it ended with {process.returncode}: {(said or [''])[-1][:500]}"
        return [{"code": process.returncode or 1, "problem": problem}]


def _keep(stream: BinaryIO, kept: bytearray) -> None:
    with stream:
        while chunk := stream.read1(1 << 16):  # type: ignore[attr-defined]
            kept += chunk
            del kept[:-_OUT]


def main() -> None:
    """Print one answer."""
    mark, request = sys.argv[1:]
    try:
        told = visit(json.loads(request), sys.stdin.buffer)
    except _OtherwiseError as error:
        told = {"problem": str(error)}
    text = json.dumps(told)
    sys.stdout.write(f"\n{_MARK} {mark} {len(text.encode())}\n{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
