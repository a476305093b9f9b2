"""Which library a symbol belongs to, by its name: an unversioned symbol does not say which file lacks it.

CUDA's libraries name their functions after themselves (their headers); torch's C++ symbols carry their namespace, whose
library is that of torch/CMakeLists and c10/CMakeLists: c10 in libc10, c10::cuda in libc10_cuda, the rest in libtorch_*.
"""

from envdoctor.model.pattern import pattern

_C_PREFIXES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("nccl", ("libnccl",)),
    ("pnccl", ("libnccl",)),
    ("cudnn", ("libcudnn",)),
    ("cublasLt", ("libcublasLt",)),
    ("cublas", ("libcublas",)),
    ("cusparseLt", ("libcusparseLt",)),
    ("cusparse", ("libcusparse",)),
    ("cusolverMg", ("libcusolverMg",)),
    ("cusolver", ("libcusolver",)),
    ("cufft", ("libcufft",)),
    ("curand", ("libcurand",)),
    ("__nvJitLink", ("libnvJitLink",)),
    ("nvJitLink", ("libnvJitLink",)),
    ("nvrtc", ("libnvrtc",)),
    ("cupti", ("libcupti",)),
    ("nvshmem", ("libnvshmem_host",)),
    ("cuFile", ("libcufile",)),
    ("nvjpeg", ("libnvjpeg",)),
    ("cuda", ("libcudart",)),
)
_TORCH = pattern(r"_Z(?:TI|TS|TV|TT|GV)?(?:N[VK]*)?(?P<first>3c10|2at|5torch|6caffe2)(?P<second>4cuda)?")
_TORCH_LIBRARIES = {
    "3c10": ("libc10", "libtorch_cpu", "libtorch"),
    "3c104cuda": ("libc10_cuda", "libc10", "libtorch_cuda", "libtorch"),
}
# torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h, exported by libtorch_cpu.
_TORCH_C = ("aoti_torch_", "torch_")
_TORCH_REST = ("libtorch_cpu", "libtorch_cuda", "libtorch_python", "libtorch", "libc10")
_CXX11 = "std::__cxx11::"
_OLD_STRING = pattern(r"std::(?:string|basic_string<char|list<)")


def library_stems(symbol: str) -> tuple[str, ...]:
    """Return the names of the libraries ("libnccl") that a symbol could come from, likeliest first; () if not known."""
    if match := _TORCH.match(symbol):
        return _TORCH_LIBRARIES.get(match["first"] + (match["second"] or ""), _TORCH_REST)
    if symbol.startswith(_TORCH_C):
        return _TORCH_REST
    return next((stems for prefix, stems in _C_PREFIXES if symbol.startswith(prefix)), ())


def is_torch_symbol(symbol: str) -> bool:
    """Tell whether a name is in one of torch's C++ namespaces, or is of its C interface for extensions."""
    return _TORCH.match(symbol) is not None or symbol.startswith(_TORCH_C)


def stem_of(name: str) -> str:
    """Return "libnccl" of "libnccl.so.2"."""
    return name.partition(".so")[0]


def wanted_abi(symbol: str, demangled: str) -> str:
    """Return which std::string a symbol was compiled with: "cxx11", "pre-cxx11", or "" when it names none.

    libstdc++ has two since GCC 5 (its manual, "Dual ABI"); torch's wheels moved to the new one with 2.6.0+cu126 and
    2.7.0, and wheels of extensions name theirs in the file name (cxx11abiTRUE).
    """
    if _CXX11 in demangled or "__cxx11" in symbol:
        return "cxx11"
    if _OLD_STRING.search(demangled) or symbol.endswith(("ESs", "RKSs")):
        return "pre-cxx11"
    return ""
