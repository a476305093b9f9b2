"""Compile caches: where each lies and what its entries are. Adding a kind of cache is one row of CACHES.

Places as the code that writes them decides: torch/_inductor/runtime/cache_dir_utils.py, triton/runtime/cache.py,
torch/utils/cpp_extension.py, flashinfer/jit/env.py, and CUDA's programming guide for ~/.nv. Entries as
torch/_inductor/codecache.py (get_path, FxGraphCache), autograd_cache.py and triton/runtime/cache.py lay them out.
"""

from typing import Literal

from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern

GRAPHS = ("fx graph", "autograd graph")
TRITON = ("triton kernel",)
CPP = ("c++ kernel",)
CUDA = ("cuda binary",)
HEADER = "precompiled header"
"""Of torch's own headers, 150 MB each: it saves seconds and says nothing about what is compiled."""
KERNELS = (*TRITON, *CPP)
LOADED = (*CPP, "compiler test")
"""Objects that inductor finds by their names and maps as they are: damaged, they end the process."""


@frozen
class CacheKind:
    """One kind of cache folder."""

    name: str
    variable: str
    """Names the folder, or the folder that `below` is in."""
    below: str
    """Path under the variable's value; empty when that is the folder."""
    base: Literal["home", "temporary"]
    """Where it is by default."""
    base_variable: str
    """Replaces `base`; empty when none does."""
    base_below: str
    """Path from `base` to what `base_variable` names: ".cache"."""
    default: str
    """Path under the base; USER stands for the user's name."""
    deciding: tuple[str, ...]
    """Variables that decide the default place, in any process."""
    owner: str
    """The distribution that writes it; empty for the driver."""
    portable: bool
    """A snapshot takes it, and a profile expects something of it: the others are keyed by absolute paths or rebuilt by
    their owner."""
    mapped: bool
    """Its files are mapped as code, which a mount with `noexec` refuses."""
    entry: str = ""
    """What all of its entries are; empty when each path decides."""


CACHES: tuple[CacheKind, ...] = (
    CacheKind(name="inductor", variable="TORCHINDUCTOR_CACHE_DIR", below="", base="temporary", base_variable="",
              base_below="", default="torchinductor_USER", deciding=("TMPDIR",), owner="torch", portable=True,
              mapped=True),
    CacheKind(name="triton", variable="TRITON_CACHE_DIR", below="", base="home", base_variable="TRITON_HOME",
              base_below="", default=".triton/cache", deciding=("TRITON_HOME", "HOME"), owner="torch", portable=True,
              mapped=True, entry="triton kernel"),
    CacheKind(name="torch_extensions", variable="TORCH_EXTENSIONS_DIR", below="", base="home",
              base_variable="XDG_CACHE_HOME", base_below=".cache", default="torch_extensions",
              deciding=("XDG_CACHE_HOME", "HOME"), owner="torch", portable=False, mapped=True, entry="extension"),
    CacheKind(name="flashinfer", variable="FLASHINFER_WORKSPACE_BASE", below=".cache/flashinfer", base="home",
              base_variable="", base_below="", default=".cache/flashinfer", deciding=("HOME",),
              owner="flashinfer-python", portable=False, mapped=True, entry="extension"),
    CacheKind(name="cuda", variable="CUDA_CACHE_PATH", below="", base="home", base_variable="", base_below="",
              default=".nv/ComputeCache", deciding=("HOME",), owner="", portable=False, mapped=False,
              entry="cuda binary"),
)  # fmt: skip
BY_NAME = {kind.name: kind for kind in CACHES}
NAMES = tuple(BY_NAME)
PORTABLE = tuple(kind.name for kind in CACHES if kind.portable)

OWN = ".envdoctor"
"""Our folder inside a cache: manifests of what filled it, and the quarantine. No compiler looks into it."""
TEMPORARY = pattern(r"^(\..*|tmp\.pid_.*|.*\.tmp(\.pid_.*)?|.*\.lock|lock)$")
"""Names of files that are being written, and of locks."""

# Entries of inductor's folder, by its first subfolder; Triton kernels of inductor are under triton/DEVICE.
_FIRST = {
    "fxgraph": "fx graph",
    "aotautograd": "autograd graph",
    "triton": "triton kernel",
    "cache": "autotune result",
    "precompiled_headers": HEADER,
}
IN_BLOB = {"inductor": "fx graph", "aot_autograd": "autograd graph", "autotune": "autotune result"}
"""Kind in torch's own portable form of a cache -> kind of entry."""
_CPP_SUFFIXES = ("cpp", "so", "o", "h")
# Part of a key -> the kinds of entry that miss when it differs. A part that is not here (a variable, a config value)
# reaches the graphs, because FxGraphHashDetails hashes the whole inductor configuration.
INVALIDATES: dict[str, tuple[str, ...]] = {
    "torch.version": GRAPHS,
    "torch.sources": GRAPHS,
    "triton.version": (*GRAPHS, *TRITON),
    "triton.sources": (*GRAPHS, *TRITON),
    "cuda.version": GRAPHS,
    "gpu.name": GRAPHS,
    "gpu.arch": TRITON,
    "driver.version": CUDA,
    "python.version": CPP,
    "cpu.isa": CPP,
    # Not in any key: -march=native builds for the very CPU, under a name that another one of its kind looks for too.
    "cpu.model": (),
    "cpu.threads": GRAPHS,
    "venv.prefix": CPP,
    "python.base": CPP,
    "cpp.compiler": CPP,
    "env.ATEN_CPU_CAPABILITY": CPP,
    "cache.folder": TRITON,
    "triton.folder": TRITON,
}


def kind_of(cache: str, path: str) -> str:
    """Return the kind of entry that a path belongs to, relative to the folder of that kind of cache."""
    if BY_NAME[cache].entry:
        return BY_NAME[cache].entry
    first, last = path.partition("/")[0], path.rpartition("/")[2].lstrip(".")
    stem, *suffixes = last.split(".")
    suffix = suffixes[-1] if stem and suffixes else ""
    if first in _FIRST or suffix == "best_config":
        return _FIRST.get(first, "autotune result")
    if suffix in _CPP_SUFFIXES:
        # Without "main" it is one of the tiny programs cpu_vec_isa.py compiles to see what the CPU can do.
        return "c++ kernel" if suffixes[0] in ("main", "optimized") else "compiler test"
    return "python wrapper" if suffix == "py" else "other"


def entry_of(cache: str, path: str) -> str:
    """Return the entry a path belongs to, relative to the folder.

    A Triton kernel is its whole folder, because a group file that names a missing cubin ends in a KeyError and not in
    a recompilation. A C++ or Python module is every file of one stem. A graph is one file: torch tries each of a key.
    """
    parts = path.split("/")
    kind = kind_of(cache, path)
    if kind == "triton kernel":
        depth = 3 if cache == "inductor" else 1
        return "/".join(parts[:depth]) if len(parts) > depth else path
    if kind == "extension":
        return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
    if kind in ("c++ kernel", "python wrapper", "compiler test"):
        return "/".join([*parts[:-1], parts[-1].split(".")[0]])
    return path
