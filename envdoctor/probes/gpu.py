"""GPUs and the driver: the kernel module's own files, and NVML in a child process with a timeout."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from envdoctor.probes.context import Reading
from envdoctor.probes.host import Host

NVML_TIMEOUT_SECONDS = 5.0
_MODULE_VERSION = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d+\.\d+(?:\.\d+)?)")
_LIBRARY_VERSION = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)?)$")
# NVML in a child: a wedged driver can block nvmlInit for ever, and the library must not stay in this process.
_CHILD = "from envdoctor.probes.nvml import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One GPU as NVML sees it (CUDA_VISIBLE_DEVICES does not change that)."""

    index: int
    name: str
    uuid: str
    memory_bytes: int
    compute_capability: str
    """"9.0"; empty when NVML would not say."""
    mig: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """Driver and devices."""

    state: Literal["present", "absent", "driver only", "failed"]
    """"driver only": the kernel module is loaded but NVML was not asked. "failed": NVML gave an error."""
    reason: str
    """Why there are no devices to show; empty when there are."""
    module_version: str
    """Of the loaded kernel module, from /proc/driver/nvidia/version or /sys/module/nvidia/version."""
    library_version: str
    """Of the user-space driver (NVML's answer, else the suffix of libnvidia-ml.so.N found by ld.so's cache)."""
    cuda_version: str
    """Newest CUDA the driver supports ("12.8"); empty when not known."""
    nvml_code: int
    """NVML's own return code; 0 when it answered or was not asked. 18 is a module/library version mismatch."""
    devices: tuple[Device, ...]

    @property
    def driver_version(self) -> str:
        """Return the kernel module's version, else the library's."""
        return self.module_version or self.library_version


def probe(reading: Reading) -> Gpu:
    """Read the module's version from files, then ask NVML when there is anything to ask."""
    host = reading.host
    module = _module_version(host)
    library = _library_version(host)
    if not module and not library and not (host.dev / "nvidiactl").exists():
        return _gpu("absent", "no NVIDIA kernel module, device file or driver library")
    if not reading.options.ask_nvml:
        return _gpu("driver only", "NVML was not asked", module=module, library=library)
    return _ask_nvml(host, module, library)


def _gpu(state: Any, reason: str, *, module: str = "", library: str = "", code: int = 0) -> Gpu:
    return Gpu(
        state=state,
        reason=reason,
        module_version=module,
        library_version=library,
        cuda_version="",
        nvml_code=code,
        devices=(),
    )


def _module_version(host: Host) -> str:
    for path in (host.sys / "module/nvidia/version", host.proc / "driver/nvidia/version"):
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        if path.parent.name == "nvidia" and re.fullmatch(r"\d+\.\d+(\.\d+)?\s*", text):
            return text.strip()
        if match := _MODULE_VERSION.search(text):
            return match[1]
    return ""


def _library_version(host: Host) -> str:
    folders = [*filter(None, host.environ.get("LD_LIBRARY_PATH", "").split(":")), *host.library_dirs]
    folders += ["/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"]
    for folder in folders:
        link = Path(folder) / "libnvidia-ml.so.1"
        if link.exists():
            match = _LIBRARY_VERSION.search(link.resolve().name)
            return match[1] if match else _sibling_version(link)
    return ""


def _sibling_version(link: Path) -> str:
    names = sorted(path.name for path in link.parent.glob("libnvidia-ml.so.*"))
    return next((match[1] for name in names if (match := _LIBRARY_VERSION.search(name))), "")


def _ask_nvml(host: Host, module: str, library: str) -> Gpu:
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD],
            capture_output=True,
            timeout=NVML_TIMEOUT_SECONDS,
            check=False,
            env={**host.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )
    except subprocess.TimeoutExpired:
        reason = f"NVML did not answer within {NVML_TIMEOUT_SECONDS:g} s"
        return _gpu("failed", reason, module=module, library=library, code=-1)
    try:
        answer = json.loads(done.stdout.decode().splitlines()[-1])
    except (ValueError, IndexError):
        reason = f"the NVML child ended with {done.returncode}: {done.stderr.decode(errors='replace').strip()[-200:]}"
        return _gpu("failed", reason, module=module, library=library, code=-1)
    if answer["error"]:
        state = "absent" if answer["code"] == 0 and not module else "failed"
        return _gpu(state, answer["error"], module=module, library=library, code=answer["code"])
    return Gpu(
        state="present" if answer["devices"] else "absent",
        reason="" if answer["devices"] else "NVML answers but lists no device",
        module_version=module,
        library_version=answer["driver"] or library,
        cuda_version=answer["cuda"],
        nvml_code=0,
        devices=tuple(Device(**device) for device in answer["devices"]),
    )
