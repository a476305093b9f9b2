"""The NVML child: asks the driver, prints one JSON line. Runs in the tool's interpreter, never in the venv's."""

import ctypes
import json
import sys
from typing import Any

_NOT_FOUND = 12
"""NVML_ERROR_LIBRARY_NOT_FOUND of nvml.h."""


def main(library: str) -> None:
    """Ask the libnvidia-ml.so.1 at that path ("": none was found); print one JSON line.

    Its keys: "error", "code", "driver", "cuda", "devices".
    """
    json.dump(_answer(library), sys.stdout)
    sys.stdout.write("\n")


def _answer(library: str) -> dict[str, Any]:
    blank: dict[str, Any] = {"error": "", "code": 0, "driver": "", "cuda": "", "devices": []}
    try:
        import pynvml  # noqa: PLC0415 - an absent or foreign pynvml is an answer, not a crash
    except ImportError as error:
        return {**blank, "error": f"the tool's own interpreter cannot import pynvml: {error}"}
    if not library:
        return {**blank, "error": "no libnvidia-ml.so.1 was found", "code": _NOT_FOUND}
    try:
        # By its path, which pynvml would leave to the loader: what the loader finds may be the examined venv's.
        pynvml.nvmlLib = ctypes.CDLL(library)
    except OSError as error:
        return {**blank, "error": f"{library}: {error}", "code": _NOT_FOUND}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return {**blank, "error": f"nvmlInit: {error}", "code": int(error.value)}
    try:
        cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        return {
            **blank,
            "driver": _text(pynvml.nvmlSystemGetDriverVersion()),
            "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
            "devices": [_device(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())],
        }
    except pynvml.NVMLError as error:
        return {**blank, "error": f"NVML: {error}", "code": int(error.value)}
    finally:
        pynvml.nvmlShutdown()


def _device(pynvml: Any, index: int) -> tuple[dict[str, Any], list[str]]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    try:
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        capability = f"{major}.{minor}"
    except pynvml.NVMLError:
        capability = ""
    try:
        mig = pynvml.nvmlDeviceGetMigMode(handle)[0] == 1
    except pynvml.NVMLError:
        mig = False
    told = {
        "index": index,
        "name": _text(pynvml.nvmlDeviceGetName(handle)),
        "uuid": _text(pynvml.nvmlDeviceGetUUID(handle)),
        "memory_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        "compute_capability": capability,
        "mig": mig,
    }
    return told, _mig_uuids(pynvml, handle) if mig else []


def _mig_uuids(pynvml: Any, handle: Any) -> list[str]:
    found = []
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            found.append(_text(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))))
        except pynvml.NVMLError:
            continue  # the slot is not in use
    return found


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
