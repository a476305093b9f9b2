"""Which file would satisfy each shared library of `import torch`, and whose bytes those are."""

from dataclasses import dataclass
from typing import Literal

from envdoctor.probes.context import Reading

Stage = Literal["preload", "import", "lazy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A shared object that would be mapped."""

    soname: str
    path: str
    """Relative to the prefix when inside it."""
    found_via: str
    """How the loader comes to it: "RPATH of …", "LD_LIBRARY_PATH", "ld.so.cache", "preload", …"""
    needed_by: str
    stage: Stage
    """"lazy" objects are opened at first use, not by the import."""
    owner: str
    """Distribution whose RECORD lists the path; the one whose bytes lie there when several do; empty when none."""
    owner_version: str
    cuda_major: str
    """CUDA major of those bytes ("12"), as far as owner or path tell; empty when they do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """A soname nothing would satisfy."""

    soname: str
    needed_by: str
    stage: Stage
    used_when: str
    """For a lazy one: what would open it; empty for the import itself."""
    searched: tuple[str, ...]
    """Directories in the order tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Libraries:
    """The loader's work for `import torch`, predicted."""

    simulated: bool
    reason: str
    """Why it was not simulated; empty when it was."""
    import_error: str
    """What `import torch` would raise while loading; empty when every library would load."""
    providers: tuple[Provider, ...]
    unresolved: tuple[Unresolved, ...]
    notes: tuple[str, ...]


def probe(reading: Reading) -> Libraries:  # noqa: ARG001
    """Simulate the import (the loader model replaces this)."""
    return Libraries(simulated=False, reason="not yet", import_error="", providers=(), unresolved=(), notes=())
