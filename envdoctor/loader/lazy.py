"""What torch and cuDNN open only when they are used: the import succeeds, the first use on a GPU fails.

None of these names is in a DT_NEEDED. Which library opens which, and by which name, was read from the strings of torch
2.10.0's and cuDNN 9.10's libraries; names of cuDNN's parts are read from the installed libcudnn.so.9 and
libcudnn_graph.so.9, because the set changes between releases (pytorch issue 188892: libcudnn_engines_tensor_ir).
"""

import os
import re
from typing import NamedTuple

from envdoctor.elf.image import open_regular
from envdoctor.errors import ElfError
from envdoctor.loader.graph import Loader
from envdoctor.loader.loaded import LoadedObject, LoadFailure, LoadResult
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern

NVRTC_BUILTINS = "libnvrtc-builtins.so."
CUDNN_PART = pattern(r"libcudnn_[a-z_]+\.so(?:\.\d+)?")
OPTIONAL_PART = "libcudnn_engines_tensor_ir"
"""libcudnn_graph asks for it since 9.20; the wheels bring it since 9.21, and without it other engines are used."""
MAX_SCANNED = 16 << 20
"""libcudnn.so.9 has 0.1 MB, libcudnn_graph.so.9 4 MB. The parts with the kernels (0.5 GB) name no others."""


@frozen
class LazyLibrary:
    """One library that is opened by name after the import."""

    name: str
    opener: str
    """The path of the object that calls dlopen."""
    when: str
    """What first needs it."""
    optional: bool
    """True when its absence only switches a feature off."""
    result: LoadResult

    @property
    def path(self) -> str | None:
        """The file it resolves to, symlinks resolved; None when it cannot be opened."""
        return self.result.root.real if self.result.root else None


class _Call(NamedTuple):
    name: str
    opener: str
    when: str
    optional: bool = False


_CALLS = (
    _Call("libcuda.so.1", "libtorch_cuda.so", "the first CUDA call"),
    _Call("libnvidia-ml.so.1", "libc10_cuda.so", "memory and device queries", optional=True),
    _Call("libtorch_cuda_linalg.so", "libtorch_cuda.so", "torch.linalg on a GPU"),
    _Call("libcaffe2_nvrtc.so", "libtorch_cuda.so", "kernels compiled at run time by torch itself"),
    _Call("libnvrtc.so.{cuda}", "libcusparseLt.so.0", "semi-structured sparse matrix products"),
    _Call("libnvrtc.so.{cuda}", "libcublasLt.so.{cuda}", "cuBLASLt kernels compiled at run time", optional=True),
    _Call(NVRTC_BUILTINS, "libnvrtc.so.{cuda}", "any NVRTC compilation"),
    _Call("libnvJitLink.so.{cuda}", "libcufft.so", "cuFFT callbacks and LTO kernels", optional=True),
    _Call("libcufile_rdma.so.1", "libcufile.so.0", "GPUDirect Storage over RDMA", optional=True),
)


def simulate(
    loader: Loader, torch: str, cuda: str | None, known: tuple[LoadFailure, ...] = ()
) -> tuple[LazyLibrary, ...]:
    """Try every lazily opened library in the loader's present state; the loader itself is left as it is.

    `known` are failures of the import itself: a tolerant loader meets them again here, and they are left out.
    """
    found: list[LazyLibrary] = []
    if cuda:
        found += _calls(loader.fork(), cuda)
        found += _cudnn(loader.fork(), cuda.partition(".")[0])
    found += _rest_of_torch(loader.fork(), torch, {item.name for item in found})
    messages = {failure.message for failure in known}
    return tuple(_without(item, messages) for item in found)


def _without(library: LazyLibrary, known: set[str]) -> LazyLibrary:
    missing = tuple(failure for failure in library.result.missing if failure.message not in known)
    return replace(library, result=replace(library.result, missing=missing, failure=missing[0] if missing else None))


