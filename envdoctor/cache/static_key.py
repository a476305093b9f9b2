"""The key parts of an environment as it is now, read without running anything of it."""

import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from envdoctor.cache import config_variables, source_keys
from envdoctor.cache.key_parts import COMPILER, TRITON_VARIABLES, KeyPart
from envdoctor.cache.layout import roots
from envdoctor.catalog.variables import may_be_secret
from envdoctor.errors import ProbeError
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import open_regular, read_regular
from envdoctor.model.visible_devices import parse_visible
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.gpu import Device, Gpu
from envdoctor.probes.machine.toolchain import Toolchain
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.search_path import SearchPath

# Read when a C++ kernel is generated, by no configuration module: torch/_inductor/cpu_vec_isa.py.
_OF_KERNELS = frozenset({"ATEN_CPU_CAPABILITY"})
_MAXIMUM_SOURCE = 8 << 20
_VERSION = re.compile(rb"""^__version__\s*=\s*['"]([^'"]+)['"]""", re.MULTILINE)
# What inductor's cpu_vec_isa.py looks for, widest first.
_ISA_FLAGS = ("amx_tile", "avx512_bf16", "avx512_vnni", "avx512f", "avx2", "sve", "asimd", "vx")
_THREADS_IN_KEY = b"cpp_runtime_thread_count"


def key_parts(reading: Reading) -> tuple[KeyPart, ...]:
    """Return every part that can be told from files, the environment and the driver; unread ones say why."""
    build = reading.fact(TorchBuild)
    parts = [
        KeyPart(name="torch.version", value=build.version),
        _read("torch.sources", lambda: _torch_sources(reading)),
        *_triton(reading),
        KeyPart(name="cuda.version", value=build.cuda or build.hip),
        *_devices(reading),
        KeyPart(name="python.version", value=reading.fact(Interpreter).minor),
        KeyPart(name="cpu.isa", value=_isa(reading.host)),
        KeyPart(name="cpu.model", value=_cpu(reading.host, "model name|CPU part")),
        KeyPart(name="venv.prefix", value=str(reading.target.prefix)),
        KeyPart(name="python.base", value=_base(reading)),
    ]
    folders = {root.kind: root for root in roots(reading.host)}
    parts.append(KeyPart(name="cache.folder", value=str(folders["inductor"].path)))
    parts.append(KeyPart(name="triton.folder", value=str(folders["triton"].path)))
    if not build.cuda and not build.hip and _threads_count(build):
        parts.append(KeyPart(name="cpu.threads", value=_threads(reading.host)))
    parts.append(_compiler(reading))
    return (*parts, *_variables(build, reading.host))


def _compiler(reading: Reading) -> KeyPart:
    """Return the compiler by its content; it is not asked for its version, since that would run it.

    Inductor's cpp_builder takes $CXX, else g++, and compiles its tests again when that says another version.
    """
    found = reading.fact(Toolchain).cxx
    if not found:
        return KeyPart(name=COMPILER, value="")
    try:
        with open_regular(found) as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        return KeyPart(name=COMPILER, value=f"{found}: {error.strerror}", known=False)
    return KeyPart(name=COMPILER, value=f"sha256 {digest[:16]}")


def _read(name: str, compute: Callable[[], str]) -> KeyPart:
    try:
        return KeyPart(name=name, value=compute())
    except ProbeError as error:
        return KeyPart(name=name, value=error.message, known=False)


def _suffixes(reading: Reading) -> source_keys.Suffixes:
    interpreter = reading.fact(Interpreter)
    return source_keys.Suffixes.of(Path(interpreter.library).name, interpreter.machine)


def _torch_sources(reading: Reading) -> str:
    build = reading.fact(TorchBuild)
    if not build.present:
        return ""
    return source_keys.torch_key(Path(build.folder), build.version, _suffixes(reading))


