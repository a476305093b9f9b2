"""What the checks of failed loads share: which kind a fault is of, and its evidence in words."""

from collections.abc import Iterable, Iterator, Sequence

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.damage import site_relative
from envdoctor.catalog.cudalibs import majors_of
from envdoctor.catalog.symbol_families import is_torch_symbol
from envdoctor.model.pattern import pattern
from envdoctor.probes.loading.load_faults import UNLOADABLE, LoadFault, SymbolHolder
from envdoctor.probes.loading.symbols import Symbols
from envdoctor.probes.loading.torch_build import TorchBuild

VARIABLE = "LD_LIBRARY_PATH"
_HOST_LIBRARY = pattern(
    r"(?:libc|libm|libdl|librt|libpthread|libresolv|libutil|libstdc\+\+|libgcc_s|libgomp|ld-linux[\w-]*)\.so\.\d+"
)
_DRIVER = ("libcuda.so.", "libnvidia-", "libnvcuvid.so.", "libnvoptix.so.")
# What is in torch/lib: torch/CMakeLists and c10/CMakeLists. libtorchcodec_core6.so is torchcodec's own.
OF_TORCH = pattern(
    r"lib(?:shm|caffe2_nvrtc|(?:c10|torch)(?:_cpu|_python|_global_deps|_nvshmem|_(?P<kind>cuda|hip|xpu)(?:_linalg)?)?)\.so"
)


def bound(case: CheckContext) -> Symbols:
    """Return what opening everything found; raise DoesNotApplyError where that was left out, with the reason."""
    symbols = case.facts[Symbols]
    if not symbols.looked:
        raise DoesNotApplyError(f"symbols were not looked at: {symbols.reason}")
    return symbols


def faults(case: CheckContext, kind: str) -> Iterator[LoadFault]:
    """Yield the failed loads that one check is about; each belongs to exactly one of them, or to none."""
    return (fault for fault in bound(case).faults if kind_of(case, fault) == kind)


def kind_of(case: CheckContext, fault: LoadFault) -> str:  # noqa: PLR0911 - one line for each kind
    """Return "object", "host", "torch", "build", "symbol", "major", "reach" or "" (the driver's own libraries).

    "build" is a library that only other builds of torch have, as libc10_cuda.so is missing in a CPU build.
    """
    if fault.kind in (*UNLOADABLE, "not found") and fault.provider:
        return "object"
    if fault.kind == "version not found" and _HOST_LIBRARY.fullmatch(fault.provider.rpartition("/")[2]):
        return "host"
    if fault.kind == "undefined symbol" and fault.path and is_torch_symbol(fault.name) and not fault.has_it:
        return "torch"
    if fault.kind in ("undefined symbol", "version not found"):
        return "symbol"
    if fault.name.startswith(_DRIVER):
        return ""
    build = case.facts.get(TorchBuild)
    if OF_TORCH.fullmatch(fault.name):
        return "build" if build is not None and build.present else ""
    majors = majors_of(fault.name)
    if fault.owner and build is not None and build.cuda_major and majors and build.cuda_major not in majors:
        return "major"
    return "reach"


def opens_its_own(fault: LoadFault) -> bool:
    """Tell whether the distribution's Python code seems to open what is missing, and it is there to be opened."""
    return bool(fault.preloader and fault.has_it)


def named(fault: LoadFault) -> str:
    """Return "flash_attn/x.so of flash-attn 2.7"."""
    owner = f" of {fault.owner} {fault.owner_version}" if fault.owner else ""
    return f"{site_relative(fault.path)}{owner}"


def others(items: Sequence[LoadFault]) -> tuple[str, ...]:
    """Return one line for what fails in the same way, if more than one does."""
    rest = [site_relative(item.path) for item in items[1:]]
    shown = ", ".join(rest[:3]) + (f" and {len(rest) - 3} more" if len(rest) > 3 else "")
    return (f"the same of {shown}",) if rest else ()


def held(holders: Iterable[SymbolHolder]) -> str:
    """Return "FILE (nvidia-nccl-cu13 2.29.7), FILE"."""
    return ", ".join(
        f"{site_relative(item.path)} ({item.owner} {item.owner_version})" if item.owner else item.path
        for item in holders
    )


def provider_tokens(fault: LoadFault) -> tuple[str, ...]:
    """Return the tokens of what may have put the wrong file in the way."""
    tokens = [f"requirement:{name}" for name in (fault.provider_owner,) if name]
    if fault.provider:
        tokens = [f"bytes:{fault.provider}", f"file:{fault.provider}", *tokens]
    return (f"path-variable:{VARIABLE}", *tokens) if fault.provider_via == VARIABLE else tuple(tokens)
