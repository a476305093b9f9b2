"""Compile caches this environment would use: where, what is in them, what of that is damaged, and on what mount.

What a cold start cost is read from the history of warm-ups. Triton kernels that inductor generates are in inductor's
folder; the folder of kind "triton" holds those of hand-written kernels.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from envdoctor.catalog.cache_kinds import (
    BY_NAME,
    CACHES,
    GRAPHS,
    HEADER,
    KERNELS,
    PORTABLE,
    TEMPORARY,
    entry_of,
    kind_of,
)
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.facts.owned import adder_of, maker_of, trusted_with
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import field, frozen, mutable
from envdoctor.model.wording import counted, size
from envdoctor.probes.caches.entry_damage import damage, may_be_empty
from envdoctor.probes.machine.mounts import NETWORK, Mount, mount_of
from envdoctor.standards.bounded_json import loads

# A cache of a training run holds some thousand files; past this many the size is a lower bound, and says so.
_MAXIMUM_ENTRIES = 20_000
_MAXIMUM_HISTORY = 4 << 20
# A single graph with its kernels can be this large: what is left is no room for a compile.
_NEARLY_FULL = 32 << 20


@frozen
class CompileCache:
    """One cache folder."""

    kind: str
    """A name of `envdoctor/catalog/cache_kinds.py`."""
    path: str
    found_via: str
    """The variable or default that names it."""
    present: bool
    entries: int
    """Files, without precompiled headers."""
    bytes: int
    """Of those files."""
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
    world_writable: bool = False
    """Everybody may write there."""
    others: str = ""
    """Who else than this user and root can put code there: "belongs to user 7", "holds a/b.so, which …"; or empty."""
    graphs: int = 0
    """Compiled graphs."""
    kernels: int = 0
    """Triton and C++ kernels, those of inductor's folder included."""
    header_bytes: int = 0
    """Of precompiled headers, which say nothing about what is compiled."""
    damaged: tuple[str, ...] = ()
    """"PATH: what is wrong" of the files that cannot be used: the empty ones, and with `--deep` every damaged one."""
    mount_point: str = ""
    obstacle: str = ""
    """What of the mount is in the way of a compile: "noexec", "read-only", "full", "without inodes"; or empty."""

    @property
    def shared(self) -> bool:
        """Tell whether other nodes can write the same folder."""
        return self.filesystem in NETWORK

    @property
    def contents(self) -> str:
        """Say what is in it: "3 graphs, 5 kernels, 4.1 MB"; of one that is not of graphs its files."""
        parts = [counted(self.graphs, "graph")] if self.graphs else []
        parts += [counted(self.kernels, "kernel")] if self.kernels else []
        parts = parts or [counted(self.entries, "file")]
        return ", ".join((*parts, size(self.bytes)))


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
    fit_folder: str = ""
    """A folder, as a shell line writes it, below which a cache can be kept: "$HOME/.cache", "/var/tmp"; or empty."""

    def of(self, kind: str) -> CompileCache | None:
        """Return the cache of that kind."""
        return next((cache for cache in self.caches if cache.kind == kind), None)


