"""Which live processes use a cache: taking files from under a running job breaks it.

A process that has mapped or opened a file of a root uses it. So does one that has torch loaded and was started with the
root in its environment: a wrapper's source is read again long after it was compiled (inspect.getsource).
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from envdoctor.cache.layout import Root
from envdoctor.probes.host import Host

_VARIABLES = {"inductor": b"TORCHINDUCTOR_CACHE_DIR=", "triton": b"TRITON_CACHE_DIR="}
_TORCH = "/libtorch"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A process that uses a root."""

    pid: int
    command: str
    root: str
    """Kind of the root."""


def users(roots: Iterable[Root], host: Host, own_pid: int) -> tuple[User, ...]:
    """Return the processes that use a root, as far as this user may look into them; `own_pid` is left out."""
    real = {root.kind: os.path.realpath(root.path) for root in roots}
    found = []
    for folder in _processes(host.proc):
        pid = int(folder.name)
        if pid == own_pid:
            continue
        kinds = set(_used(folder, real))
        found += [User(pid=pid, command=_command(folder), root=kind) for kind in sorted(kinds)]
    return tuple(found)


def _processes(proc: Path) -> Iterator[Path]:
    names = (name for name in os.listdir(proc) if name.isdigit())  # noqa: PTH208 - names alone, hundreds of them
    yield from (proc / name for name in sorted(names, key=int))


def _used(process: Path, roots: Mapping[str, str]) -> Iterator[str]:
    try:
        maps = (process / "maps").read_text(errors="replace")
        links = [str(link.readlink()) for link in (process / "fd").iterdir()]
        environ = (process / "environ").read_bytes()
    except OSError:
        # Gone meanwhile, or another user's: the kernel lets nobody look.
        return
    for kind, folder in roots.items():
        inside = folder + "/"
        named = _VARIABLES.get(kind, b"\0") + os.fsencode(folder) + b"\0"
        opened = inside in maps or any(link.startswith(inside) for link in links)
        if opened or (_TORCH in maps and named in environ + b"\0"):
            yield kind


def _command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return ""
    return b" ".join(words).decode(errors="replace")[:120]
