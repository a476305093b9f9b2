"""Files that are shipped with envdoctor beside its code: the profiles, their locks, the licence."""

import importlib.metadata
from pathlib import Path

PROFILES = ("21k-toks", "cpu-smoke", "pypi-cu128")
"""Every other profile in a checkout is its owner's."""
_PACKAGE = Path(__file__).resolve().parent.parent


def shipped() -> dict[str, bytes]:
    """Return path below `_data/` -> contents."""
    names = [f"profiles/{name}.toml" for name in PROFILES] + [f"lockfiles/{name}.txt" for name in PROFILES]
    return {name: _read(name) for name in names}


def is_shipped(path: Path) -> bool:
    """Tell a file of the installed package from one of a project, which its owner may change."""
    return path.is_relative_to(_PACKAGE)


def licences() -> dict[str, bytes]:
    """Return file name -> text: our licence, and packaging's, whose source the gate has in it."""
    ours = _PACKAGE.parent / "LICENSE"
    found = {"LICENSE": ours.read_bytes()} if ours.is_file() else _licences_of("torch-envdoctor")
    return found | {f"packaging.{name}": text for name, text in _licences_of("packaging").items()}


def _licences_of(distribution: str) -> dict[str, bytes]:
    files = importlib.metadata.files(distribution) or []
    return {path.name: path.read_binary() for path in files if path.name.startswith("LICENSE")}


def _read(name: str) -> bytes:
    # A wheel keeps them inside the package, a checkout at its top level.
    inside = _PACKAGE / "_data" / name
    return (inside if inside.is_file() else _PACKAGE.parent / name).read_bytes()
