"""One line for each area of the status box, from facts alone."""

from collections.abc import Callable

from envdoctor.analysis.context import Case
from envdoctor.analysis.damage import harmless
from envdoctor.errors import internal_error
from envdoctor.model.fingerprint import MissingFactError
from envdoctor.probes.caches.compile_caches import CompileCaches
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.training_sources import Sources


def _interpreter(case: Case) -> str:
    python = case.facts[Interpreter]
    made = f", venv by {python.created_by}" if python.created_by else ", no venv"
    return f"CPython {python.version}{made}"


def _distributions(case: Case) -> str:
    count = len(case.facts[Distributions].items)
    against = f", compared with {len(case.pins())} locked" if case.lock is not None else ", no lock to compare with"
    return f"{count} distributions{against}"


def _torch(case: Case) -> str:
    build = case.facts[TorchBuild]
    if not build.present:
        return "torch is not installed"
    if not build.version:
        return "torch of unknown build: torch/version.py is missing or says no version"
    flavour = f"CUDA {build.cuda}" if build.cuda else f"ROCm {build.hip}" if build.hip else "CPU"
    return f"torch {build.version} ({flavour} build), read from torch/version.py"


def _files(case: Case) -> str:
    files = case.facts[InstalledFiles]
    total = sum(owner.files for owner in files.owners)
    unfit = [fault for fault in files.faults if not harmless(fault)]
    missing = sum(fault.kind == "missing" for fault in unfit)
    changed = sum(fault.kind in ("resized", "not a file") for fault in unfit)
    unread = sum(fault.kind == "unreadable" for fault in unfit)
    locked = sum(fault.kind == "not executable" for fault in unfit)
    deep = case.facts.get(DeepFiles)
    altered = len(deep.altered) if deep else 0
    how = f"by hash ({deep.without_hash + deep.bytecode} without one)" if deep else "by size"
    if not unfit and not altered and not files.contested:
        aside = f", but for {aside} that no import needs" if (aside := len(files.faults)) else ""
        return f"{total} files as their RECORDs say, {how}{aside}"
    parts = [f"{missing} missing"] if missing else []
    parts += [f"{changed} of another size"] if changed else []
    parts += [f"{unread} that could not be looked at"] if unread else []
    parts += [f"{locked} not executable"] if locked else []
    parts += [f"{altered} of other contents"] if altered else []
    parts += [f"{len(files.contested)} with two owners"] if files.contested else []
    return f"{total} files: {', '.join(parts)}"


def _libraries(case: Case) -> str:
    libraries = case.facts[Libraries]
    if not libraries.simulated:
        return libraries.reason
    needed = {provider.soname for provider in libraries.providers} | {item.soname for item in libraries.unresolved}
    missing = {item.soname for item in libraries.unresolved if item.stage != "lazy"}
    if missing:
        return f"{len(missing)} of {len(needed)} libraries unresolved for `import torch`"
    return f"all {len(needed)} libraries of `import torch` resolve"


def _cache(case: Case) -> str:
    present = [cache for cache in case.facts[CompileCaches].caches if cache.entries]
    if not present:
        return "cold: no entries in any cache folder"
    return ", ".join(f"{cache.kind} {cache.bytes / 1e6:.0f} MB in {cache.entries} files" for cache in present)


def _gpu(case: Case) -> str:
    gpu = case.facts[Gpu]
    if gpu.devices:
        names = sorted({device.name for device in gpu.devices})
        return f"driver {gpu.driver_version} (CUDA {gpu.cuda_version}), {len(gpu.devices)} x {' / '.join(names)}"
    driver = f"driver {gpu.driver_version}, " if gpu.driver_version else ""
    return f"{driver}{gpu.reason or 'no device'}"


def _environment(case: Case) -> str:
    environment = case.facts[Environment]
    shown = [name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH") if environment.value(name)]
    return f"{', '.join(shown)} set" if shown else "no LD_LIBRARY_PATH, LD_PRELOAD or PYTHONPATH"


def _sources(case: Case) -> str:
    files = case.facts[Sources].files
    return f"{len(files)} source files hashed" if files else "the profile names no sources"


_SUMMARIES: dict[str, Callable[[Case], str]] = {
    "Interpreter": _interpreter,
    "Distributions": _distributions,
    "torch build": _torch,
    "Installed files": _files,
    "Shared libraries": _libraries,
    "Compile cache": _cache,
    "Environment": _environment,
    "Driver / GPU": _gpu,
    "Sources": _sources,
}
AREAS = tuple(_SUMMARIES)
COULD_NOT_TELL = "could not tell"
"""A summary that begins so never stands beside a tick."""


def summarize(area: str, case: Case) -> str:
    """Return the area's one-line summary, or why its facts could not be read."""
    try:
        return _SUMMARIES[area](case)
    except MissingFactError as error:
        return f"{COULD_NOT_TELL}: {error.reason}"
    except Exception as error:  # noqa: BLE001 - as for a rule: one line that crashes must not end the report
        return f"{COULD_NOT_TELL}: {internal_error(error)}"
