"""Which live processes use a cache: taking files from under a running job breaks it.

A process that has mapped or opened a file of a root uses it. So does one that has torch loaded and was started with an
environment that means the root: a wrapper's source is read again long after it was compiled (inspect.getsource).
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from envdoctor.cache.layout import Root
from envdoctor.catalog.cache_kinds import BY_NAME
from envdoctor.facts.host import Host
from envdoctor.facts.processes import closed, command_line, processes, strings
from envdoctor.model.frozen import frozen
from envdoctor.probes.machine.mounts import NETWORK, mount_of

_TORCH = "/libtorch"


@frozen
class CacheUser:
    """A process that uses a root."""

    pid: int
    command: str
    root: str
    """Kind of the root."""


def users(roots: Iterable[Root], host: Host, own_pid: int) -> tuple[CacheUser, ...]:
    """Return the processes that use a root, as far as this user may look into them; `own_pid` is left out."""
    looked_for = list(roots)
    found = []
    for folder in processes(host.proc):
        pid = int(folder.name)
        if pid != own_pid:
            kinds = set(_used(folder, looked_for, host))
            found += [
                CacheUser(pid=pid, command=command_line(strings(folder / "cmdline")), root=kind)
                for kind in sorted(kinds)
            ]
    return tuple(found)


def not_seen(roots: Iterable[Root], host: Host) -> tuple[str, ...]:
    """Say of which processes `users` does not know whether they use a root that others may write to."""
    shared = [root for root in roots if _others_write(root.path, host.uid)]
    unseen = closed(host.proc) if shared else []
    told = []
    for root in shared:
        if unseen:
            first = command_line(strings(unseen[0] / "cmdline"))
            told.append(
                f"{root.kind}: others may write to it, and {len(unseen)} process{'es' * (len(unseen) > 1)} could not "
                f"be looked into, first {unseen[0].name} ({first})"
            )
        if (kind := mount_of(root.path, host).type) in NETWORK:
            told.append(f"{root.kind}: it is on {kind}, and processes of other hosts could not be looked into")
    return tuple(told)


def _others_write(path: Path, uid: int) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_uid != uid or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _opened(process: Path) -> Iterator[str]:
    for link in (process / "fd").iterdir():
        # A process at work closes some meanwhile.
        with suppress(FileNotFoundError):
            yield str(link.readlink())


def _used(process: Path, roots: Sequence[Root], host: Host) -> Iterator[str]:
    try:
        maps = (process / "maps").read_text(errors="replace")
        links = list(_opened(process))
        raw = (process / "environ").read_bytes()
        current = (process / "cwd").readlink()
        own = process.stat().st_uid == host.uid
    except OSError:
        # Gone meanwhile, or another user's: `not_seen` says so.
        return
    pairs = (entry.partition("=") for entry in os.fsdecode(raw).split("\0"))
    environ = {name: value for name, _, value in pairs}
    for root in roots:
        inside = os.path.realpath(root.path) + "/"
        opened = inside in maps or any(link.startswith(inside) for link in links)
        if opened or (_TORCH in maps and _means(environ, current, root, host, own=own)):
            yield root.kind


def _means(environ: Mapping[str, str], current: Path, root: Root, host: Host, *, own: bool) -> bool:
    """Say whether a process with this environment and current folder, if it compiles, does so in that root."""
    kind = BY_NAME[root.kind]
    if kind.owner != "torch":
        return False
    if kind.variable in environ:
        # Written as people write paths: relative, through a link, with a slash at the end.
        return os.path.realpath(current / environ[kind.variable] / kind.below) == os.path.realpath(root.path)
    same = all(environ.get(name) == host.environ.get(name) for name in kind.deciding)
    return own and root.found_via == "default" and same
