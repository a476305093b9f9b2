"""GPUs and the driver: the kernel module's own files, and NVML in a child process with a timeout."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Literal

from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern
from envdoctor.probes.machine.driver_libraries import behind, is_stub, locate, outside

NVML_TIMEOUT_SECONDS = 5.0
# 0: the child has no pynvml. nvml.h: 9 driver not loaded, 12 library not found.
_NO_DRIVER = (0, 9, 12)
_MODULE_VERSION = pattern(r"Kernel Module\s+(?:for \S+\s+)?(\d+\.\d+(?:\.\d+)?)")
# NVML in a child: a wedged driver can block nvmlInit for ever, and the library must not stay in this process.
# It starts without site (-S) and without the caller's variables and folder: no code but the tool's and NVML runs in it.
_CHILD = "import sys; sys.path += sys.argv[2:]; from envdoctor.probes.machine.nvml import main; main(sys.argv[1])"


@frozen
class Device:
    """One GPU as NVML sees it (CUDA_VISIBLE_DEVICES does not change that)."""

    index: int
    name: str
    uuid: str
    memory_bytes: int
    compute_capability: str
    """"9.0"; empty when NVML would not say."""
    mig: bool
    mig_uuids: tuple[str, ...] = ()
    """Of its MIG instances."""


@frozen
class Gpu:
    """Driver and devices."""

    state: Literal["present", "absent", "driver only", "failed"]
    """"driver only": the kernel module is loaded but NVML was not asked. "failed": NVML gave an error."""
    reason: str
    """Why there are no devices to show; empty when there are."""
    module_version: str
    """Of the loaded kernel module, from /proc/driver/nvidia/version or /sys/module/nvidia/version."""
    library_version: str
    """Of the user-space driver: NVML's answer, else by the name of the libnvidia-ml.so.1 a process would load."""
    libcuda: str
    """The libcuda.so.1 a process would load, as an absolute path; empty when there is none."""
    libcuda_version: str
    """By its name; empty when that does not tell."""
    cuda_version: str
    """Newest CUDA the driver supports ("12.8"); empty when not known."""
    nvml_code: int
    """NVML's own return code; 0 when it answered or was not asked. 18 is a module/library version mismatch."""
    devices: tuple[Device, ...]
    pci: tuple[str, ...] = ()
    """Addresses of NVIDIA's GPUs on the PCI bus ("0000:18:00.0"); looked for only where no driver is visible."""
    libcuda_is_stub: bool = False
    """`libcuda` is the CUDA toolkit's stub."""
    libcuda_behind: str = ""
    """Where it is: the driver's own that would be taken without it; empty when there is none."""

    @property
    def driver_version(self) -> str:
        """Return the kernel module's version, else the library's."""
        return self.module_version or self.library_version


def probe(reading: Reading) -> Gpu:
    """Read the module's version from files, then ask NVML when there is anything to ask."""
    host = reading.host
    nvml, library = locate(host, "libnvidia-ml.so.1")
    libcuda, libcuda_version = locate(host, "libcuda.so.1")
    seen = Gpu(
        state="absent",
        reason="no NVIDIA kernel module, device file or driver library",
        module_version=_module_version(host),
        library_version=library,
        libcuda=libcuda,
        libcuda_version=libcuda_version,
        cuda_version="",
        nvml_code=0,
        devices=(),
    )
    if libcuda and is_stub(libcuda):
        seen = replace(seen, libcuda_is_stub=True, libcuda_behind=behind(host, "libcuda.so.1", libcuda))
    if not seen.module_version and not nvml and not (host.dev / "nvidiactl").exists():
        return replace(seen, pci=_on_pci_bus(host))
    if not reading.options.ask_nvml:
        return replace(seen, state="driver only", reason="NVML was not asked")
    library_file = outside(host, "libnvidia-ml.so.1", reading.target.prefix)
    if nvml and not library_file:
        return replace(
            seen,
            state="driver only",
            reason=f"NVML was not asked: {nvml} belongs to the environment or the current folder",
        )
    return _ask_nvml(host, seen, library_file)


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


def _on_pci_bus(host: Host) -> tuple[str, ...]:
    """Return NVIDIA's display controllers; a container without a driver sees its host's bus."""
    bus = host.sys / "bus/pci/devices"
    try:
        return tuple(sorted(name for name in os.listdir(bus) if _is_nvidia_gpu(bus / name)))  # noqa: PTH208 - names only
    except OSError:
        return ()


def _is_nvidia_gpu(device: Path) -> bool:
    # Base class 03, display controller (PCI Code and ID Assignment); 10de is NVIDIA.
    try:
        vendor, kind = (device / "vendor").read_text().strip(), (device / "class").read_text().strip()
    except OSError:
        return False
    return vendor == "0x10de" and kind.startswith("0x03")


def _ask_nvml(host: Host, seen: Gpu, library: str) -> Gpu:
    import importlib.util  # noqa: PLC0415 - only where there is a driver
    import subprocess  # noqa: PLC0415 - as above

    own = str(Path(__file__).resolve().parents[3])
    bindings = importlib.util.find_spec("pynvml")
    beside = str(Path(bindings.origin).parent) if bindings and bindings.origin else own
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _CHILD, library, own, beside],
            capture_output=True,
            timeout=NVML_TIMEOUT_SECONDS,
            check=False,
            cwd="/",
            env={name: value for name, value in host.environ.items() if not name.startswith(("LD_", "PYTHON"))},
        )
    except subprocess.TimeoutExpired:
        reason = f"NVML did not answer within {NVML_TIMEOUT_SECONDS:g} s"
        return replace(seen, state="failed", reason=reason, nvml_code=-1)
    try:
        answer = json.loads(done.stdout.decode().splitlines()[-1])
    except (ValueError, IndexError):
        reason = f"the NVML child ended with {done.returncode}: {done.stderr.decode(errors='replace').strip()[-200:]}"
        return replace(seen, state="failed", reason=reason, nvml_code=-1)
    if answer["error"]:
        # Libraries without a loaded module are a machine without a GPU, such as a build node: that is not a failure.
        absent = not seen.module_version and answer["code"] in _NO_DRIVER
        told = replace(seen, reason=answer["error"], nvml_code=answer["code"])
        return replace(told, state="absent", pci=_on_pci_bus(host)) if absent else replace(told, state="failed")
    return replace(
        seen,
        state="present" if answer["devices"] else "absent",
        reason="" if answer["devices"] else "NVML answers but lists no device",
        library_version=answer["driver"] or seen.library_version,
        cuda_version=answer["cuda"],
        devices=tuple(Device(**device, mig_uuids=tuple(mig)) for device, mig in answer["devices"]),
    )
