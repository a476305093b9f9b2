"""Where all processes of a run wait for each other: on the way to the first step, and when all are done.

Until the first step an error of one of them ends all: it is said once, and all end with one exit code. They meet over
gloo, which notices a process that has ended.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn

import torch
import torch.distributed as dist

from trainer.errors import ConfigError, DeviceMemoryError, TrainerError, WorkerFailedError, as_trainer_error
from trainer.settings.config import TrainConfig

PATIENCE = timedelta(hours=2)
"""How long a worker waits for another: a cold compile of many buckets takes its time. A worker that dies is
noticed at once, because its connections close."""


def connect(config: TrainConfig) -> None:
    """Join the process group that the launcher's environment describes; raises ConfigError where it does not."""
    cuda = config.run.device != "cpu" and torch.cuda.is_available()
    if cuda:
        local = int(os.environ.get("LOCAL_RANK", os.environ["RANK"]))
        torch.cuda.set_device(local % torch.cuda.device_count())
    try:
        with between_workers():
            dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=PATIENCE)
    except ValueError as error:
        # torch names the variable that is not there.
        raise ConfigError(str(error), "start the run with torchrun, or without RANK and WORLD_SIZE") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Met:
    """The error of a process, as the others hear of it."""

    message: str
    hint: str
    code: int
    memory: bool
    """Whether its device is full: then each rank's message has numbers of its own."""

    def same(self, other: "_Met | None") -> bool:
        return other is not None and (self == other or (self.memory and other.memory))


def meet() -> None:
    """Wait for all workers; raises WorkerFailedError where one of them has met an error, which says it."""
    found = _shown(None)
    first = next((each for each in found if each is not None), None)
    if first is not None:
        raise _elsewhere(found, first)


def end_alike(met: Exception) -> NoReturn:
    """Meet the others with an error of this process, and raise it; of the ranks that have the same one says it."""
    error = as_trainer_error(met)
    if error is None:
        own = _Met(message=f"{type(met).__name__}: {met}", hint="", code=1, memory=False)
    else:
        memory = isinstance(error, DeviceMemoryError)
        own = _Met(message=error.message, hint=error.hint, code=error.exit_code, memory=memory)
    found = _shown(own)
    first = next(each for each in found if each is not None)
    ranks = [rank for rank, each in enumerate(found) if own.same(each)]
    if error is None:
        # Nobody has foreseen it: one of them shows where it came from.
        raise met if dist.get_rank() == ranks[0] else _elsewhere(found, own)
    error.told = dist.get_rank() != ranks[0]
    error.exit_code = first.code
    if len(ranks) < len(found):
        error.message = f"{_listed(ranks)}: {error.message}"
    raise error


def _shown(own: _Met | None) -> list[_Met | None]:
    held: list[_Met | None] = [None] * dist.get_world_size()
    with between_workers():
        dist.all_gather_object(held, own)
    return held


def _elsewhere(found: Sequence[_Met | None], first: _Met) -> WorkerFailedError:
    ranks = [rank for rank, each in enumerate(found) if first.same(each)]
    error = WorkerFailedError(f"{_listed(ranks)}: {first.message}", first.hint)
    error.exit_code, error.told = first.code, True
    return error


def _listed(ranks: Sequence[int]) -> str:
    """Return ranks as a person writes them: runs of three and more by their ends."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    told = ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return f"rank{'s' if len(ranks) > 1 else ''} {told}"


def part(error: BaseException | None) -> tuple[int, int]:
    """Wait until all workers are done; returns the first rank with an error and its exit code, else zeros."""
    code = 0 if error is None else error.exit_code if isinstance(error, TrainerError) else 1
    held = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(held, torch.tensor([code]))
    dist.barrier()
    return next(((rank, int(told)) for rank, told in enumerate(held) if told), (0, 0))


def require_kept_elsewhere(failed: tuple[int, int]) -> None:
    """Raise the error of a worker that ends because another one had to stop: all end alike."""
    rank, code = failed
    if code:
        error = WorkerFailedError(f"rank {rank} had to stop")
        error.exit_code, error.told = code, True
        raise error


@contextmanager
def between_workers() -> Iterator[None]:
    """Raise WorkerFailedError for an error that came of another process, not of this one's work."""
    try:
        yield
    except (RuntimeError, dist.DistError) as error:
        if _between_workers(error):
            raise WorkerFailedError(
                f"this worker could not go on with the others: {str(error).splitlines()[0]}",
                "the first other error is the cause; where there is none, this is: the network, NCCL or gloo",
            ) from error
        raise


def _between_workers(error: Exception) -> bool:
    # torch.distributed has types of its own for NCCL, the store and the network; gloo raises plain RuntimeErrors,
    # with its source file or its own words in them.
    signs = ("gloo/", "Connection closed by peer", "Connection reset by peer", "Connection refused")
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in signs)