def _calls(loader: Loader, cuda: str) -> list[LazyLibrary]:
    found: list[LazyLibrary] = []
    for call in _CALLS:
        major = cuda.partition(".")[0]
        opener = _mapped(loader, call.opener.format(cuda=major))
        name = call.name.format(cuda=major)
        if name == NVRTC_BUILTINS and opener is not None:
            name = _builtins_of(loader, opener, cuda)
        # What torch ships beside itself it opens only if it is there; a build without it has the code linked in.
        inside = name.startswith(("libtorch_", "libcaffe2_"))
        if opener is None or (inside and not _beside(loader, opener, name)):
            continue
        found.append(_try(loader, name, opener, call.when, optional=call.optional))
    return found


def _builtins_of(loader: Loader, opener: LoadedObject, cuda: str) -> str:
    """NVRTC asks for the builtins of its own minor version, which are beside it in every wheel."""
    names = loader.disk.names(os.path.dirname(opener.path))
    return next((name for name in names if re.fullmatch(NVRTC_BUILTINS + r"\d+\.\d+", name)), NVRTC_BUILTINS + cuda)


def _mapped(loader: Loader, name: str) -> LoadedObject | None:
    exact = loader.find(name)
    return exact or next((item for item in loader.objects if (item.soname or "").startswith(f"{name}.")), None)


def _beside(loader: Loader, opener: LoadedObject, name: str) -> bool:
    return loader.disk.identity(os.path.join(os.path.dirname(opener.path), name)) is not None


def _try(loader: Loader, name: str, opener: LoadedObject, when: str, *, optional: bool = False) -> LazyLibrary:
    result = loader.open(name, requester=opener.path, label="first use")
    return LazyLibrary(name=name, opener=opener.path, when=when, optional=optional, result=result)


def _cudnn(loader: Loader, major: str) -> list[LazyLibrary]:
    """Follow cuDNN's own dlopen calls: the shim opens the parts, and the graph part opens the engines."""
    found: list[LazyLibrary] = []
    openers = [item for item in loader.objects if re.match(r"libcudnn(_graph)?\.so\.\d+$", item.soname or "")]
    seen: set[str] = set()
    for opener in openers:
        for name in _cudnn_parts(opener):
            if name in seen or name == opener.soname:
                continue
            seen.add(name)
            when = "the first cuDNN operation (convolution, attention, RNN)"
            library = _try(loader, name, opener, when, optional=name.startswith(OPTIONAL_PART))
            found.append(library)
            root = library.result.root
            if root is not None and (root.soname or "").startswith("libcudnn_graph.") and root not in openers:
                openers.append(root)
                found.append(_try(loader, f"libnvrtc.so.{major}", root, "cuDNN kernels compiled at run time"))
    return found


def _cudnn_parts(opener: LoadedObject) -> list[str]:
    """Read the names of parts out of an object's strings. The shim keeps them without the version, which it appends."""
    if opener.elf.size > MAX_SCANNED:
        return []
    try:
        with open(open_regular(opener.path), "rb") as file:
            data = file.read(MAX_SCANNED)
    except (OSError, ElfError):
        return []
    suffix = (opener.soname or "").rpartition(".so")[2]
    names: list[str] = []
    at = data.find(b"libcudnn_")
    while at >= 0:
        text = data[at : data.find(b"\0", at, at + 64)].decode("latin-1")
        if CUDNN_PART.fullmatch(text):
            names.append(text if text.rpartition(".so")[2] else text + suffix)
        at = data.find(b"libcudnn_", at + 1)
    return list(dict.fromkeys(names))


def _rest_of_torch(loader: Loader, torch: str, tried: set[str]) -> list[LazyLibrary]:
    """Open what else is in torch/lib, by path: what nothing else reaches may still be opened by an extension."""
    folder = os.path.join(torch, "lib")
    mapped = {item.elf.identity for item in loader.objects}
    opener = _mapped(loader, "libtorch.so") or loader.objects[0]
    found: list[LazyLibrary] = []
    for name in sorted(loader.disk.names(folder)):
        path = os.path.join(folder, name)
        if not re.fullmatch(r"lib.+\.so(\.\d+)*", name) or name in tried or loader.disk.identity(path) in mapped:
            continue
        result = loader.open(path, label="first use")
        found.append(LazyLibrary(name=name, opener=opener.path, when="not known", optional=True, result=result))
    return found
