"""Wheels of a tiny CUDA torch and its libraries, which a real interpreter imports through a real loader."""

import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.factories.make_elf import make_shared
from tests.factories.make_torch_loader import LIBRARIES, make_nvidia, make_torch
from tests.factories.make_wheel import make_wheel

VERSION = "12.8"
SHARED_PATHS = ("cudnn", "cusparselt", "nccl", "nvshmem")
"""Folders below nvidia/ into which the wheels of both CUDA majors write the same files."""
EXTENSION = str(sysconfig.get_config_var("EXT_SUFFIX"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaWheels:
    """The wheels, by distribution name."""

    folder: Path
    wheels: dict[str, Path]
    foreign: Path
    """nvidia-nccl-cu13: the same path as nvidia-nccl-cu12, other bytes."""

    def all(self) -> Iterable[Path]:
        """Return the wheels of a healthy stack."""
        return self.wheels.values()


def distribution_of(folder: str) -> str:
    """Return the distribution that owns nvidia/<folder>."""
    return f"nvidia-{folder.replace('_', '-')}-cu12"


def make_cuda_wheels(folder: Path) -> CudaWheels:
    """Compile the libraries and pack them: torch requires every one of the others."""
    site = folder / "site"
    make_nvidia(site)
    make_torch(site, extension=EXTENSION)
    nccl13 = make_shared(folder / "cu13/libnccl.so.2", exports=["ncclCommInitRank"])
    names = [distribution_of(name) for name in dict.fromkeys(LIBRARIES.values())]
    packed = {
        distribution_of(name): make_wheel(
            folder / "wheels", distribution_of(name), VERSION, files=_files(site, f"nvidia/{name}")
        )
        for name in dict.fromkeys(LIBRARIES.values())
    }
    requires = [f"{name}=={VERSION}; sys_platform == 'linux'" for name in names]
    torch = make_wheel(folder / "wheels", "torch", "2.10.0", files=_files(site, "torch"), requires=requires)
    foreign = make_wheel(
        folder / "wheels", "nvidia-nccl-cu13", "2.28.9", files={"nvidia/nccl/lib/libnccl.so.2": nccl13.read_bytes()}
    )
    return CudaWheels(folder=folder / "wheels", wheels={"torch": torch, **packed}, foreign=foreign)


def make_foreign_majors(folder: Path, wheels: CudaWheels) -> list[Path]:
    """Make the four wheels of CUDA 13 that write paths of CUDA 12's, as in the incident: other bytes at each."""
    shared = {name: soname for soname, name in LIBRARIES.items() if name in SHARED_PATHS}
    return [
        make_wheel(
            wheels.folder,
            f"nvidia-{name}-cu13",
            "13.0",
            files={f"nvidia/{name}/lib/{soname}": make_shared(folder / soname, exports=["other"]).read_bytes()},
        )
        for name, soname in shared.items()
    ]


def _files(site: Path, below: str) -> dict[str, bytes | str]:
    return {str(path.relative_to(site)): path.read_bytes() for path in (site / below).rglob("*") if path.is_file()}
