"""Workers of the trainer that are forked: torch and transformers are imported once for all of them.

An import of both takes a worker longer than most of the runs here. Tests about how a worker starts, or what is in its
environment, start it as the launcher does: `python -m trainer`.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import transformers

import trainer.train  # noqa: F401 - what every worker needs
from trainer import __main__, writing
from trainer.runtime import launch

# Imported when it is first asked for: the toy target is one.
assert transformers.Qwen3ForCausalLM


class Worker:
    """A worker as the launcher asks it: it has no import of its own, and is forked."""

    def __init__(self, command: Sequence[str], *, env: dict[str, str], start_new_session: bool) -> None:
        """Fork; the child is `python -m trainer` with these flags and variables."""
        assert list(command[:3]) == [sys.executable, "-m", "trainer"]
        assert start_new_session
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _become(command[3:], env)

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._ended(os.WNOHANG)

    def wait(self) -> int | None:
        """Return the exit code once it has ended."""
        return self._ended(0)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, how: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, how)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def _become(flags: Sequence[str], environment: dict[str, str]) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[1:] = flags
    code = 99
    try:
        writing.leave(lambda argv: __main__._end(__main__.main(argv)))
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - as Python says it at the end of a process
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    finally:
        # Not past the launcher's own frames.
        sys.stderr.flush()
        os._exit(code)


def launcher() -> None:
    """Have the launcher of this process fork its workers."""
    launch.subprocess = SimpleNamespace(Popen=Worker)  # type: ignore[assignment]


def ranks(world: int, folder: Path) -> int:
    """Fork so many workers of a launcher, and return the rank in each of them; each writes its stderr to a file.

    The process that forks returns from nothing: it waits, writes their exit codes to `codes.json`, and ends.
    """
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            with (folder / f"stderr-{rank}").open("wb") as said:
                os.dup2(said.fileno(), 2)
            os.environ.update({
                "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
                "RANK": str(rank), "LOCAL_RANK": str(rank),
            })  # fmt: skip
            return rank
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    (folder / "codes.json").write_text(json.dumps(codes))
    os._exit(0)


if __name__ == "__main__":
    launcher()
    writing.leave(lambda argv: __main__._end(__main__.main(argv)))
