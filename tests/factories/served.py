"""The command line as a process of its own, without the start of another Python for each.

A server has the program imported and forks for every run: a process with arguments, variables, folder and streams of
its own, which can be killed like any other. What an interpreter reads at its start (PYTHON..., LD_...) needs a start of
its own; so do tests about the start itself, about terminals and about signals. Those start Python: COMMAND of
run_envdoctor.
"""

import atexit
import functools
import io
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_SERVER = Path(__file__).with_name("server.py")
_OF_A_START = ("PYTHON", "LD_", "GLIBC_", "MALLOC_")
# What the factories set for the start of a Python, and a server has.
_USUAL = {"PYTHONUTF8", "PYTHONPYCACHEPREFIX"}


def can_serve(environment: Mapping[str, str], own_path: str = "") -> bool:
    """Tell whether no variable means something to a process that starts; own_path: the PYTHONPATH that is usual."""
    told = {name for name in environment if name.startswith(_OF_A_START)} - _USUAL
    return not told or (told == {"PYTHONPATH"} and environment["PYTHONPATH"] == own_path)


def serve(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    watch: Mapping[str, object] | None = None,
    seconds: int = 0,
) -> tuple[int, str, str]:
    """Run `envdoctor` with these arguments, nothing on stdin; return exit code (negative: a signal), stdout, stderr.

    watch: arguments of `tests.factories.killed.watch`, for a process that is killed before one of its changes.
    seconds: when SIGALRM ends it; 0 for never.
    """
    request = {"arguments": list(arguments), "environment": dict(environment), "folder": str(folder), "watch": watch}
    request["seconds"] = seconds
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        connection.connect(_address())
        socket.send_fds(connection, [b"."], [out.fileno(), err.fileno()])
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(socket.SHUT_WR)
        status = connection.recv(16)
        assert status, f"the server of the command line ended: envdoctor {arguments}"
        return int(status), _text(out), _text(err)


@functools.cache
def _address() -> str:
    folder = tempfile.TemporaryDirectory(prefix="served-", ignore_cleanup_errors=True)
    address = f"{folder.name}/socket"
    # As `isolate` would start it: what the variables of a test say is of no account to this interpreter.
    process = subprocess.Popen(
        [sys.executable, "-I", "-Xutf8=1", _SERVER, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    atexit.register(_end, process)
    _KEPT.append(folder)
    return address


_KEPT: list["tempfile.TemporaryDirectory[str]"] = []


def _end(process: "subprocess.Popen[bytes]") -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait(60)


def _text(stream: "tempfile._TemporaryFileWrapper[bytes]") -> str:  # type: ignore[name-defined]
    stream.seek(0)
    return io.TextIOWrapper(io.BytesIO(stream.read()), encoding="utf-8", errors="surrogateescape").read()
