"""A tiny torch of the usual form: the same libraries, needs, search paths and import steps, in a few kilobytes each."""

from collections.abc import Mapping
from pathlib import Path

from tests.factories.make_elf import make_shared, make_stub

CU12_FOLDERS = (
    "cudnn nvshmem nccl cusparselt cublas cuda_cupti cuda_nvrtc cuda_runtime cufft curand cusolver cusparse nvtx cufile"
)
LIBRARIES = {
    "libcublasLt.so.12": "cublas",
    "libcublas.so.12": "cublas",
    "libcudnn.so.9": "cudnn",
    "libnvrtc.so.12": "cuda_nvrtc",
    "libnvrtc-builtins.so.12.8": "cuda_nvrtc",
    "libcudart.so.12": "cuda_runtime",
    "libcupti.so.12": "cuda_cupti",
    "libcufft.so.11": "cufft",
    "libcurand.so.10": "curand",
    "libnvJitLink.so.12": "nvjitlink",
    "libcusparse.so.12": "cusparse",
    "libcusparseLt.so.0": "cusparselt",
    "libcusolver.so.11": "cusolver",
    "libnccl.so.2": "nccl",
    "libnvshmem_host.so.3": "nvshmem",
    "libcufile.so.0": "cufile",
    "libnvToolsExt.so.1": "nvtx",
}
"""Soname -> folder below nvidia/, in the order torch preloads them."""

# The import steps of torch 2.10 to 2.13 in our own words: the names are torch's, because the model looks for them.
INIT = """
import ctypes
import glob
import os
import sys

from .version import __version__, cuda


def _get_cuda_dep_paths(path, lib_folder, lib_name):
    found = glob.glob(os.path.join(path, "nvidia", lib_folder, "lib", lib_name))
    if cuda is not None:
        major = cuda.split(".")[0]
        found += glob.glob(os.path.join(path, "nvidia", f"cu{major}", "lib", lib_name))
    return found + glob.glob(os.path.join(path, lib_folder, "lib", lib_name))


def _preload_cuda_lib(lib_folder, lib_name, required=True):
    for path in sys.path:
        found = _get_cuda_dep_paths(path, lib_folder, lib_name)
        if found:
            ctypes.CDLL(found[0])
            return
    if required:
        raise ValueError(f"{lib_name} not found in the system path {sys.path}")


def _preload_cuda_deps(err=None):
    cuda_libs = [
PAIRS
    ]
    if err is not None and not any(lib.split(".", 1)[0] in err.args[0] for _, lib in cuda_libs):
        raise err
    for lib_folder, lib_name in cuda_libs:
        _preload_cuda_lib(lib_folder, lib_name)
    _preload_cuda_lib("nvtx", "libnvToolsExt.so.*[0-9]", required=False)


def _load_global_deps():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libtorch_global_deps.so")
    try:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        try:
            with open("/proc/self/maps") as f:
                _maps = f.read()
            if "libcudart.so" not in _maps:
                return
            _preload_cuda_deps()
        except Exception:
            pass
    except OSError as err:
        _preload_cuda_deps(err)
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)


_load_global_deps()
from torch._C import *


class Tensor:
    pass
"""

EXTENSION = """
struct definition { long head[5]; const char *name; void *doc; long size; void *methods; void *rest[4]; };
static struct definition module = {{1}, "_C"};
extern void *PyModuleDef_Init(void *);
void *PyInit__C(void) { return PyModuleDef_Init(&module); }
"""


def init_text(libraries: Mapping[str, str] = LIBRARIES) -> str:
    """Return a `torch/__init__.py` that preloads these."""
    patterns = [(folder, f"{soname.partition('.so')[0]}.so.*[0-9]") for soname, folder in libraries.items()]
    pairs = "\n".join(f'        ("{folder}", "{pattern}"),' for folder, pattern in patterns if folder != "nvtx")
    return INIT.replace("PAIRS", pairs)


def rpath(extra: str = "") -> str:
    """Return the DT_RPATH of torch's own objects in a CUDA 12 wheel."""
    return ":".join(f"$ORIGIN/../../nvidia/{folder}/lib" for folder in CU12_FOLDERS.split()) + f":$ORIGIN{extra}"


def make_nvidia(site: Path) -> None:
    """Put a tiny object in place of every library of the nvidia-*-cu12 wheels, with their search paths and needs."""
    for soname, folder in [*LIBRARIES.items(), ("libcufile_rdma.so.1", "cufile")]:
        path = site / f"nvidia/{folder}/lib" / soname
        if soname == "libcusparse.so.12":
            needed = [make_stub(site.parent, "libnvJitLink.so.12")]
            make_shared(path, needed=needed, runpath="$ORIGIN/../../nvjitlink/lib:$ORIGIN")
        else:
            own_folder = soname in {"libcublas.so.12", "libcudnn.so.9", "libnvrtc.so.12", "libcufile.so.0"}
            make_shared(path, runpath="$ORIGIN" if own_folder else None)


def make_torch(site: Path, *, cuda: str | None = "12.8", extension: str) -> Path:
    """Write a torch package; `extension` is the interpreter's suffix for extension modules. Return its folder."""
    torch = site / "torch"
    lib = torch / "lib"

    def stub(*names: str) -> list[Path]:
        return [make_stub(site.parent, name) for name in names]

    cudart = stub("libcudart.so.12") if cuda else []
    make_shared(lib / "libtorch_global_deps.so", needed=cudart, rpath=rpath())
    make_shared(lib / "libc10.so", rpath=rpath())
    make_shared(lib / "libtorch_cpu.so", needed=[*stub("libc10.so"), *cudart], rpath=rpath())
    names = ["libtorch_cpu.so"]
    if cuda:
        needs = stub("libc10.so", "libcusparse.so.12", "libcudnn.so.9", "libcusparseLt.so.0", "libnccl.so.2")
        make_shared(lib / "libtorch_cuda.so", needed=[*needs, *stub("libcublas.so.12")], rpath=rpath())
        make_shared(lib / "libtorch_cuda_linalg.so", needed=stub("libcusolver.so.11"), rpath=rpath())
        names.append("libtorch_cuda.so")
    make_shared(lib / "libtorch.so", needed=stub(*names), rpath=rpath())
    make_shared(lib / "libtorch_python.so", needed=stub("libtorch.so", *names), rpath=rpath())
    needed = stub("libtorch_python.so")
    make_shared(torch / f"_C{extension}", needed=needed, rpath=rpath(":$ORIGIN/lib"), source=EXTENSION)
    (torch / "__init__.py").write_text(init_text())
    (torch / "version.py").write_text(f"__version__ = '2.10.0'\ncuda = {cuda!r}\n")
    return torch
