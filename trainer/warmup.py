"""`python -m trainer.warmup --profile NAME`: compile every bucket's steps ahead of a run, in the run's own topology.

Takes the trainer's own flags. Each worker's device compiles what that worker will call, each step twice: the second
time shows that nothing is left to compile. The last line on stdout is one JSON object with torch's counters for each
process. A warm-up in another process fills the caches on disk; the run itself still warms up in its own.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from trainer.errors import ConfigError, WorkerFailedError, as_trainer_error
from trainer.runtime.shutdown import StopRequest
from trainer.settings.arguments import Arguments, parse, require_pair
from trainer.writing import leave, say, say_error, write_result

SCHEMA = 1
WORKER = "DFLASH_WARM_WORKER"


def main(argv: Sequence[str]) -> int:
    """Warm up; returns the exit code."""
    with StopRequest() as stop:
        return _main(argv, stop)


def _main(argv: Sequence[str], stop: StopRequest) -> int:
    try:
        arguments = parse(argv).admitted()
        require_pair(arguments.config, rows=False)
        write_result(json.dumps(_warm(arguments, stop)) + "\n")
    except (Exception, KeyboardInterrupt) as error:
        # Where a signal comes in the middle of an import, Python may wrap what it raises.
        if stop.signal is not None:
            if WORKER not in os.environ:
                say("interrupted; what was compiled so far stays in the caches")
            return stop.exit_code
        told = as_trainer_error(error)
        if told is None:
            raise
        say_error(told)
        return told.exit_code
    return 0


def _warm(arguments: Arguments, stop: StopRequest) -> dict[str, object]:
    config = arguments.config
    if config.target.tensor_parallel > 1:
        raise ConfigError(
            f"target.tensor_parallel: {config.target.tensor_parallel}: a target is split by the run alone, not here",
            "start the run: it compiles every bucket before its first step (run.warm)",
        )
    started = time.monotonic()
    if config.launched and WORKER not in os.environ:
        workers = _spawn(arguments.argv, config.workers, stop)
    else:
        workers = [_here(arguments)]
    return {
        "schema_version": SCHEMA, "profile": config.profile, "runtime": config.runtime,
        "buckets": workers[0]["buckets"], "seconds": round(time.monotonic() - started, 2), "processes": workers,
    }  # fmt: skip


def _spawn(argv: Sequence[str], count: int, stop: StopRequest) -> list[dict[str, object]]:
    """Warm each worker in a process of its own, as the run will have them."""
    command = [sys.executable, "-m", "trainer.warmup", *argv]
    started: list[subprocess.Popen[str]] = []

    def end() -> None:
        for process in started:
            if process.poll() is None:
                process.kill()

    stop.ending = end
    try:
        with stop.held():
            for worker in range(count):
                here = {**os.environ, WORKER: str(worker)}
                started.append(subprocess.Popen(command, env=here, stdout=subprocess.PIPE, text=True))
        printed = [process.communicate()[0] for process in started]
    finally:
        end()
        for process in started:
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
    failed = [worker for worker, process in enumerate(started) if process.returncode]
    if failed:
        raise WorkerFailedError(
            f"the warm-up of worker {failed[0]} ended with {started[failed[0]].returncode}",
            "its own message stands above",
        )
    return [json.loads(text.strip().splitlines()[-1])["processes"][0] for text in printed]


def _here(arguments: Arguments) -> dict[str, object]:
    """Warm the workers of this process and return torch's counters."""
    from trainer.runtime import warmup_workers  # noqa: PLC0415 - torch is imported behind the gate

    worker = os.environ.get(WORKER)
    return warmup_workers.warm(arguments.config, None if worker is None else int(worker))


if __name__ == "__main__":
    leave(main)
