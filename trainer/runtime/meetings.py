"""Where all processes of a run wait for each other: before the first step, and when all are done."""

import torch
import torch.distributed as dist

from trainer.errors import TrainerError, WorkerFailedError


def meet() -> None:
    """Wait for all workers: over gloo, which notices one that has ended."""
    _codes(0)


def part(error: BaseException | None) -> tuple[int, int]:
    """Wait until all workers are done; returns the first rank with an error and its exit code, else zeros."""
    codes = _codes(0 if error is None else error.exit_code if isinstance(error, TrainerError) else 1)
    dist.barrier()
    return next(((rank, code) for rank, code in enumerate(codes) if code), (0, 0))


def _codes(mine: int) -> list[int]:
    held = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(held, torch.tensor([mine]))
    return [int(told) for told in held]


def require_kept_elsewhere(failed: tuple[int, int]) -> None:
    """Raise the error of a worker that ends because another one could not keep its features: all end alike."""
    rank, code = failed
    if code:
        error = WorkerFailedError(f"rank {rank} cannot keep its features")
        error.exit_code, error.told = code, True
        raise error
