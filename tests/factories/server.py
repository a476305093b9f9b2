"""The process that `served` asks: it has the program imported, and becomes it once for every request.

Ends with its stdin. Each request is answered by a process that forks the command and waits for it, so that several run
at the same time.
"""

import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[2]))


def main() -> None:
    """Import, then fork for each connection until stdin is closed."""
    program = _imported()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        os.write(1, b"ready\n")
        while True:
            readable, _, _ = select.select([listener, 0], [], [])
            if 0 in readable:
                return
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _answer(connection, program)
            _reap()


def _reap() -> None:
    """Take note of the children that have ended, so that their time is counted as ours."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _imported() -> Any:
    from envdoctor.checks import registry  # noqa: PLC0415 - the path is set above
    from envdoctor.cli import commands  # noqa: PLC0415

    registry.all_checks()
    for name in ("cli.app", "cli.direct", "stack.examination", "wheels.http"):
        importlib.import_module(f"envdoctor.{name}")
    for module in pkgutil.iter_modules(commands.__path__):
        importlib.import_module(f"envdoctor.cli.commands.{module.name}")
    return importlib.import_module("envdoctor.__main__")


def _answer(connection: socket.socket, program: Any) -> NoReturn:
    _, streams, _, _ = socket.recv_fds(connection, 1, 2)
    text = b""
    while part := connection.recv(1 << 16):
        text += part
    child = os.fork()
    if child == 0:
        connection.close()
        _become(json.loads(text), streams, program)
    _, status = os.waitpid(child, 0)
    connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(request: dict[str, Any], streams: list[int], program: Any) -> NoReturn:
    try:
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        tempfile.tempdir = None
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, stream in enumerate((nothing, *streams)):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin = os.fdopen(0, encoding="utf-8", errors="surrogateescape")
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="surrogateescape")
        sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        sys.argv = ["-c", *request["arguments"]]
        sys.orig_argv = [sys.executable, *sys.argv]
        if request["watch"] is not None:
            from tests.factories.killed import watch  # noqa: PLC0415 - as above

            watch(**request["watch"])
        signal.alarm(request["seconds"])
        program.main()
    except BaseException:  # noqa: BLE001 - whatever it is, the test is told
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(99)


if __name__ == "__main__":
    main()