def probe(reading: Reading) -> CompileCaches:
    """Locate and measure each cache. A folder that cannot be listed counts as empty and not counted in full."""
    return CompileCaches(
        caches=tuple(_measure(kind, path, via, reading) for kind, path, via in locate(reading.host)),
        cold_starts=tuple(_cold_starts(store_folder(reading.host))),
        fit_folder=_fit_folder(reading.host),
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
            lines = [loads(line, 100) for line in read_regular(path, _MAXIMUM_HISTORY).splitlines() if line.strip()]
            yield ColdStart(profile=path.parent.name, seconds=float(lines[-1]["seconds"]), at=str(lines[-1]["at"]))
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            # A history is a convenience: one that cannot be read tells nothing, and stops nothing.
            continue


def locate(host: Host) -> Iterator[tuple[str, Path, str]]:
    """Yield (kind, folder, what names it) for every cache under this host's environment."""
    # torch replaces what a file name on Windows or a shell dislikes; the class is the one of default_cache_dir().
    user = re.sub(r'[\\/:*?"<>|]', "_", host.user)
    for kind in CACHES:
        base = (host.tmp if kind.base == "temporary" else host.home) / kind.base_below
        base, via = _named(host.environ, kind.base_variable, base)
        folder = base / kind.default.replace("USER", user)
        if value := host.environ.get(kind.variable):
            folder, via = Path(value) / kind.below, kind.variable
        # torch makes a relative folder absolute (cache_dir_utils.py), so the working directory is a part of it.
        yield kind.name, host.cwd / folder, via


def _named(environ: Mapping[str, str], variable: str, default: Path) -> tuple[Path, str]:
    value = environ.get(variable)
    return (Path(value), variable) if value else (default, "default")


def _measure(kind: str, path: Path, via: str, reading: Reading) -> CompileCache:
    host = reading.host
    trusted = trusted_with(reading.target.prefix, host.uid)
    counted = _Count(kind=kind, deep=reading.options.deep, trusted=trusted)
    for name, status in _files(path, counted.folder):
        if status is None or counted.files >= _MAXIMUM_ENTRIES:
            counted.all = False
            if counted.files >= _MAXIMUM_ENTRIES:
                break
            continue
        counted.add(path, name, status)
    present = path.is_dir()
    adder = adder_of(path, trusted) if present else ""
    mount, nearest = mount_of(path, host), _nearest(path)
    return CompileCache(
        kind=kind,
        path=str(path),
        found_via=via,
        present=present,
        entries=counted.files,
        bytes=counted.bytes,
        counted_all=counted.all,
        oldest=counted.oldest,
        newest=counted.newest,
        filesystem=mount.type,
        writable=os.access(nearest, os.W_OK),
        owner_uid=path.stat().st_uid if present else -1,
        world_writable=adder == "can be written by everybody",
        others=adder or counted.others,
        graphs=counted.graphs,
        kernels=len(counted.kernels),
        header_bytes=counted.header_bytes,
        damaged=tuple(sorted(counted.damaged)),
        mount_point=mount.point,
        obstacle=_obstacle(nearest, mount, mapped=BY_NAME[kind].mapped),
    )


@mutable
class _Count:
    """What a walk over one folder adds up to."""

    kind: str
    deep: bool
    trusted: frozenset[int]
    others: str = ""
    files: int = 0
    bytes: int = 0
    graphs: int = 0
    header_bytes: int = 0
    oldest: int = 0
    newest: int = 0
    all: bool = True
    kernels: set[str] = field(default_factory=set)
    damaged: list[str] = field(default_factory=list)

    def add(self, folder: Path, name: str, status: os.stat_result) -> None:
        """Count one file; `name` is its path below `folder`."""
        self.folder(name, status)
        modified = int(status.st_mtime)
        self.newest = max(self.newest, modified)
        self.oldest = modified if not self.oldest else min(self.oldest, modified)
        kind = kind_of(self.kind, name)
        if kind == HEADER:
            self.header_bytes += status.st_size
            return
        self.files += 1
        self.bytes += status.st_size
        self.graphs += kind in GRAPHS
        if kind in KERNELS:
            self.kernels.add(entry_of(self.kind, name))
        self._look(folder, name, kind, empty=not status.st_size)

    def folder(self, name: str, status: os.stat_result) -> None:
        """Note the first file or folder that somebody else can have made."""
        if not self.others and (who := maker_of(status.st_uid, status.st_mode, self.trusted)):
            self.others = f"holds {name}, which {who}"

    def _look(self, folder: Path, name: str, kind: str, *, empty: bool) -> None:
        # The size is known from the walk; only contents need the file to be opened.
        if self.kind not in PORTABLE:
            return
        problem = "empty" if empty and not may_be_empty(name) else ""
        if not empty and self.deep:
            problem = damage(folder / name, kind)
        if problem:
            self.damaged.append(f"{name}: {problem}")


def _obstacle(nearest: Path, mount: Mount, *, mapped: bool) -> str:
    if mapped and "noexec" in mount.options:
        return "noexec"
    if "ro" in mount.options:
        return "read-only"
    try:
        status = os.statvfs(nearest)
    except OSError:
        return ""
    if status.f_blocks and status.f_bavail * status.f_frsize < _NEARLY_FULL:
        return "full"
    return "without inodes" if status.f_files and not status.f_favail else ""


def _fit_folder(host: Host) -> str:
    for folder, shown in ((host.home / ".cache", "$HOME/.cache"), (Path("/var/tmp"), "/var/tmp/$USER")):  # noqa: S108
        nearest = _nearest(folder)
        if os.access(nearest, os.W_OK | os.X_OK) and not _obstacle(nearest, mount_of(nearest, host), mapped=True):
            return shown
    return ""


def _nearest(path: Path) -> Path:
    return path if path.exists() or path == path.parent else _nearest(path.parent)


def _files(folder: Path, seen: Callable[[str, os.stat_result], None]) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield (path below `folder`, lstat) of each regular file, and ("", None) where something could not be read.

    seen: told of each folder below, in the same form.
    """
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            with os.scandir(folder / below) as listing:
                for entry in listing:
                    # What is being written, locks, and our own folder are no work of a compiler's that counts.
                    if TEMPORARY.match(entry.name) or (not below and entry.name == "locks"):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        seen(below + entry.name, entry.stat(follow_symlinks=False))
                        pending.append(f"{below}{entry.name}/")
                    elif entry.is_file(follow_symlinks=False):
                        yield below + entry.name, entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        except OSError:
            yield "", None
