"""What a person has put into a venv's folder: a restore must not put it away, a prune must not delete it."""

from fnmatch import fnmatch
from pathlib import Path

from envdoctor.stack.store import STORE

CACHE_FOLDERS = ("fxgraph", "aotautograd", "torchinductor*", ".triton", "torch_extensions")
"""Folders a compiler's cache has (torch/_inductor/codecache.py, triton/runtime/cache.py), wherever it lies."""
# What venv, virtualenv, uv, wheels' data files and envdoctor itself put at the top of a venv.
_VENV_ENTRIES = (
    "bin", "lib", "lib64", "include", "share", "etc", "man", "doc", "pyvenv.cfg", ".gitignore", ".lock", "CACHEDIR.TAG",
    "envdoctor-restore.json", "__pycache__", "nvvm", STORE,
)  # fmt: skip


def strangers(venv: Path) -> list[str]:
    """Return the names at the top of a venv that are neither a venv's own, nor a compile cache's, nor empty files."""
    known = (*_VENV_ENTRIES, *CACHE_FOLDERS, *_recorded(venv))
    return sorted(
        entry.name
        for entry in venv.iterdir()
        if not any(fnmatch(entry.name, pattern) for pattern in known) and not _empty(entry)
    )


def _recorded(venv: Path) -> set[str]:
    """Return the top-level names that wheels' data files brought (rows `../../../LICENSE`)."""
    found: set[str] = set()
    for record in venv.glob("lib/python3.*/site-packages/*.dist-info/RECORD"):
        for line in record.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("../../../"):
                found.add(line.removeprefix("../../../").split(",")[0].split("/")[0])
    return found


def _empty(entry: Path) -> bool:
    # A stamp that a Makefile touches: there is nothing in it to lose.
    return entry.is_file() and not entry.is_symlink() and entry.stat().st_size == 0
