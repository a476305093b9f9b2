"""One line for each area of the status box, from facts alone, and what a verdict does not cover."""

from collections.abc import Callable, Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.damage import sourceless, unfit
from envdoctor.catalog.cache_kinds import PORTABLE
from envdoctor.errors import internal_error
from envdoctor.model.fingerprint import MissingFactError
from envdoctor.model.verdict import AreaState
from envdoctor.model.wording import counted
from envdoctor.probes.caches.compile_caches import CompileCaches
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.machine.platform import Platform
from envdoctor.probes.venv.bytecode import BytecodeState
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.system_packages import SITE, SystemPackages
from envdoctor.probes.venv.training_sources import Sources

_COLD = "cold: no compiled graph or kernel"


def _interpreter(case: CheckContext) -> str:
    python = case.facts[Interpreter]
    made = f", venv by {python.created_by}" if python.created_by else ", no venv"
    platform = case.facts.get(Platform)
    libc = ", on musl: no wheel for glibc can be loaded" if platform is not None and platform.musl else ""
    return f"CPython {python.version}{made}{libc}"


def _distributions(case: CheckContext) -> str:
    count = len(case.facts[Distributions].items)
    if not count and case.lock is None:
        raise DoesNotApplyError("no distribution is installed")
    against = f", compared with {len(case.pins())} locked" if case.lock is not None else ", no lock to compare with"
    return f"{counted(count, 'distribution')}{against}"


def _torch(case: CheckContext) -> str:
    build = case.facts[TorchBuild]
    if not build.present:
        raise DoesNotApplyError("torch is not installed")
    if not build.version:
        return "torch of unknown build: torch/version.py is missing or says no version"
    kinds = {"CUDA": build.cuda, "ROCm": build.hip, "XPU": build.xpu}
    flavour = next((f"{kind} {version}" for kind, version in kinds.items() if version), "CPU")
    return f"torch {build.version} ({flavour} build), read from torch/version.py"


def _files(case: CheckContext) -> str:
    files = case.facts[InstalledFiles]
    total = sum(owner.files for owner in files.owners)
    if not files.owners:
        raise DoesNotApplyError("no RECORD lists any file")
    faults = unfit(case)
    missing = sum(fault.kind == "missing" for fault in faults)
    changed = sum(fault.kind in ("resized", "not a file") for fault in faults)
    unread = sum(fault.kind == "unreadable" for fault in faults)
    locked = sum(fault.kind == "not executable" for fault in faults)
    deep = case.facts.get(DeepFiles)
    altered = len(deep.altered) if deep else 0
    how = "by size"
    if deep:
        how = f"by hash ({deep.without_hash + deep.bytecode} without one){_bytecode(deep.bytecode_state)}"
    compiled = len(sourceless(case))
    disputed = [item for item in files.contested if len({claim.owner for claim in item.claims}) > 1]
    if not faults and not altered and not disputed and not compiled:
        aside = f", but for {aside} that no import needs" if (aside := len(files.faults)) else ""
        return f"{counted(total, 'file')} as their RECORDs say, {how}{aside}{_by_dpkg(case)}"
    parts = [f"{missing} missing"] if missing else []
    parts += [f"{changed} of another size"] if changed else []
    parts += [f"{unread} that could not be looked at"] if unread else []
    parts += [f"{locked} not executable"] if locked else []
    parts += [f"{altered} of other contents"] if altered else []
    parts += [f"{counted(compiled, 'module')} without source"] if compiled else []
    parts += [f"{len(disputed)} with two owners"] if disputed else []
    return f"{counted(total, 'file')}: {', '.join(parts)}"


def _by_dpkg(case: CheckContext) -> str:
    packages = case.facts.get(SystemPackages)
    if packages is None or not packages.files:
        return ""
    missing = sum(len(package.missing) for package in packages.damaged)
    changed = sum(len(package.changed) for package in packages.damaged)
    counts = [f"{count} {what}" for count, what in ((missing, "missing"), (changed, "changed")) if count]
    return f"; of {packages.files} that dpkg lists, {' and '.join(counts) or 'none missing'}"


def _bytecode(state: BytecodeState) -> str:
    read = f", {counted(state.whole, 'bytecode file')} read" if state.whole else ""
    return f"{read}, {counted(state.unread, 'bytecode file')} not read: {state.reason}" if state.unread else read


def _libraries(case: CheckContext) -> str:
    libraries = case.facts[Libraries]
    if not libraries.simulated:
        raise DoesNotApplyError(libraries.reason)
    needed = {provider.soname for provider in libraries.providers} | {item.soname for item in libraries.unresolved}
    missing = {item.soname for item in libraries.unresolved if item.stage != "lazy"}
    if missing:
        return f"{len(missing)} of {len(needed)} libraries unresolved for `import torch`"
    return f"all {len(needed)} libraries of `import torch` resolve"


def _cache(case: CheckContext) -> str:
    caches = case.facts[CompileCaches].caches
    if not any(cache.graphs or cache.kernels for cache in caches):
        # Headers and wrappers are no reason to call a cache warm, nor is a log that FlashInfer leaves empty.
        others = [cache for cache in caches if cache.bytes and cache.kind not in PORTABLE]
        if not others:
            raise DoesNotApplyError(_COLD)
    if not case.facts[TorchBuild].present:  # what lies in a place that environments share is another one's
        raise DoesNotApplyError("torch is not installed")
    return ", ".join(f"{cache.kind} {cache.contents}" for cache in caches if cache.bytes)


