"""The incident in miniature: two CUDA majors write one path, and the second one's uninstall deletes it."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import packaging

from tests.factories.make_profile import make_profile
from tests.factories.make_venv import Venv, install, make_venv, uninstall
from tests.factories.make_wheel import make_wheel

VERSION_FILE = "__version__ = '2.11.0+cu128'\ncuda = '12.8'\ngit_version = '70d99e9'\nhip = None\n"
CUDNN = "nvidia/cudnn/lib/libcudnn.so.9"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A venv that was healthy on the profile "small", and the wheels it is made of."""

    root: Path
    venv: Venv
    own: tuple[Path, ...]
    """Its wheels."""
    foreign: Path
    """The wheel of the other CUDA major."""

    def contaminate(self) -> None:
        """Install the other major's wheel over the venv's own."""
        install(self.venv, self.foreign)

    def lose(self) -> None:
        """Contaminate, then uninstall: the shared file is gone and all metadata looks well."""
        self.contaminate()
        uninstall(self.venv, "nvidia-cudnn-cu13")


def sources_of(root: Path) -> dict[str, str]:
    """Return variables that make the wheels of an incident the one source of uv and pip, without a network."""
    return {
        "PIP_FIND_LINKS": str(root / "wheels"),
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "UV_CACHE_DIR": str(root / "cache"),
        "UV_OFFLINE": "1",
    }


def make_broken_incident(root: Path) -> Incident:
    """Make the incident as it ends: the shared file is gone."""
    incident = make_incident(root)
    incident.lose()
    return incident


def make_gated_incident(root: Path, *, lost: bool = False, more: Iterable[Path] = ()) -> Incident:
    """Make an incident, or how it ends, whose venv can run the gate: that reads versions with packaging."""
    source = Path(packaging.__file__).parent
    files = {f"packaging/{path.relative_to(source)}": path.read_bytes() for path in source.rglob("*.py")}
    own = make_wheel(root / "wheels", "packaging", packaging.__version__, files=files)
    incident = make_incident(root, more=[own, *more])
    if lost:
        incident.lose()
    return incident


def make_incident(root: Path, *, environment: dict[str, str] | None = None, more: Iterable[Path] = ()) -> Incident:
    """Make the healthy venv at root/.venv, with `more` wheels in it, and the profile "small" beside it."""
    wheels = root / "wheels"
    own = [
        *more,
        make_wheel(wheels, "torch", "2.11.0+cu128", files={"torch/__init__.py": "", "torch/version.py": VERSION_FILE}),
        make_wheel(
            wheels,
            "nvidia-cudnn-cu12",
            "9.19.0.56",
            files={CUDNN: b"twelve " * 10, "nvidia/cudnn/lib/libcudnn_ops.so.9": b"ops"},
        ),
    ]
    foreign = make_wheel(wheels, "nvidia-cudnn-cu13", "9.19.0.56", files={CUDNN: b"thirteen"})
    make_profile(root, "small", own, torch="2.11.0+cu128", cuda="12.8", environment=environment)
    return Incident(root=root, venv=make_venv(root / ".venv", *own), own=tuple(own), foreign=foreign)
