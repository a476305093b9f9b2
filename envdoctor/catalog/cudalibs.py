"""The CUDA libraries that come as wheels: sonames, folders and owning distributions for each CUDA major.

Sources: the RECORDs of the wheels that torch 2.6.0 to 2.15.0 require (CUDA 12.4 to 13.2), the preload lists in torch's
`__init__.py`, and for CUDA 11 and the libraries torch does not use NVIDIA's own catalogue in the cuda-pathfinder
distribution, against which a test compares this table.

Two facts make the table necessary. With CUDA 13 the distributions lost their suffix and moved to `nvidia/cu13/lib`,
except cuDNN, cuSPARSELt, NCCL and NVSHMEM (and NVIDIA's other separately released libraries), which kept both. And for
those the wheels of two majors own the very same paths: installing one overwrites the other, removing one deletes both.
"""

import re

from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern

MAJORS = ("11", "12", "13")
DRIVER_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
"""They come with the driver, never with a wheel; a machine without a GPU has none."""


@frozen
class Build:
    """One library as the wheels of one CUDA major bring it."""

    major: str
    """"11", "12" or "13"."""
    owner: str
    """The distribution, by its normalised name."""
    folder: str
    """Relative to site-packages."""
    sonames: tuple[str, ...]
    """File names, which are also the DT_SONAMEs; more than one where releases within the major differ."""


@frozen
class CudaLibrary:
    """One library, in all the majors it exists for."""

    name: str
    """NVIDIA's short name, as cuda-pathfinder spells it."""
    builds: tuple[Build, ...]
    preload_folder: str | None = None
    """The folder name under which torch's preload list has it; None when torch does not preload it."""
    family: str = ""
    """The library this is a part of: "cudnn" for libcudnn_graph; empty for one that stands alone."""

    def build(self, major: str) -> Build | None:
        """Return the build of a CUDA major."""
        return next((build for build in self.builds if build.major == major), None)

    @property
    def stems(self) -> frozenset[str]:
        """The file names without their version: "libcublas"."""
        return frozenset(soname.partition(".so")[0] for build in self.builds for soname in build.sonames)


def _library(
    name: str,
    folder: str,
    distribution: str,
    versions: tuple[str, str, str],
    *,
    preload: bool = False,
    separate: bool = False,
    family: str = "",
) -> CudaLibrary:
    """Build one row. `separate` libraries are released apart from the toolkit and keep suffix and folder in CUDA 13.

    versions: of the soname in CUDA 11, 12 and 13, where releases within the major differ the newest first; empty where
    there is none. A file that is not called libNAME.so.VERSION is named in full.
    """
    builds = tuple(
        Build(
            major=major,
            owner=distribution if major == "13" and not separate else f"{distribution}-cu{major}",
            folder="nvidia/cu13/lib" if major == "13" and not separate else f"nvidia/{folder}/lib",
            sonames=tuple(part if ".so" in part else f"lib{name}.so.{part}" for part in parts.split()),
        )
        for major, parts in zip(MAJORS, versions, strict=True)
        if parts
    )
    return CudaLibrary(name=name, builds=builds, preload_folder=folder if preload else None, family=family)


def _cudnn(part: str, in_cuda_11: str = "9") -> CudaLibrary:
    return _library(f"cudnn_{part}", "cudnn", "nvidia-cudnn", (in_cuda_11, "9", "9"), separate=True, family="cudnn")


def _npp(part: str) -> CudaLibrary:
    return _library(f"npp{part}", "npp", "nvidia-npp", MAJORS, family="" if part == "c" else "nppc")


def _minors(major: str, newest: int) -> str:
    return " ".join(f"{major}.{minor}" for minor in range(newest, -1, -1))


_BUILTINS = ("11.8 11.7", _minors("12", 9), _minors("13", 5))
_NVTX = ("libnvToolsExt.so.1", "libnvToolsExt.so.1", "libnvtx3interop.so.1")

