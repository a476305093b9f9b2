"""What a device is and has: its kind, its memory, the matmul rate it reaches."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from trainer.errors import ConfigError
from trainer.settings.sections import Device, Switch


def choose(wanted: Device, local_index: int = 0) -> torch.device:
    """Return the device of local worker `local_index`; raises ConfigError when CUDA is asked for and not there."""
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise ConfigError(
            f"run.device: cuda, but this torch {torch.__version__} sees no CUDA device",
            "use --device cpu, or check the driver and the torch build with `envdoctor check`",
        )
    if wanted == "cpu" or not there:
        return torch.device("cpu")
    return torch.device("cuda", local_index % torch.cuda.device_count())


def working_dtype(device: torch.device) -> torch.dtype:
    """Return bf16 on CUDA and fp32 on CPU, where bf16 is slow and bit-for-bit resuming is promised."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def compiles(switch: Switch, device: torch.device) -> bool:
    """Return whether layers are compiled on this device."""
    return switch == "on" or (switch == "auto" and device.type == "cuda")


def require_backend(name: str) -> None:
    """Raise ConfigError when torch.compile has no backend of this name, as a run that compiles nothing would not."""
    if name == "inductor":
        return
    known = torch.compiler.list_backends(exclude_tags=())
    if name not in known:
        raise ConfigError(
            f"run.backend: this torch {torch.__version__} has no backend {name!r}", f"use one of {', '.join(known)}"
        )


def free_bytes(device: torch.device) -> int:
    """Return the memory of `device` that is free now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    table = Path("/proc/meminfo").read_text(encoding="ascii")
    found = next(line for line in table.splitlines() if line.startswith("MemAvailable:"))
    return int(found.split()[1]) * 1024


class Stall:
    """Time for which a device had to wait for others between two points of its work.

    On CUDA the host runs ahead and its clock says nothing: events are recorded in the current stream on both sides
    of the wait, and what lies between them is the wait, the transfer included. On CPU it is the host's clock.
    """

    def __init__(self, device: torch.device) -> None:
        """Start with no time."""
        self._timed = device.type == "cuda"
        self._pairs: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self._seconds = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count what the body takes of the device's time."""
        if not self._timed:
            before = time.perf_counter()
            yield
            self._seconds += time.perf_counter() - before
            return
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        yield
        end.record()
        self._pairs.append((begin, end))

    def read(self) -> float:
        """Return the seconds since the last reading; on CUDA this waits for the last of the waits to end."""
        for begin, end in self._pairs:
            end.synchronize()
            self._seconds += begin.elapsed_time(end) / 1e3
        self._pairs.clear()
        found, self._seconds = self._seconds, 0.0
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of this process on one device: now, and the highest since the last reading."""

    now: int
    peak: int


def read_memory(device: torch.device) -> Memory:
    """Return the memory in use and start a new high-water mark; on CPU both are the resident set."""
    if device.type == "cuda":
        # Unlike the rest of torch.cuda, the reset does not do it by itself.
        torch.cuda.init()
        memory = Memory(now=torch.cuda.memory_allocated(device), peak=torch.cuda.max_memory_allocated(device))
        torch.cuda.reset_peak_memory_stats(device)
        return memory
    status = Path("/proc/self/status").read_text(encoding="ascii")
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    size = int(resident.split()[1]) * 1024
    return Memory(now=size, peak=size)


def wait_for(device: torch.device) -> None:
    """Return once `device` has done all that was queued."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Return the FLOP/s of one large matrix product on random data: the ceiling that MFU is measured against."""
    size = 8192 if device.type == "cuda" else 768
    left = torch.randn(size, size, device=device, dtype=dtype)
    right = torch.randn(size, size, device=device, dtype=dtype)
    repeats = 10 if device.type == "cuda" else 4
    for _ in range(3):
        left @ right
    wait_for(device)
    started = time.perf_counter()
    for _ in range(repeats):
        left @ right
    wait_for(device)
    return repeats * 2.0 * size**3 / (time.perf_counter() - started)
