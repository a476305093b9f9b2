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

from trainer.arguments import Arguments
from trainer.config import TrainConfig
from trainer.errors import ConfigError
from trainer.runtime.shutdown import Interrupted, StopRequest

PARENT = "DFLASH_LAUNCHER_PID"
GRACE = 20.0
"""Seconds the others get to end by themselves once one worker has failed."""


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
    environment = {
        **os.environ, "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()), PARENT: str(os.getpid()),
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
    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for rank in range(world):
            # A session of their own: a terminal's Ctrl-C then reaches the workers once, through us.
            here = {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            workers.append(subprocess.Popen(command, env=here, start_new_session=True))
            if asked:
                stop.signal = asked[0]
                raise Interrupted
        return _wait(workers)
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(workers: list[subprocess.Popen[bytes]]) -> int:
    failed_at = None
    code = 0
    while True:
        codes = [worker.poll() for worker in workers]
        bad = [found for found in codes if found]
        if bad and failed_at is None:
            code, failed_at = bad[0], time.monotonic()
        if all(found is not None for found in codes):
            # A worker that a signal killed has a negative code; shells report 128 + the signal.
            return code if code >= 0 else 128 - code
        if failed_at is not None and time.monotonic() - failed_at > GRACE:
            return code if code >= 0 else 128 - code
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