# In the order in which torch 2.10 and later preload them; then the parts, then what torch does not preload.
LIBRARIES: tuple[CudaLibrary, ...] = (
    _library("cublasLt", "cublas", "nvidia-cublas", ("11", "12", "13"), preload=True),
    _library("cublas", "cublas", "nvidia-cublas", ("11", "12", "13"), preload=True),
    _library("cudnn", "cudnn", "nvidia-cudnn", ("9 8", "9 8", "9"), preload=True, separate=True),
    _library("nvrtc", "cuda_nvrtc", "nvidia-cuda-nvrtc", ("11.2", "12", "13"), preload=True),
    _library("nvrtc-builtins", "cuda_nvrtc", "nvidia-cuda-nvrtc", _BUILTINS, preload=True, family="nvrtc"),
    _library("cudart", "cuda_runtime", "nvidia-cuda-runtime", ("11.0", "12", "13"), preload=True),
    _library("cupti", "cuda_cupti", "nvidia-cuda-cupti", ("11.8 11.7", "12", "13"), preload=True),
    _library("cufft", "cufft", "nvidia-cufft", ("10", "11", "12"), preload=True),
    _library("curand", "curand", "nvidia-curand", ("10", "10", "10 11"), preload=True),
    _library("nvJitLink", "nvjitlink", "nvidia-nvjitlink", ("", "12", "13"), preload=True),
    _library("cusparse", "cusparse", "nvidia-cusparse", ("11", "12", "12"), preload=True),
    _library("cusparseLt", "cusparselt", "nvidia-cusparselt", ("", "0", "0"), preload=True, separate=True),
    _library("cusolver", "cusolver", "nvidia-cusolver", ("11", "11", "12"), preload=True),
    _library("nccl", "nccl", "nvidia-nccl", ("2", "2", "2"), preload=True, separate=True),
    _library("nvshmem_host", "nvshmem", "nvidia-nvshmem", ("3", "3", "3"), preload=True, separate=True),
    _library("cufile", "cufile", "nvidia-cufile", ("", "0", "0"), preload=True),
    _library("nvtx", "nvtx", "nvidia-nvtx", _NVTX, preload=True),
    _cudnn("graph"),
    _cudnn("ops"),
    _cudnn("cnn"),
    _cudnn("adv"),
    _cudnn("heuristic"),
    _cudnn("engines_precompiled"),
    _cudnn("engines_runtime_compiled"),
    _cudnn("engines_tensor_ir", ""),  # since 9.21 (pytorch issue 188892)
    _library("cufftw", "cufft", "nvidia-cufft", ("10", "11", "12"), family="cufft"),
    _library("cufile_rdma", "cufile", "nvidia-cufile", ("", "1", "1"), family="cufile"),
    _library("cusolverMg", "cusolver", "nvidia-cusolver", ("11", "11", "12"), family="cusolver"),
    _library("nvblas", "cublas", "nvidia-cublas", ("11", "12", "13"), family="cublas"),
    _library("nvfatbin", "nvfatbin", "nvidia-nvfatbin", ("", "12", "13")),
    _library("nvjpeg", "nvjpeg", "nvidia-nvjpeg", ("11", "12", "13")),
    *(_npp(part) for part in ("c", "ial", "icc", "idei", "if", "ig", "im", "ist", "isu", "itc", "s")),
    CudaLibrary(
        name="nvvm",
        builds=(
            Build(
                major="12",
                owner="nvidia-cuda-nvcc-cu12",
                folder="nvidia/cuda_nvcc/nvvm/lib64",
                sonames=("libnvvm.so.4", "libnvvm.so"),
            ),
            Build(major="13", owner="nvidia-nvvm", folder="nvidia/cu13/lib", sonames=("libnvvm.so.4",)),
        ),
    ),
)

# Distributions without a library in the table whose version is the CUDA release's own.
_VERSION_IS_CUDA = frozenset({"cuda-toolkit", "cuda-bindings", "cuda-python", "nvidia-cuda-cccl", "nvidia-cuda-crt"})
_SUFFIX = pattern(r"(?:^|-)cu(?:da)?-?(11|12|13)\d?x?(?=-|$)")
_BY_SONAME = {soname: library for library in LIBRARIES for build in library.builds for soname in build.sonames}
_BY_STEM = {stem: library for library in LIBRARIES for stem in library.stems}
_MAJOR_OF_OWNER = {build.owner: build.major for library in LIBRARIES for build in library.builds}


def owner_major(name: str, version: str) -> str | None:
    """Return the CUDA major a distribution belongs to, or None when it belongs to none or to no one major.

    By the suffix in its name (-cu12, -cuda12x), else by the table, else by its version where that is CUDA's own.
    The empty 0.0.x releases that hold some names on the index belong to none.
    """
    normal = re.sub(r"[-_.]+", "-", name).lower()
    suffix = _SUFFIX.search(normal)
    if suffix:
        return suffix[1]
    if version.startswith("0.0."):
        return None
    if normal in _MAJOR_OF_OWNER:
        return _MAJOR_OF_OWNER[normal]
    major = version.partition(".")[0]
    return major if normal in _VERSION_IS_CUDA and major in MAJORS else None


def library_of(soname: str) -> CudaLibrary | None:
    """Return the library a soname belongs to: an exact one, else one with the same name and another version."""
    stem = soname.partition(".so")[0]
    # A part of cuDNN that a later release adds is still cuDNN's.
    part = "libcudnn" if stem.startswith("libcudnn_") else stem
    return _BY_SONAME.get(soname) or _BY_STEM.get(stem) or _BY_STEM.get(part)


def majors_of(soname: str) -> tuple[str, ...]:
    """Return the CUDA majors whose wheels bring that very soname: one for libcudart.so.13, three for libnccl.so.2."""
    library = library_of(soname)
    return tuple(build.major for build in library.builds if soname in build.sonames) if library else ()


def soname_of(name: str, cuda_major: str) -> str:
    """Return the soname of a library ("curand") in a CUDA major; "libNAME.so" where the table does not say."""
    library = next((library for library in LIBRARIES if library.name == name), None)
    build = library.build(cuda_major) if library else None
    return build.sonames[0] if build else f"lib{name}.so"


def expected_owner(soname: str, cuda_major: str) -> str | None:
    """Return the distribution that should bring a soname into an environment of that CUDA major.

    A soname that only another major has (libcudart.so.13 asked of a CUDA 12 stack) gives that major's distribution.
    """
    library = library_of(soname)
    if library is None:
        return None
    wanted = library.build(cuda_major)
    majors = majors_of(soname)
    if wanted is not None and (cuda_major in majors or not majors):
        return wanted.owner
    other = library.build(majors[-1]) if majors else None
    return other.owner if other else None


def folder_of(soname: str, cuda_major: str) -> str:
    """Return the folder, relative to site-packages, where the wheels of a CUDA major put that; empty for none."""
    library = library_of(soname)
    build = library.build(cuda_major) if library else None
    return build.folder if build else ""
