"""Wheels of tiny shared objects: NVIDIA's libraries, a torch that is linked against them, and extensions of it."""

import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from envdoctor.facts.host import Host
from tests.factories.make_elf import make_shared, make_stub
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_torch_loader import CU12_FOLDERS
from tests.factories.make_venv import Venv
from tests.factories.make_wheel import make_wheel

LOADER = "/lib64/ld-linux-x86-64.so.2"
CU13_FOLDERS = "cudnn nvshmem nccl cusparselt cu13"
CU12_LIB = "nvidia/{}/lib"
# torch before 2.1 and every build without CUDA open their libraries in this plain way.
PLAIN_INIT = """
import ctypes, os
from .version import __version__, cuda
for name in ("libc10.so", "libtorch_cpu.so", "libtorch_cuda.so"):
    path = os.path.join(os.path.dirname(__file__), "lib", name)
    if os.path.exists(path):
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise ImportError(str(error)) from None
"""


def object_bytes(name: str, *, stubs: Mapping[str, tuple[str, ...]] | None = None, **options: object) -> bytes:
    """Link a shared object and return it. `stubs` are sonames it needs -> symbols it asks of each.

    A symbol "name@VERSION" is asked in that version.
    """
    with tempfile.TemporaryDirectory() as folder:
        needed, undefined = [], [*options.pop("undefined", ())]  # type: ignore[call-overload]
        for soname, symbols in (stubs or {}).items():
            version = next((symbol.partition("@")[2] for symbol in symbols if "@" in symbol), None)
            names = [symbol.partition("@")[0] for symbol in symbols]
            needed.append(make_stub(Path(folder), soname, exports=names, version=version))
            undefined += names
        path = Path(folder, "made", name)
        return make_shared(path, needed=needed, undefined=undefined, **options).read_bytes()  # type: ignore[arg-type]


def make_library(
    wheels: Path,
    name: str,
    version: str,
    path: str,
    /,
    *,
    requires: Iterable[str] = (),
    **options: object,
) -> Path:
    """Make a wheel that owns one shared object at `path`."""
    made = object_bytes(path.rpartition("/")[2], **options)  # type: ignore[arg-type]
    return make_wheel(wheels, name, version, files={path: made}, requires=requires)


def make_linked_torch(
    wheels: Path,
    version: str,
    cuda: str,
    *,
    needs: Mapping[str, tuple[str, ...]],
    c10: Iterable[str] = (),
    requires: Iterable[str] = (),
) -> Path:
    """Make a torch wheel whose libtorch_cuda.so needs those sonames and symbols, with the real wheels' DT_RPATH."""
    folders = CU13_FOLDERS if cuda.startswith("13") else CU12_FOLDERS
    rpath = ":".join(f"$ORIGIN/../../nvidia/{folder}/lib" for folder in folders.split()) + ":$ORIGIN"
    return make_torch(
        wheels,
        version,
        cuda,
        requires=requires,
        files={
            "torch/__init__.py": PLAIN_INIT,
            "torch/lib/libc10.so": object_bytes("libc10.so", exports=list(c10)),
            "torch/lib/libtorch_cuda.so": object_bytes("libtorch_cuda.so", stubs=needs, rpath=rpath),
        },
    )


def host_without_cache(home: Path, **environ: str) -> Host:
    """Return a host without a loader cache: the machine of the test may have a CUDA toolkit in its own."""
    host = bare_host(home, **environ)
    return replace(host, ld_so_cache=home / "no-ld.so.cache")


def real_error(venv: Venv, code: str, host: Host) -> str:
    """Run code in the venv's own interpreter without a loader cache; return the last line of what it raises, or ""."""
    done = subprocess.run(
        [LOADER, "--inhibit-cache", str(venv.python), "-c", code],
        env=dict(host.environ) | {"PYTHONDONTWRITEBYTECODE": "1"},
        cwd=host.cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""
