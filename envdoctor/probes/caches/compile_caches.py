"""Compile caches this environment would use: where, how large, how old, on what filesystem, and what a cold start cost.

Locations as the code that writes them decides: torch/_inductor/runtime/cache_dir_utils.py, triton/runtime/cache.py,
torch/utils/cpp_extension.py, flashinfer/jit/env.py, and CUDA's programming guide for ~/.nv. Triton kernels that
inductor generates lie in inductor's folder; the folder of kind "triton" holds those of hand-written kernels.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen
from envdoctor.probes.machine.mounts import NETWORK, filesystem_type

# A cache of a training run holds some thousand files; past this many the size is a lower bound, and says so.
_MAXIMUM_ENTRIES = 20_000


@frozen
class CompileCache:
    """One cache folder."""

    kind: str
    """inductor, triton, torch_extensions, flashinfer or cuda."""
    path: str
    found_via: str
    """The variable or default that names it."""
    present: bool
    entries: int
    """Files."""
    bytes: int
    counted_all: bool
    """False when counting stopped early: `entries` and `bytes` are then lower bounds."""
    oldest: int
    """Modification time of the oldest file, seconds since the epoch; 0 when empty."""
    newest: int
    filesystem: str
    """Type of the mount ("ext4", "tmpfs", "nfs4"); empty when not known."""
    writable: bool
    owner_uid: int
    """-1 when absent."""

    @property
    def shared(self) -> bool:
        """Tell whether other nodes can write the same folder."""
        return self.filesystem in NETWORK


@frozen
class ColdStart:
    """What compiling everything cost a profile, as its last warm-up from nothing measured it."""

    profile: str
    seconds: float
    at: str
    """UTC, ISO 8601."""


@frozen
class CompileCaches:
    """All caches, present or not."""

    caches: tuple[CompileCache, ...]
    cold_starts: tuple[ColdStart, ...] = ()
    """By profile; only of profiles that were warmed here."""

    def of(self, kind: str) -> CompileCache | None:
        """Return the cache of that kind."""
        return next((cache for cache in self.caches if cache.kind == kind), None)


def probe(reading: Reading) -> CompileCaches:
    """Locate and measure each cache. A folder that cannot be listed counts as empty and not counted in full."""
    return CompileCaches(
        caches=tuple(_measure(kind, path, via, reading.host) for kind, path, via in locate(reading.host)),
        cold_starts=tuple(_cold_starts(store_folder(reading.host))),
    )


def store_folder(host: Host) -> Path:
    """Return where snapshots and the history of warm-ups are kept: ENVDOCTOR_CACHE_STORE, else under XDG_DATA_HOME."""
    data, _ = _named(host.environ, "XDG_DATA_HOME", host.home / ".local" / "share")
    return _named(host.environ, "ENVDOCTOR_CACHE_STORE", data / "envdoctor" / "caches")[0]


def history_file(store: Path, profile: str) -> Path:
    """Return the history of a profile's warm-ups: one JSON object a line, the newest last."""
    return store / "warm" / profile / "history.jsonl"


def _cold_starts(store: Path) -> Iterator[ColdStart]:
    for path in sorted(store.glob("warm/*/history.jsonl")):
        try:
            lines = [json.loads(line) for line in path.read_text(errors="replace").splitlines() if line.strip()]
            yield ColdStart(profile=path.parent.name, seconds=float(lines[-1]["seconds"]), at=str(lines[-1]["at"]))
        except (OSError, ValueError, LookupError, TypeError):
            # A history is a convenience: one that cannot be read tells nothing, and stops nothing.
            continue


def locate(host: Host) -> Iterator[tuple[str, Path, str]]:
    """Yield (kind, folder, what names it) for every cache under this host's environment."""
    environ = host.environ
    # torch replaces what a file name on Windows or a shell dislikes; the class is the one of default_cache_dir().
    user = re.sub(r'[\\/:*?"<>|]', "_", host.user)
    inductor, via = _named(environ, "TORCHINDUCTOR_CACHE_DIR", host.tmp / f"torchinductor_{user}")
    # torch makes a relative folder absolute (cache_dir_utils.py), so the working directory is a part of it.
    yield "inductor", host.cwd / inductor, via
    triton_home, home_via = _named(environ, "TRITON_HOME", host.home)
    triton, via = _named(environ, "TRITON_CACHE_DIR", triton_home / ".triton" / "cache")
    yield "triton", triton, home_via if via == "default" else via
    xdg, xdg_via = _named(environ, "XDG_CACHE_HOME", host.home / ".cache")
    extensions, via = _named(environ, "TORCH_EXTENSIONS_DIR", xdg / "torch_extensions")
    yield "torch_extensions", extensions, xdg_via if via == "default" else via
    base, via = _named(environ, "FLASHINFER_WORKSPACE_BASE", host.home)
    yield "flashinfer", base / ".cache" / "flashinfer", via
    cuda, via = _named(environ, "CUDA_CACHE_PATH", host.home / ".nv" / "ComputeCache")
    yield "cuda", cuda, via


def _named(environ: Mapping[str, str], variable: str, default: Path) -> tuple[Path, str]:
    value = environ.get(variable)
    return (Path(value), variable) if value else (default, "default")


def _measure(kind: str, path: Path, via: str, host: Host) -> CompileCache:
    entries = size = newest = oldest = 0
    counted_all = True
    for status in _files(path):
        if status is None or entries >= _MAXIMUM_ENTRIES:
            counted_all = False
            if entries >= _MAXIMUM_ENTRIES:
                break
            continue
        entries += 1
        size += status.st_size
        modified = int(status.st_mtime)
        newest = max(newest, modified)
        oldest = modified if not oldest else min(oldest, modified)
    present = path.is_dir()
    return CompileCache(
        kind=kind,
        path=str(path),
        found_via=via,
        present=present,
        entries=entries,
        bytes=size,
        counted_all=counted_all,
        oldest=oldest,
        newest=newest,
        filesystem=filesystem_type(path, host),
        writable=os.access(_nearest(path), os.W_OK),
        owner_uid=path.stat().st_uid if present else -1,
    )


def _nearest(path: Path) -> Path:
    return path if path.exists() or path == path.parent else _nearest(path.parent)


def _files(folder: Path) -> Iterator[os.stat_result | None]:
    """Yield the lstat of each regular file below `folder`, and None where something could not be read."""
    pending = [str(folder)]
    while pending:
        try:
            with os.scandir(pending.pop()) as listing:
                for entry in listing:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        except OSError:
            yield None
