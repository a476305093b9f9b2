"""Starts one process a worker on this host and ends them together; torchrun does the same over many hosts.

The launcher itself never imports torch.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from types import FrameType

from trainer.errors import ConfigError, WorkerFailedError
from trainer.runtime.shutdown import SIGNALS, Interrupted, StopRequest
from trainer.settings.arguments import Arguments
from trainer.settings.config import TrainConfig
from trainer.writing import say

PARENT = "DFLASH_LAUNCHER_PID"
GRACE = 20.0
"""Seconds the others get to end by themselves once one worker has failed, or a second signal has come."""
_QUIET_SECONDS = 2.0


def under_launcher() -> bool:
    """Return whether a launcher (this one or torchrun) has given this process a rank."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def require_one_process(config: TrainConfig) -> None:
    """Raise ConfigError when a launcher has started several processes of a runtime that is one process."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if under_launcher() and world > 1 and not config.launched:
        raise ConfigError(
            f"topology.runtime: {config.runtime} is one process, and a launcher has started {world} (WORLD_SIZE)",
            "start it without the launcher, or with --runtime processes or data-parallel",
        )


def orphaned() -> bool:
    """Return whether the launcher that started this process is gone."""
    parent = os.environ.get(PARENT)
    return parent is not None and os.getppid() != int(parent)


def launch(arguments: Arguments, stop: StopRequest) -> int:
    """Run the same command in one process a worker; returns 0, or the exit code of the first that failed.

    SIGTERM and Ctrl-C are passed on, so that the workers save before they end; raises Interrupted for one that comes
    before all of them are there.
    """
    world = arguments.config.workers
    held = _held_port()
    environment = {
        **os.environ, "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(held.getsockname()[1]), PARENT: str(os.getpid()),
    }  # fmt: skip
    command = [sys.executable, "-m", "trainer", *arguments.argv, "--output", str(arguments.output)]
    workers: list[subprocess.Popen[bytes]] = []
    asked: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        asked.append(number)
        for worker in workers:
            if worker.poll() is None:
                worker.send_signal(number)

    # Before the first worker is there: none of them may outlive us.
    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        for rank in range(world):
            # A session of their own: a terminal's Ctrl-C then reaches the workers once, through us. A worker takes
            # the signals once it can answer them, see StopRequest.listen.
            here = {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            try:
                workers.append(subprocess.Popen(command, env=here, start_new_session=True))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            if asked:
                stop.signal = asked[0]
                raise Interrupted
        code = _wait(workers, asked, quiet=arguments.quiet)
        _require_none_killed(workers, code)
        return code
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
        held.close()


def _wait(workers: list[subprocess.Popen[bytes]], asked: list[int], *, quiet: bool) -> int:
    code = 0
    failed_at = asked_at = None
    told = False
    while True:
        codes = [worker.poll() for worker in workers]
        bad = [found for found in codes if found]
        left = ", ".join(str(rank) for rank, found in enumerate(codes) if found is None)
        now = time.monotonic()
        if failed_at is None and (bad or len(asked) > 1):
            # A worker that a signal killed has a negative code; shells report 128 + the signal.
            code, failed_at, told = (bad[0] if bad else 128 + asked[1]), now, False
            code = code if code >= 0 else 128 - code
        if asked and asked_at is None:
            asked_at = now
        if not left or (failed_at is not None and now - failed_at > GRACE):
            # The worker whose files cannot be written ends with 2; those that lose it may be seen first, with 1.
            return 2 if 2 in codes else code
        since = failed_at if failed_at is not None else asked_at
        if since is not None and now - since > _QUIET_SECONDS and not told:
            told = True
            if not quiet:
                say(_waiting(left, failed=failed_at is not None))
        time.sleep(0.05)


def _require_none_killed(workers: list[subprocess.Popen[bytes]], code: int) -> None:
    """Raise WorkerFailedError naming the workers that a signal has ended: the others say only that one is gone."""
    killed = [(rank, -worker.returncode) for rank, worker in enumerate(workers) if (worker.returncode or 0) < 0]
    if killed:
        why = "the kernel does so when memory is full" if killed[0][1] == signal.SIGKILL else "a crash leaves a line"
        error = WorkerFailedError(
            ", ".join(f"rank {rank} was killed by {signal.Signals(number).name}" for rank, number in killed),
            f"see dmesg or journalctl -k ({why}), then go on with --resume",
        )
        error.exit_code = code
        raise error


def _waiting(left: str, *, failed: bool) -> str:
    # A worker that waits for another one inside torch answers once torch returns.
    if failed:
        return f"waiting up to {GRACE:.0f} s for rank {left}, which is then killed"
    return (
        f"the signal was passed on to rank {left}: each ends after its step, saved, or once a wait inside torch ends;"
        f" a second signal ends them within {GRACE:.0f} s, without saving"
    )


def _held_port() -> socket.socket:
    """Return a socket with a free port, which the kernel gives to nobody else while it is open.

    Rank 0 binds it seconds later, when it has imported torch: its store sets SO_REUSEADDR as this does.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
