"""What a user has put into a venv's folder: a restore must not put it away, a prune must not delete it."""

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from envdoctor.facts.folders import walk
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.record_rows import parse_rows
from envdoctor.swap.store import STORE

_MAXIMUM_RECORD = 32 << 20

CACHE_FOLDERS = ("fxgraph", "aotautograd", "torchinductor*", ".triton", "torch_extensions")
"""Folders a compiler's cache has (torch/_inductor/codecache.py, triton/runtime/cache.py), wherever it lies."""
# What venv, virtualenv, uv, wheels' data files and envdoctor itself put at the top of a venv.
VENV_ENTRIES = (
    "bin", "lib", "lib64", "include", "share", "etc", "man", "doc", "pyvenv.cfg", ".gitignore", ".lock", "CACHEDIR.TAG",
    "envdoctor-restore.json", "__pycache__", "nvvm", STORE,
)  # fmt: skip
# What they put further down, in no RECORD.
_MADE = pattern(
    r"bin/(?:python(?:3(?:\.\d+)?t?)?|activate(?:\.(?:bat|csh|fish|nu|ps1|xsh)|_this\.py)?|Activate\.ps1"
    r"|deactivate(?:\.bat|\.nu)?|pydoc\.bat)"
    r"|lib/python3\.\d+t?/site-packages/(?:_virtualenv\.(?:py|pth)"
    # What installers note, in no RECORD or in one that is damaged.
    r"|[^/]+\.dist-info/(?:RECORD(?:\.jws|\.p7s)?|METADATA|WHEEL|INSTALLER|REQUESTED|direct_url\.json|uv_\w+\.json"
    r"|entry_points\.txt|top_level\.txt|zip-safe)"
    # What pip could not finish removing.
    r"|~.*)"
)


def unmanaged_files(venv: Path, listed: Collection[str]) -> list[str]:
    """Return the names at the top of a venv that are neither a venv's own, nor a compile cache's, nor empty files.

    listed: what `listed_files` returns.
    """
    top = f"{venv}/"
    # Also what wheels' data files brought there (rows `../../../LICENSE`).
    recorded = {path.removeprefix(top).split("/")[0] for path in listed if path.startswith(top)}
    known = (*VENV_ENTRIES, *CACHE_FOLDERS, *recorded)
    return sorted(
        entry.name
        for entry in venv.iterdir()
        if not any(fnmatch(entry.name, one) for one in known) and not _empty(entry)
    )


def unrecorded(venv: Path, listed: Collection[str] | None = None, *, caches: bool = True) -> list[str]:
    """Return the files, as paths in the venv, that no RECORD lists and neither uv, pip, venv nor Python makes.

    Links and empty files are left out: there is nothing in them to lose. What is gone by now is not one either. Without
    `caches` no compile cache at the top of the venv is looked into.
    """
    listed = listed_files(venv) if listed is None else listed
    found = []
    for folder, folders, files in walk(venv):
        folders[:] = [name for name in folders if name not in ("__pycache__", STORE)]
        if not caches and folder == str(venv):
            folders[:] = [name for name in folders if not any(fnmatch(name, one) for one in CACHE_FOLDERS)]
        for name in files:
            path = os.path.join(folder, name)  # noqa: PTH118 - 26,000 of them
            if path in listed:
                continue
            inner = os.path.relpath(path, venv)
            if inner in VENV_ENTRIES or _MADE.fullmatch(inner):
                continue
            with suppress(FileNotFoundError, NotADirectoryError):
                status = os.lstat(path)
                if stat.S_ISREG(status.st_mode) and status.st_size:
                    found.append(inner)
    return sorted(found)


def listed_files(venv: Path) -> set[str]:
    """Return the absolute paths that RECORDs list. What a damaged one would list counts as the user's: rather kept."""
    found: set[str] = set()
    for record in venv.glob("lib/python3.*/site-packages/*.dist-info/RECORD"):
        try:
            rows, _ = parse_rows(read_regular(record, _MAXIMUM_RECORD))
        except OSError:
            continue
        site = str(record.parent.parent)
        found.update(os.path.normpath(f"{site}/{row[0]}") for row in rows)
    return found


def _empty(entry: Path) -> bool:
    # A stamp that a Makefile touches: there is nothing in it to lose.
    return entry.is_file() and not entry.is_symlink() and entry.stat().st_size == 0
