"""A driver that is not there: a real libnvidia-ml.so.1, made with gcc, that answers as asked, with /proc and /sys."""

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envdoctor.facts.host import Host
from tests.factories.make_reading import bare_host


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeGpu:
    """One GPU as NVML is to tell it."""

    uuid: str
    name: str = "NVIDIA H200"
    capability: tuple[int, int] = (9, 0)
    mig: tuple[str, ...] | None = None
    """UUIDs of its MIG instances; None when it is not in MIG mode."""
    used: tuple[int, ...] = (0,)
    """Bytes in use at each look, over and over; the first GPU's are those of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Where a fake driver lies."""

    libraries: Path
    """For LD_LIBRARY_PATH."""
    proc: Path
    sys: Path


def make_driver(
    root: Path,
    *,
    version: str = "570.86.10",
    library: str = "",
    cuda: int = 12080,
    gpus: Sequence[FakeGpu] = (),
    init_code: int = 0,
    loaded: bool = True,
) -> Driver:
    """Make a driver: kernel module `version` (when loaded), libraries of version `library` or the same."""
    folder = root / "driver"
    folder.mkdir(parents=True)
    _compile(_source(version, cuda, gpus, init_code), folder / f"libnvidia-ml.so.{library or version}")
    (folder / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{library or version}")
    proc, sys = root / "proc", root / "sys"
    (proc / "driver/nvidia").mkdir(parents=True)
    (sys / "module/nvidia").mkdir(parents=True)
    if loaded:
        text = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"
        (proc / "driver/nvidia/version").write_text(text)
        (sys / "module/nvidia/version").write_text(f"{version}\n")
    return Driver(libraries=folder, proc=proc, sys=sys)


def host_with(driver: Driver, home: Path, **environ: str) -> Host:
    """Return a host whose driver is that one and no other."""
    path = ":".join(filter(None, (str(driver.libraries), environ.pop("LD_LIBRARY_PATH", ""))))
    host = bare_host(home, LD_LIBRARY_PATH=path, **environ)
    return replace(
        host, proc=driver.proc, sys=driver.sys, ld_so_cache=home / "no-ld.so.cache", library_dirs=(), root=home / "root"
    )


def _compile(source: str, path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "nvml.c")
        code.write_text(source)
        command = ["gcc", "-shared", "-fPIC", "-w", "-o", str(path), str(code), "-Wl,-soname,libnvidia-ml.so.1"]
        subprocess.run(command, check=True)


def _source(version: str, cuda: int, gpus: Sequence[FakeGpu], init_code: int) -> str:
    """Return the part of nvml.h the child calls. A handle is the GPU's number plus one, a MIG one plus 100 * slot."""
    count = len(gpus)
    names = ", ".join(f'"{gpu.name}"' for gpu in gpus) or "0"
    uuids = ", ".join(f'"{gpu.uuid}"' for gpu in gpus) or "0"
    majors = ", ".join(str(gpu.capability[0]) for gpu in gpus) or "0"
    minors = ", ".join(str(gpu.capability[1]) for gpu in gpus) or "0"
    modes = ", ".join(str(int(gpu.mig is not None)) for gpu in gpus) or "0"
    slots = max((len(gpu.mig or ()) for gpu in gpus), default=0) + 1
    instances = ", ".join(f'"{uuid}"' for gpu in gpus for uuid in [*(gpu.mig or ()), *([""] * slots)][:slots]) or "0"
    return f"""
#include <string.h>
static const char *names[] = {{{names}}}, *uuids[] = {{{uuids}}}, *instances[] = {{{instances}}};
static int majors[] = {{{majors}}}, minors[] = {{{minors}}}, modes[] = {{{modes}}};
typedef unsigned long handle;
int nvmlInitWithFlags(unsigned flags) {{ return {init_code}; }}
int nvmlInit_v2(void) {{ return {init_code}; }}
int nvmlShutdown(void) {{ return 0; }}
const char *nvmlErrorString(int code) {{ return code == 18 ? "Driver/library version mismatch" : "Unknown Error"; }}
int nvmlSystemGetDriverVersion(char *out, unsigned n) {{ strncpy(out, "{version}", n); return 0; }}
int nvmlSystemGetCudaDriverVersion_v2(int *out) {{ *out = {cuda}; return 0; }}
int nvmlDeviceGetCount_v2(unsigned *out) {{ *out = {count}; return 0; }}
int nvmlDeviceGetHandleByIndex_v2(unsigned at, handle *out) {{ *out = at + 1; return 0; }}
int nvmlDeviceGetCudaComputeCapability(handle h, int *major, int *minor) {{
  *major = majors[h - 1]; *minor = minors[h - 1]; return 0; }}
int nvmlDeviceGetMigMode(handle h, unsigned *now, unsigned *next) {{ *now = *next = modes[h - 1]; return 0; }}
int nvmlDeviceGetName(handle h, char *out, unsigned n) {{ strncpy(out, names[h - 1], n); return 0; }}
int nvmlDeviceGetUUID(handle h, char *out, unsigned n) {{
  strncpy(out, h > 100 ? instances[(h / 100 - 1) + (h % 100 - 1) * {slots}] : uuids[h - 1], n); return 0; }}
int nvmlDeviceGetMemoryInfo(handle h, unsigned long long *out) {{
  static unsigned looks;
  static unsigned long long used[] = {{{", ".join(str(value) for value in (gpus[0].used if gpus else (0,)))}}};
  out[0] = 143771ull << 20; out[2] = used[looks++ % (sizeof used / sizeof *used)]; return 0; }}
int nvmlDeviceGetUtilizationRates(handle h, unsigned *out) {{ out[0] = 97; out[1] = 50; return 0; }}
int nvmlDeviceGetMaxMigDeviceCount(handle h, unsigned *out) {{ *out = {slots}; return 0; }}
int nvmlDeviceGetMigDeviceHandleByIndex(handle h, unsigned at, handle *out) {{
  if (!instances[at + (h - 1) * {slots}][0]) return 6;
  *out = h + 100 * (at + 1); return 0; }}
"""
