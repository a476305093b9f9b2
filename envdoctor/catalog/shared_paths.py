"""Wheels that are known to write the same paths, as data.

Sources: the RECORDs of the wheels themselves. CUDA: nvidia-{cudnn,cusparselt,nccl,nvshmem}-cu11/-cu12/-cu13 share their
folders (SGLang pull request 31035 tells of the same loss); nvidia-cusparselt-cu13 moved to nvidia/cu13 with 0.10.0.
Modules: nvitop issue 44 (pynvml), onnxruntime's and opencv-python's own README (install only one), uv issue 10564.
"""

from collections.abc import Collection

SHARED_FOLDERS: dict[str, tuple[str, ...]] = {
    "nvidia/cudnn": ("nvidia-cudnn-cu11", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13"),
    "nvidia/cusparselt": ("nvidia-cusparselt-cu12", "nvidia-cusparselt-cu13"),
    "nvidia/nccl": ("nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13"),
    "nvidia/nvshmem": ("nvidia-nvshmem-cu11", "nvidia-nvshmem-cu12", "nvidia-nvshmem-cu13"),
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-training"),
    "cv2": (
        "opencv-python",
        "opencv-python-headless",
        "opencv-contrib-python",
        "opencv-contrib-python-headless",
    ),
    "triton": ("triton", "pytorch-triton", "triton-nightly", "pytorch-triton-rocm", "pytorch-triton-xpu"),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tf-nightly"),
    "faiss": ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu12"),
    "xgboost": ("xgboost", "xgboost-cpu"),
    "cupy": ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"),
    "cupy_backends": ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"),
    "cupyx": ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"),
    "bson": ("bson", "pymongo"),
    "jwt": ("jwt", "pyjwt"),
    "Crypto": ("pycrypto", "pycryptodome"),
    "PIL": ("pillow", "pillow-simd"),
    "docx": ("docx", "python-docx"),
    "psycopg2": ("psycopg2", "psycopg2-binary"),
    "serial": ("pyserial", "serial"),
}
"""Folder below site-packages -> the distributions that write into it."""

_DEEPEST = max(folder.count("/") + 1 for folder in SHARED_FOLDERS)

SHARED_FILES: dict[str, tuple[str, ...]] = {
    "pynvml.py": ("nvidia-ml-py", "nvidia-ml-py3", "pynvml"),
}
"""File below site-packages -> the distributions that write it."""


NAMESPACES = frozenset({"nvidia", "google", "azure", "mpl_toolkits", "sphinxcontrib", "zope"})
"""Folders that belong to no one distribution: each of their wheels brings an `__init__.py` that is empty or extends
`__path__` (nvidia-nvimgcodec-cu13 0.9's has a licence and pkgutil.extend_path, NVIDIA's CUDA wheels' is empty)."""


MAINTAINED: dict[str, str] = {"pynvml": "nvidia-ml-py"}
"""Module -> the one of its writers that is still maintained (nvitop issue 44: the others are forks or empty shims)."""


def shared_module(owners: Collection[str]) -> str:
    """Return the module that all these distributions are known to write, or empty."""
    wanted = set(owners)
    names = [(path.removesuffix(".py"), writers) for path, writers in (*SHARED_FILES.items(), *SHARED_FOLDERS.items())]
    return next((name for name, writers in names if "/" not in name and wanted <= set(writers)), "")


def module_of(name: str, others: Collection[str]) -> tuple[str, str]:
    """Return (module, the one of `others`) where that one is known to install the module that `name` would bring."""
    return next(((module, other) for other in others if (module := shared_module([name, other]))), ("", ""))


def other_writers(path: str, owner: str) -> set[str]:
    """Return the distributions other than `owner` known to write `path` (relative to site-packages)."""
    writers: set[str] = set(SHARED_FILES.get(path, ()))
    parts = path.split("/")
    for depth in range(1, min(len(parts), _DEEPEST + 1)):
        writers.update(SHARED_FOLDERS.get("/".join(parts[:depth]), ()))
    return writers - {owner} if owner in writers else set()
