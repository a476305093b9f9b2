"""The sampling child: asks NVML once a second and prints a line each time.

Runs in the tool's interpreter, never the venv's, and loads the driver's library by the path that envdoctor found.
By ctypes and not through pynvml, which takes 50 ms to import: as much as sampling may take in a minute.
"""

import ctypes
import time

BATCH = 5
"""Samples that are handed over at once."""


def main(library: str, visible: str, interval: str) -> None:
    """Print a line a sample, `sample AT USED:BUSY...`, or `error WHY`, and end.

    AT is CLOCK_MONOTONIC's; then a word a GPU, in bytes and per cent.
    visible: what CUDA_VISIBLE_DEVICES says, "*" for all.
    """
    try:
        nvml = ctypes.CDLL(library)
        chosen = _handles(nvml, visible)
    except (OSError, AttributeError, _NvmlError) as error:
        print(f"error {error}", flush=True)  # noqa: T201 - the parent reads it
        return
    pause, due, number = float(interval), time.monotonic(), 0
    try:
        while True:
            told = " ".join(f"{_used(nvml, handle)}:{_busy(nvml, handle)}" for handle in chosen)
            # Several at once: waking the parent costs more than sampling.
            print(f"sample {time.monotonic():.3f} {told}", flush=number % BATCH == 0)  # noqa: T201 - as above
            number, due = number + 1, max(due + pause, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
    except BrokenPipeError:
        return  # the parent has ended
    except _NvmlError as error:
        print(f"error {error}", flush=True)  # noqa: T201 - as above


class _NvmlError(Exception):
    """NVML answered with a return code."""


class _Memory(ctypes.Structure):
    """nvmlMemory_t of nvml.h."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Utilization(ctypes.Structure):
    """nvmlUtilization_t of nvml.h."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


def _handles(nvml: ctypes.CDLL, visible: str) -> list[ctypes.c_void_p]:
    from envdoctor.model.visible_devices import parse_visible  # noqa: PLC0415 - NVML may not be there

    _call(nvml, "nvmlInit_v2")
    count = ctypes.c_uint()
    _call(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    found: dict[str, ctypes.c_void_p] = {}
    ordinals: dict[str, ctypes.c_void_p] = {}
    for index in range(count.value):
        handle = ctypes.c_void_p()
        _call(nvml, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        uuid = ctypes.create_string_buffer(96)
        _call(nvml, "nvmlDeviceGetUUID", handle, uuid, ctypes.c_uint(96))
        found[uuid.value.decode(errors="replace")] = ordinals[str(index)] = handle
    if visible == "*":
        return list(ordinals.values())
    named = parse_visible(visible, count.value, list(found)).devices
    both = {**found, **ordinals}
    chosen = [both[name] for name in named if name in both]
    if not chosen:
        raise _NvmlError(f"CUDA_VISIBLE_DEVICES={visible} names none of {count.value} GPUs")
    return chosen


def _used(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> int:
    memory = _Memory()
    _call(nvml, "nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    return int(memory.used)


def _busy(nvml: ctypes.CDLL, handle: ctypes.c_void_p) -> int:
    """Return per cent; -1 where the GPU does not say it, as in MIG mode."""
    told = _Utilization()
    try:
        _call(nvml, "nvmlDeviceGetUtilizationRates", handle, ctypes.byref(told))
    except (_NvmlError, AttributeError):
        return -1
    return int(told.gpu)


def _call(nvml: ctypes.CDLL, name: str, *arguments: object) -> None:
    if code := int(getattr(nvml, name)(*arguments)):
        raise _NvmlError(f"{name} returned {code}")