def _gpu(case: CheckContext) -> str:
    gpu = case.facts[Gpu]
    if gpu.devices:
        names = sorted({device.name for device in gpu.devices})
        return f"driver {gpu.driver_version} (CUDA {gpu.cuda_version}), {len(gpu.devices)} x {' / '.join(names)}"
    build, other = _build(case), _unchecked_driver(case)
    if other:
        raise DoesNotApplyError(f"{other} drivers are not checked")
    if gpu.state == "absent" and not gpu.driver_version:
        where = _without_driver(case) if build is not None and build.cuda else gpu.reason
        raise DoesNotApplyError(where)
    driver = f"driver {gpu.driver_version}, " if gpu.driver_version else ""
    return f"{driver}{gpu.reason or 'no device'}"


def _build(case: CheckContext) -> TorchBuild | None:
    return case.facts.get(TorchBuild)


def _unchecked_driver(case: CheckContext) -> str:
    build = _build(case)
    return build.unchecked_driver if build is not None else ""


def _without_driver(case: CheckContext) -> str:
    platform = case.facts.get(Platform)
    if platform is None or not platform.container:
        return "no NVIDIA driver: this CUDA build would run on the CPU"
    return f"no NVIDIA driver in this {platform.container_name} ({platform.gpu_option})"


def _environment(case: CheckContext) -> str:
    environment = case.facts[Environment]
    shown = [name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH") if environment.value(name)]
    return f"{', '.join(shown)} set" if shown else "no LD_LIBRARY_PATH, LD_PRELOAD or PYTHONPATH"


def _sources(case: CheckContext) -> str:
    files = case.facts[Sources].files
    if not files:
        raise DoesNotApplyError("the profile names no sources" if case.profile is not None else "no profile was given")
    return f"{counted(len(files), 'source file')} hashed"


_SUMMARIES: dict[str, Callable[[CheckContext], str]] = {
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


def summarize(area: str, case: CheckContext) -> tuple[AreaState, str]:
    """Return the area's state as long as no check finds anything in it, and its one-line summary."""
    try:
        return "ok", _SUMMARIES[area](case)
    except DoesNotApplyError as nothing:
        return "not-applicable", str(nothing)
    except MissingFactError as error:
        return "unknown", f"could not tell: {error.reason}"
    except Exception as error:  # noqa: BLE001 - as for a rule: one line that crashes must not end the report
        return "unknown", f"could not tell: {internal_error(error)}"


def reads_well(summary: str) -> bool:
    """Tell a summary that says that all is well in its area; a check may have looked at more than it tells."""
    return summary.startswith(("all ", "no LD_LIBRARY_PATH")) or " as their RECORDs say" in summary


def not_checked(case: CheckContext) -> tuple[str, ...]:
    """Return what was not looked at because it is not there, as the parts of the last line.

    A verdict without findings is only as good as what it looked at: a wrong path in CI must not pass in silence.
    """
    installed, build = case.facts.get(Distributions), _build(case)
    if installed is not None and not installed.items:
        none = "no metadata" if installed.bare else "no packages"
        return (f"{none} here: only the interpreter was checked",)
    no_torch = build is not None and not build.present
    unseen = [*_unlisted(case), *_bytecode_unread(case), *(() if no_torch else _unseen(case))]
    parts = ["no torch here: torch and its libraries were not checked"] if no_torch else []
    return (*parts, *([f"not checked: {', '.join(unseen)}"] if unseen else []))


def _unlisted(case: CheckContext) -> Iterator[str]:
    """Name the packages whose files no list tells: they have no RECORD, and ED205 does not ask for it."""
    installed, dpkg = case.facts.get(Distributions), case.facts.get(SystemPackages)
    if installed is None:
        return
    python = case.facts.get(Interpreter)
    own = ("site-packages", ".dist-info") if python is not None and python.is_venv else ("", "")
    by_dpkg = dpkg.metadata if dpkg is not None and dpkg.files else ()
    count = sum(
        not item.has_record
        and (item.origin, item.folder[-len(".dist-info") :]) != own
        and item.origin in ("site-packages", "user site", "base site-packages")
        and not item.editable
        and not item.shadowed
        and not item.unreadable
        and not (item.folder in by_dpkg and item.site.endswith(SITE))
        for item in installed.items
    )
    if count:
        yield f"the files of {counted(count, 'distribution')} without a RECORD"


def _bytecode_unread(case: CheckContext) -> Iterator[str]:
    deep = case.facts.get(DeepFiles)
    if deep and deep.bytecode_state.unread:
        yield f"{counted(deep.bytecode_state.unread, 'bytecode file')} ({deep.bytecode_state.reason})"


def _unseen(case: CheckContext) -> Iterator[str]:
    build, gpu, caches = _build(case), case.facts.get(Gpu), case.facts.get(CompileCaches)
    if other := _unchecked_driver(case):
        yield f"the {other} driver"
    elif build is not None and build.cuda and gpu is not None and gpu.state == "absent" and not gpu.driver_version:
        yield "the GPU driver (none here)"
    if caches is not None and not any(cache.entries for cache in caches.caches):
        yield "the compile cache (cold)"