def _triton(reading: Reading) -> Iterator[KeyPart]:
    folder = next(
        (
            at
            for entry in reading.fact(SearchPath).site_dirs
            if (at := Path(entry.path) / "triton/__init__.py").is_file()
        ),
        None,
    )
    if folder is None:
        yield KeyPart(name="triton.version", value="")
        yield KeyPart(name="triton.sources", value="")
        return
    match = _VERSION.search(read_regular(folder, _MAXIMUM_SOURCE))
    version = match[1].decode() if match else ""
    yield KeyPart(name="triton.version", value=version)

    def compute() -> str:
        return source_keys.triton_key(folder.parent, version, _suffixes(reading))

    yield _read("triton.sources", compute)


def _devices(reading: Reading) -> Iterator[KeyPart]:
    gpu, build = reading.fact(Gpu), reading.fact(TorchBuild)
    if not build.cuda and not build.hip:
        # get_system() is empty for a CPU build, whatever cards the machine has.
        yield KeyPart(name="gpu.name", value="")
        yield KeyPart(name="gpu.arch", value="")
        return
    known = gpu.state in ("present", "absent")
    visible = _visible(gpu.devices, reading.host.environ.get("CUDA_VISIBLE_DEVICES"))
    names = ", ".join(sorted({device.name for device in visible}))
    arches = ", ".join(sorted({device.compute_capability for device in visible}))
    yield KeyPart(name="gpu.name", value=names if known else gpu.reason, known=known)
    yield KeyPart(name="gpu.arch", value=arches if known else gpu.reason, known=known)
    yield KeyPart(name="driver.version", value=gpu.driver_version)


def _visible(devices: tuple[Device, ...], wanted: str | None) -> tuple[Device, ...]:
    """Return the devices that CUDA_VISIBLE_DEVICES lets through, as the driver reads it."""
    if wanted is None:
        return devices
    uuids = [uuid for device in devices for uuid in (device.uuid, *device.mig_uuids)]
    by_name = {name: one for one in devices for name in (str(one.index), one.uuid, *one.mig_uuids)}
    named = (by_name.get(name) for name in parse_visible(wanted, len(devices), uuids).devices)
    return tuple(device for device in named if device is not None)


def _isa(host: Host) -> str:
    flags = set(_cpu(host, "flags|Features").split())
    return " ".join(flag for flag in _ISA_FLAGS if flag in flags)


def _cpu(host: Host, field: str) -> str:
    """Return a line of /proc/cpuinfo; x86 and ARM name them differently."""
    try:
        text = (host.proc / "cpuinfo").read_text(errors="replace")
    except OSError:
        return ""
    match = re.search(rf"^(?:{field})\s*:\s*(.*)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _base(reading: Reading) -> str:
    """Return the prefix of the base interpreter, whose headers a C++ kernel includes."""
    interpreter = reading.fact(Interpreter)
    return str(Path(interpreter.home).parent) if interpreter.home else str(reading.target.prefix)


def _threads_count(build: TorchBuild) -> bool:
    try:
        source = read_regular(Path(build.folder) / "_inductor/codecache.py", _MAXIMUM_SOURCE)
    except OSError:
        return False
    return _THREADS_IN_KEY in source


def _threads(host: Host) -> str:
    """Return what decides torch's thread count: OMP_NUM_THREADS, else the CPUs this process may use."""
    if stated := host.environ.get("OMP_NUM_THREADS"):
        return stated
    try:
        status = (host.proc / "self/status").read_text(errors="replace")
    except OSError:
        return ""
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    spans = [span.split("-") for span in match[1].split(",")] if match else []
    return str(sum(int(span[-1]) - int(span[0]) + 1 for span in spans))


def _variables(build: TorchBuild, host: Host) -> Iterator[KeyPart]:
    try:
        known = config_variables.variables(Path(build.folder)) if build.present else {}
    except ProbeError as error:
        yield KeyPart(name="torch.configuration", value=error.message, known=False)
        known = {}
    for name in sorted({*known, *TRITON_VARIABLES, *_OF_KERNELS} & host.environ.keys()):
        value = host.environ[name]
        if name in known and known[name].at_default(value):
            continue
        means = known[name].sets if name in known else ()
        if may_be_secret(name, value):
            yield KeyPart(name=f"env.{name}", value="it may be a password or an address; not kept", known=False)
        else:
            yield KeyPart(name=f"env.{name}", value=value, means=means)
