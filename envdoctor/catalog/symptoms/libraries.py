"""What the loader, cuDNN and cuBLAS say of shared libraries. In each table the special comes before the general."""

from envdoctor.model.symptom import Symptom

_CANNOT_OPEN = (": cannot open",)
_NO_FILE = ": cannot open(?: shared object file)?"
_WHY = ("envdoctor why {library}", "envdoctor check")
_NOT_FOUND = "The loader found no file for a library that is needed."
_UNDEFINED = ("undefined symbol",)
_WITH_PROFILE = ("envdoctor check", "envdoctor check -p NAME")
_LACKING = "A library was found that does not have what another one was linked against."
_UNINSTALLED = "another wheel that writes the same file was uninstalled; the owner's metadata is complete"

LIBRARIES: tuple[Symptom, ...] = (
    Symptom(
        text="libtorch_cuda.so: cannot open shared object file: No such file or directory",
        anchors=_CANNOT_OPEN,
        pattern=r"(?P<library>lib(?:c10|torch)_(?:cuda|hip|xpu)\w*\.so)" + _NO_FILE,
        meaning="An extension needs a part of torch that only a GPU build of torch has.",
        causes=(
            ("ED309", "the extension was built for a CUDA build of torch, and a CPU build is installed"),
            ("ED404", "the CUDA build of the profile was replaced"),
            ("ED202", "the file of torch is missing"),
        ),
        commands=_WITH_PROFILE,
    ),
    Symptom(
        text="libc10.so: cannot open shared object file: No such file or directory",
        anchors=_CANNOT_OPEN,
        pattern=r"(?P<library>lib(?:c10|shm|torch\w*)\.so)" + _NO_FILE,
        meaning="An extension of torch was loaded before torch.",
        causes=(
            ("", "the program imports the extension first: put `import torch` before it"),
            ("ED309", "with torch imported first it still fails: the extension was built for another torch"),
            ("ED202", "the file of torch is missing"),
        ),
    ),
    Symptom(
        text="libcuda.so.1: cannot open shared object file: No such file or directory",
        anchors=_CANNOT_OPEN,
        pattern=r"(?P<library>lib(?:cuda|nvidia-ml|nvidia-ptxjitcompiler)\.so\.\d+)" + _NO_FILE,
        meaning="A library of the GPU driver is not visible. No wheel brings it.",
        causes=(("ED707", "there is no driver here, or the container was started without its GPUs"),),
        commands=_WHY,
    ),
    Symptom(
        text="libpython3.11.so.1.0: cannot open shared object file: No such file or directory",
        anchors=_CANNOT_OPEN,
        pattern=r"(?P<library>libpython[\w.]+)" + _NO_FILE,
        meaning="The interpreter itself cannot be started, or a module was built for another one.",
        causes=(
            ("ED101", "the Python that the venv was made from was removed or upgraded"),
            ("ED104", "a distribution was built for another Python"),
        ),
    ),
    Symptom(
        text="libcudnn.so.9: cannot open shared object file: No such file or directory",
        anchors=_CANNOT_OPEN,
        pattern=r"(?P<library>lib(?:cudnn\w*|cusparseLt|nccl|nvshmem\w*)\.so(?:\.\d+)*)" + _NO_FILE,
        meaning="The loader found no file for a CUDA library, which the wheels of CUDA 12 and 13 write to one path.",
        causes=(
            ("ED201", _UNINSTALLED),
            ("ED301", "no wheel that brings it is installed"),
            ("ED307", "it is installed, and the extension that needs it does not search there"),
        ),
        commands=_WHY,
    ),
    Symptom(
        text="libcudart.so.13: cannot open shared object file: No such file or directory",
        anchors=_CANNOT_OPEN,
        pattern=(
            r"(?P<library>lib(?:cudart|cublas\w*|cufft\w*|curand|cusolver\w*|cusparse|cufile|cupti|nvrtc[\w-]*"
            r"|nvJitLink|nvToolsExt|nvtx3\w*|npp\w*)\.so(?:\.\d+)*)" + _NO_FILE
        ),
        meaning="The loader found no file for a CUDA library. Its version is the CUDA major of what needs it.",
        causes=(
            ("ED306", "an extension was built for another CUDA major than torch"),
            ("ED307", "it is installed, and the extension that needs it does not search there"),
            ("ED301", "torch needs it, and no wheel that brings it is installed"),
            ("ED203", "the file that needs it is of another CUDA major: two wheels write one path"),
            ("ED503", "an extension in a compile cache was built for another stack"),
        ),
        commands=_WHY,
    ),
    Symptom(
        text="libnuma.so.1: cannot open shared object file: No such file or directory",
        anchors=_CANNOT_OPEN,
        pattern=r"(?P<library>\w[\w.+-]{0,200}\.so[\w.]{0,40})" + _NO_FILE,
        meaning=_NOT_FOUND,
        causes=(
            ("ED307", "a system library that no wheel brings, or one that is not searched for where it is"),
            ("ED301", "`import torch` needs it, and nothing provides it"),
            ("ED202", "the file of an installed distribution is missing"),
        ),
        commands=_WHY,
    ),
    Symptom(
        text="ERROR: ld.so: object 'libjemalloc.so.2' from LD_PRELOAD cannot be preloaded: ignored.",
        anchors=("cannot be preloaded",),
        meaning="LD_PRELOAD names a file that does not exist or cannot be loaded.",
        causes=(("ED602", "the variable was set for another machine or another environment"),),
    ),
    Symptom(
        text="Could not load libtorchcodec. Likely causes: FFmpeg is not properly installed in your environment.",
        anchors=("Could not load libtorchcodec",),
        meaning="None of torchcodec's builds can be loaded.",
        causes=(("ED307", "the FFmpeg that they need is not installed on this system"),),
    ),
    Symptom(
        text="[sgl_kernel] CRITICAL: Could not load any common_ops library!",
        anchors=("Could not load any common_ops library",),
        meaning="The extension of sgl-kernel cannot be loaded; the line below names the library.",
        causes=(
            ("ED307", "it needs a system library that no wheel brings"),
            ("ED309", "it was built for another torch"),
            ("ED306", "it was built for another CUDA major than torch"),
        ),
    ),
    Symptom(
        text="undefined symbol: ncclCommResume",
        anchors=_UNDEFINED,
        pattern=r"undefined symbol: (?P<symbol>nccl\w+)",
        meaning="libnccl.so.2 is another release than the one torch was linked against.",
        causes=(
            ("ED203", "the wheel of another CUDA major wrote over the file"),
            ("ED305", "the library in place is older than torch needs"),
            ("ED602", "LD_LIBRARY_PATH leads to another one"),
        ),
        commands=("envdoctor why libnccl.so.2", "envdoctor check"),
    ),
    Symptom(
        text="flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs",
        anchors=_UNDEFINED,
        pattern=r"undefined symbol: (?P<symbol>_ZNK?R?(?:3c10|2at|5torch|6caffe2|4c10d)\w*)",
        meaning="An extension was compiled against another torch than the one that is installed.",
        causes=(
            ("ED309", "its wheel is for another torch, or for the other C++ string"),
            ("ED408", "a companion (torchvision, torchaudio) is of another release than torch"),
            ("ED410", "another torch is imported first"),
        ),
    ),
    Symptom(
        text="libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12",
        anchors=_UNDEFINED,
        pattern=r"undefined symbol: (?P<symbol>(?:__nvJitLink|nvJitLink|cu[a-z]+[A-Z]|cudnn|nvrtc)\w*)",
        meaning="A CUDA library is taken from another toolkit than the one torch was built with.",
        causes=(
            ("ED602", "LD_LIBRARY_PATH leads to a toolkit of another release"),
            ("ED203", "the wheel of another CUDA major wrote over the file"),
            ("ED305", "the library in place is older than what needs it"),
        ),
    ),
    Symptom(
        text="undefined symbol: iJIT_NotifyEvent",
        anchors=_UNDEFINED,
        meaning=_LACKING,
        causes=(
            ("ED305", "the library in place is of another release"),
            ("ED309", "an extension was built for another torch"),
            ("ED602", "LD_LIBRARY_PATH leads to another library"),
            ("ED605", "conda and pip each brought a part of one package"),
        ),
    ),
    Symptom(
        text="/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found",
        anchors=("' not found",),
        pattern=r"(?:version [`'])?(?P<version>(?:GLIBC|GLIBCXX|CXXABI|GCC|GOMP|OMP)_[\w.]+)' not found",
        meaning="A wheel was built for a newer glibc or libstdc++ than the one that is loaded.",
        causes=(
            ("ED310", "the system is older than the wheel, or the newer library lost its link"),
            ("ED602", "LD_LIBRARY_PATH leads to an older one"),
        ),
    ),
    Symptom(
        text="libtorch_cpu.so: invalid ELF header",
        anchors=("invalid ELF header", "file too short", "ELF load command past end of file"),
        meaning="A library is there, and its contents are damaged.",
        causes=(
            ("ED311", "the file was cut off or overwritten: a full disk, a killed installation"),
            ("ED202", "its size is not the one that RECORD states"),
        ),
    ),
    Symptom(
        text="failed to map segment from shared object",
        anchors=("failed to map segment from shared object",),
        meaning="The kernel refused to map a library's code.",
        causes=(
            ("ED502", "the compile cache is on a mount with `noexec`"),
            ("ED311", "the library itself is damaged"),
        ),
    ),
    Symptom(
        text="CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
        anchors=("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "CUDNN_STATUS_VERSION_MISMATCH"),
        meaning="cuDNN opened a part of itself that is of another release.",
        causes=(
            ("ED308", "some of its parts come from the wheel, others from the system or LD_LIBRARY_PATH"),
            ("ED203", "the wheel of another CUDA major wrote over some of its files"),
        ),
    ),
    Symptom(
        text="Unable to load any of {libcudnn_engines_precompiled.so.9.10.2, libcudnn_engines_precompiled.so.9}",
        anchors=("Unable to load any of {libcudnn", "Cannot load symbol cudnn", "Could not load library libcudnn"),
        meaning="cuDNN did not find a part of itself that it opens at first use.",
        causes=(
            ("ED303", "its wheel is not there, or lost that file"),
            ("ED201", _UNINSTALLED),
            ("ED308", "its parts come from two places"),
        ),
    ),
    Symptom(
        text="Error in dlopen: libcusolver.so.11: cannot load",
        anchors=("Error in dlopen",),
        meaning="torch did not find a library that it opens at first use.",
        causes=(
            ("ED303", "the wheel that brings it is not installed"),
            ("ED202", "a file of torch is missing"),
        ),
    ),
    Symptom(
        text="RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        anchors=("CUBLAS_STATUS_NOT_INITIALIZED", "CUBLAS_STATUS_NOT_SUPPORTED", "CUBLAS_STATUS_INVALID_VALUE"),
        meaning="cuBLAS could not start, or refused a call.",
        causes=(
            (
                "",
                "the GPU's memory is full, or an index of the program is out of range: run with CUDA_LAUNCH_BLOCKING=1",
            ),
            ("ED602", "LD_LIBRARY_PATH leads to another cuBLAS"),
            ("ED302", "cuBLAS is of another CUDA major than torch"),
            ("ED701", "the driver is too old for this torch"),
        ),
    ),
)
