"""What the driver, the GPU, compilers, compile caches, launchers and NCCL say. The special comes before the general."""

from envdoctor.model.symptom import Symptom

_NODES = "envdoctor fleet check --hosts FILE"
_CACHE = "envdoctor cache status"
_PROFILE = "envdoctor check -p NAME"
_FOREIGN_NCCL = "libnccl.so.2 holds the bytes of another CUDA major's wheel"
_CLEANED = "a file of the compile cache vanished: an installation step, /tmp, a reboot"
_UNSUITED = "the compile cache is on a filesystem that does not suit one"
_NONE_SEEN = "the container was started without its GPUs, or its driver is not mounted"
_HIDDEN = "CUDA_VISIBLE_DEVICES leaves fewer GPUs than the launch needs"

MACHINE: tuple[Symptom, ...] = (
    Symptom(
        text="The NVIDIA driver on your system is too old (found version 12080).",
        anchors=("driver on your system is too old", "CUDA driver version is insufficient for CUDA runtime version"),
        meaning="The driver is older than the CUDA that torch was built with.",
        causes=(
            ("ED701", "torch is a build for a newer CUDA: take the build for this driver, or upgrade the driver"),
            ("ED703", "an older libcuda of the image comes before the driver's own"),
        ),
    ),
    Symptom(
        text="Failed to initialize NVML: Driver/library version mismatch",
        anchors=("Driver/library version mismatch", "NVML/RM version mismatch", "LibRmVersionMismatch"),
        meaning="The driver's kernel module and its libraries are of two versions.",
        causes=(("ED702", "the driver was upgraded and its old module is still loaded"),),
    ),
    Symptom(
        text="Failed to initialize NVML: Unknown Error",
        anchors=("Failed to initialize NVML: Unknown Error",),
        meaning="The driver is there and the container has no access to it any more.",
        causes=(("ED706", "the host reloaded systemd, and the container lost its device cgroup"),),
    ),
    Symptom(
        text="Error 804: forward compatibility was attempted on non supported HW",
        anchors=("forward compatibility was attempted on non supported HW",),
        meaning="A libcuda of an image is loaded in place of the driver's own.",
        causes=(("ED703", "a `compat` folder is on LD_LIBRARY_PATH, or a driver is part of the image"),),
    ),
    Symptom(
        text="Error 803: system has unsupported display driver / cuda driver combination",
        anchors=("system has unsupported display driver / cuda driver combination",),
        meaning="libcuda and the driver's kernel module do not belong together.",
        causes=(
            ("ED702", "the driver was upgraded and its old module is still loaded"),
            ("ED703", "an older libcuda of the image comes before the driver's own"),
        ),
    ),
    Symptom(
        text="CUDA driver is a stub library",
        anchors=("CUDA driver is a stub library", "cuInit returned 34", "cuInit failed: 34", "CUDA_ERROR_STUB_LIBRARY"),
        meaning="libcuda.so.1 is the toolkit's, made for linking: it answers every call with error 34.",
        causes=(("ED708", "the toolkit's `stubs` folder is on LD_LIBRARY_PATH"),),
        commands=("envdoctor why libcuda.so.1", "envdoctor check"),
    ),
    Symptom(
        text="RuntimeError: Found no NVIDIA driver on your system.",
        anchors=("Found no NVIDIA driver on your system",),
        meaning="torch is a CUDA build, and no driver is in sight.",
        causes=(("ED707", _NONE_SEEN),),
    ),
    Symptom(
        text="RuntimeError: No CUDA GPUs are available",
        anchors=(
            "No CUDA GPUs are available",
            "invalid device ordinal",
            "device >= 0 && device < num_gpus",
            "no CUDA-capable device is detected",
            "NCCL is only supported with GPUs, no GPUs found",
        ),
        meaning="The process sees fewer GPUs than it asks for.",
        causes=(
            ("ED606", _HIDDEN),
            ("ED707", _NONE_SEEN),
        ),
    ),
    Symptom(
        text="Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
        anchors=("Duplicate GPU detected",),
        meaning="Two ranks of the job use one GPU.",
        causes=(
            ("", "the program does not call `torch.cuda.set_device(LOCAL_RANK)` before the process group is made"),
            ("", "the launch starts more ranks on the node than it has GPUs"),
            ("ED606", "CUDA_VISIBLE_DEVICES names one GPU twice, or leaves fewer than there are ranks"),
        ),
    ),
    Symptom(
        text="torch.cuda.is_available() returns False",
        anchors=("is_available() returns False", "is_available() == False", "is_available() is False"),
        meaning="torch cannot use a GPU, and does not say why.",
        causes=(
            ("ED411", "torch is a CPU build"),
            ("ED404", "torch is another build than the profile's"),
            ("ED701", "the driver is too old for this build"),
            ("ED707", _NONE_SEEN),
            ("ED606", "CUDA_VISIBLE_DEVICES hides the GPUs"),
        ),
        commands=("envdoctor check", _PROFILE),
    ),
    Symptom(
        text="CUDA unknown error - this may be due to an incorrectly set up environment",
        anchors=("this may be due to an incorrectly set up environment",),
        meaning="The driver answers with an error that says nothing.",
        causes=(
            ("ED706", "the driver is there, and this process has no access to it"),
            ("ED702", "the driver was upgraded and its old module is still loaded"),
            ("ED606", "CUDA_VISIBLE_DEVICES names no GPU"),
        ),
    ),
    Symptom(
        text="CUDA error: no kernel image is available for execution on the device",
        anchors=("no kernel image is available", "is not compatible with the current PyTorch installation"),
        meaning="torch, or an extension, holds no code for this GPU.",
        causes=(
            ("ED704", "the GPU is newer or older than those that this torch was built for"),
            ("ED503", "a compiled extension in a cache was built for other GPUs"),
        ),
    ),
    Symptom(
        text="The detected CUDA version (13.0) mismatches the version that was used to compile PyTorch (12.8)",
        anchors=("mismatches the version that was used to compile PyTorch",),
        meaning="An extension would be compiled by the nvcc of another CUDA.",
        causes=(("ED602", "CUDA_HOME, or the nvcc on PATH, is of another CUDA major than torch"),),
    ),
    Symptom(
        text="OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
        anchors=("CUDA_HOME environment variable is not set",),
        meaning="An extension is to be compiled, and no CUDA toolkit is found.",
        causes=(
            ("", "no toolkit is installed: torch's wheels bring the libraries and no nvcc"),
            ("", "one is installed, and neither CUDA_HOME nor PATH leads to its nvcc"),
        ),
        commands=(),
    ),
    Symptom(
        text="FileNotFoundError: [Errno 2] No such file or directory: ':/usr/local/cuda-12.8/bin/nvcc'",
        anchors=("No such file or directory: '",),
        pattern=r"No such file or directory: '(?P<path>:[^']{0,300}|[^']{0,300}/bin/(?:nvcc|ptxas))'",
        meaning="A variable that names the CUDA toolkit names no folder.",
        causes=(("ED607", "CUDA_HOME is not a list: `export CUDA_HOME=$CUDA_HOME:/usr/local/cuda` breaks it"),),
    ),
    Symptom(
        text="FileNotFoundError: [Errno 2] No such file or directory: 'ninja'",
        anchors=("No such file or directory: 'ninja'", "Ninja is required to load C++ extensions"),
        meaning="A package starts ninja by its name to compile.",
        causes=(("ED608", "ninja is in the venv, and PATH does not lead there: the venv is not activated"),),
    ),
    Symptom(
        text="fatal error: Python.h: No such file or directory",
        anchors=("Python.h: No such file", "Failed to find C compiler", "No working C++ compiler found"),
        meaning="torch.compile or Triton compiles C at run time and cannot.",
        causes=(("ED705", "the image has no compiler, or not the headers of Python"),),
        commands=(_PROFILE,),
    ),
    Symptom(
        text="ValueError: Fast download using 'hf_transfer' is enabled but 'hf_transfer' package is not available",
        anchors=("Fast download using", "hf_transfer is not available"),
        meaning="A variable switches on a package that is not installed.",
        causes=(("ED607", "HF_HUB_ENABLE_HF_TRANSFER=1 is set for another environment"),),
    ),
    Symptom(
        text="OSError: Could not find a suitable TLS CA certificate bundle, invalid path: /etc/ssl/certs/ca.pem",
        anchors=("suitable TLS CA certificate bundle, invalid path",),
        meaning="A variable names a file of certificates that does not exist.",
        causes=(("ED607", "REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE was set for another machine"),),
    ),
    Symptom(
        text="RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized function.",
        anchors=("FX to symbolically trace a dynamo-optimized function", "is_fx_symbolic_tracing"),
        meaning="One thread traces while another one calls a compiled function. The compile cache has no part in it.",
        causes=(("ED510", "this torch keeps its tracing flag for the whole process, and several threads compile"),),
        commands=(_PROFILE,),
    ),
    Symptom(
        text="OSError: [Errno 116] Stale file handle",
        anchors=("Stale file handle", "[Errno 116]", "[Errno 16] Device or resource busy"),
        meaning="A file on a network filesystem was replaced by another node.",
        causes=(("ED502", "several nodes share one compile cache on it"),),
        commands=("envdoctor cache status", "envdoctor check"),
    ),
    Symptom(
        text="ValueError: @jit functions should be defined in a Python file",
        anchors=(
            "source code not available",
            "could not get source code",
            "@jit functions should be defined in a Python file",
        ),
        meaning="The source of a function cannot be read.",
        causes=(
            ("", "the function was typed into a REPL, or comes from `python -c` or exec: write it into a file"),
            ("", "its file was changed or deleted while the process ran"),
            ("ED501", _CLEANED),
            ("ED502", _UNSUITED),
        ),
        commands=(_CACHE, _PROFILE),
    ),
    Symptom(
        text="torch._inductor.exc.InductorError: SubprocException: An exception occurred in a subprocess:",
        anchors=("InductorError: SubprocException",),
        meaning="A worker process of torch.compile failed; its own error is in the lines below.",
        causes=(
            ("", "a kernel did not compile, or the worker was killed: memory"),
            ("ED705", "there is no C compiler, or not the headers of Python"),
            ("ED501", _CLEANED),
            ("ED502", _UNSUITED),
        ),
        commands=(_CACHE, _PROFILE),
    ),
    Symptom(
        text="PermissionError: [Errno 13] Permission denied: '/tmp/torchinductor_alice/fxgraph'",
        anchors=("Permission denied: '",),
        pattern=r"Permission denied: '[^']{0,300}(?:torchinductor|\.triton|torch_extensions)",
        meaning="The compile cache belongs to another user.",
        causes=(("ED505", "the cache is in a folder that several users share"),),
        commands=("envdoctor cache status", "envdoctor check"),
    ),
    Symptom(
        text="bash: .venv/bin/torchrun: bad interpreter: No such file or directory",
        anchors=("bad interpreter", "cannot execute: required file not found"),
        meaning="The script names a Python that is not there.",
        causes=(
            ("ED103", "the venv was moved or copied"),
            ("ED101", "the Python that the venv was made from was removed or upgraded"),
        ),
    ),
    Symptom(
        text="Broken symlink at `.venv/bin/python3`, was the underlying Python interpreter removed?",
        anchors=(
            "was the underlying Python interpreter removed",
            "Broken symlink at",
            "No virtual environment or system Python installation found for path",
            "Failed to inspect Python interpreter",
        ),
        meaning="The venv's interpreter cannot be started.",
        causes=(("ED101", "the Python that the venv was made from was removed or upgraded"),),
    ),
    Symptom(
        text="The virtual environment was not created successfully because ensurepip is not available.",
        anchors=("ensurepip is not available",),
        meaning="The system's Python comes without the parts that make a venv.",
        causes=(
            ("", "install the package python3-venv, or make the venv with `uv venv`"),
            ("ED101", "what was left of the venv has no interpreter that works"),
        ),
    ),
    Symptom(
        text="torch.distributed.DistBackendError: NCCL error: unhandled system error, ncclSystemError",
        anchors=("ncclSystemError",),
        meaning="A call of the system failed inside NCCL. With NCCL_DEBUG=INFO it says which one.",
        causes=(
            ("", "the nodes do not reach each other by the network interface that NCCL chose: NCCL_SOCKET_IFNAME"),
            ("", "shared memory (/dev/shm) is too small, as in a container without `--shm-size` or `--ipc=host`"),
            ("", "the nodes have different torch, NCCL or drivers: compare them"),
        ),
        commands=(_NODES,),
    ),
    Symptom(
        text="ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        anchors=("ncclRemoteError",),
        meaning="Another process of the job closed its connection.",
        causes=(
            ("", "another rank died: the first error in the logs of the other ranks is the cause"),
            ("", "the network between two nodes failed: NCCL_DEBUG=INFO names the peer"),
        ),
        commands=("envdoctor explain --log FILE",),
    ),
    Symptom(
        text="ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
        anchors=("ncclInvalidUsage",),
        meaning="NCCL was called in a way that it refuses; the line `Last error` below says in which.",
        causes=(
            ("", "two ranks use one GPU: no `torch.cuda.set_device(LOCAL_RANK)`, or more ranks than GPUs"),
            ("ED606", _HIDDEN),
        ),
    ),
    Symptom(
        text="ncclUnhandledCudaError: Call to CUDA function failed.",
        anchors=("ncclUnhandledCudaError",),
        meaning="A call of CUDA failed inside NCCL. With NCCL_DEBUG=INFO it says which one.",
        causes=(
            ("", "the GPU's memory is full, or an earlier kernel failed: run with CUDA_LAUNCH_BLOCKING=1"),
            ("ED701", "the driver is too old for this torch"),
            ("ED203", _FOREIGN_NCCL),
        ),
    ),
    Symptom(
        text="ncclInternalError: Internal check failed.",
        anchors=("ncclInternalError",),
        meaning="NCCL met a state that it does not expect. With NCCL_DEBUG=INFO it says which one.",
        causes=(
            ("", "the nodes have different NCCL, torch or drivers: compare them"),
            ("ED203", _FOREIGN_NCCL),
        ),
        commands=(_NODES, "envdoctor check"),
    ),
    Symptom(
        text="Watchdog caught collective operation timeout",
        anchors=("Watchdog caught collective operation timeout",),
        meaning="One rank did not come to the collective call: it died, or does something else.",
        causes=(
            ("", "look for the first rank that failed; if none did, compare the nodes"),
            ("ED502", "a rank died of a compile cache that several nodes share"),
            ("ED501", "a rank still compiles: its cache is cold"),
        ),
        commands=(_NODES, _CACHE),
    ),
)
