"""Every file of a venv held against every RECORD that claims it: what a repair is planned from and judged by."""

from collections.abc import Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from envdoctor.model.events import Listener
from envdoctor.model.frozen import frozen
from envdoctor.stack.claims import Claim, Fault, claims_of
from envdoctor.stack.owner_graph import Graph, graph
from envdoctor.stack.verify import Verified, hash_all
from envdoctor.swap.installed import Installed, installed, site_packages

Mark = tuple[int, int, int]
"""(inode, size, modified)."""


@frozen
class Promises:
    """Every claim of a venv, held against the disk."""

    claims: list[Claim]
    faults: list[Fault]
    torn: Mapping[str, str]
    """Distributions whose own metadata is damaged, and what is wrong with it."""

    @property
    def graph(self) -> Graph:
        """Return who owns what."""
        bad = {(fault.owner, fault.path) for fault in self.faults}
        return graph(self.claims, {(c.owner, c.path) for c in self.claims if (c.owner, c.shown) in bad})


def read_promises(venv: Path, listen: Listener, known: Mapping[Mark, str]) -> Promises:
    """Hash every file of every RECORD, but those whose mark is `known` to have the recorded hash."""
    site = site_packages(venv)
    claims: list[Claim] = []
    faults: list[Fault] = []
    torn: dict[str, str] = {}
    for info in sorted(site.glob("*.dist-info")) if site else ():
        found: list[Fault] = []
        claims_of(info, site or venv, venv, claims, found)
        faults += found
        unread = [name for name in ("RECORD", "METADATA") if not (info / name).is_file()]
        if unread:
            torn[distribution_of(info)] = f"has no {' and no '.join(unread)}"
    faults += hash_all([claim for claim in claims if known.get(mark_of(claim.path)) != claim.digest], listen)
    # A row without a hash states nothing that a file could differ from: virtualenv lists folders and notes so.
    escaping = {(fault.owner, fault.path) for fault in faults if fault.problem.startswith(("leads out", "has no hash"))}
    faults = [fault for fault in faults if (fault.owner, fault.path) not in escaping]
    return Promises(claims=claims, faults=faults, torn=torn)


def mark_of(path: Path) -> Mark:
    """Return what tells a file that was not touched since; zeros when there is none."""
    try:
        status = path.lstat()
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def kept_files(read: Promises) -> dict[Mark, str]:
    """Return mark -> hash of the files that are as their one owner recorded."""
    bad = {(fault.owner, fault.path) for fault in read.faults}
    # A path with two owners is read again: which one's it is decides.
    owners: dict[Path, int] = {}
    for claim in read.claims:
        owners[claim.path] = owners.get(claim.path, 0) + 1
    return {
        mark_of(claim.path): claim.digest
        for claim in read.claims
        if claim.digest and owners[claim.path] == 1 and (claim.owner, claim.shown) not in bad
    }


def distribution_of(info: Path) -> str:
    """Return the normalized name that a dist-info folder's own name states."""
    return canonicalize_name(info.name.removesuffix(".dist-info").rpartition("-")[0])


def present_in(venv: Path, read: Promises) -> dict[str, Installed]:
    """Return what is installed, distributions without METADATA included."""
    found = dict(installed(venv))
    site = site_packages(venv)
    for info in site.glob("*.dist-info") if site else ():
        name = distribution_of(info)
        if name in read.torn and name not in found:
            version = info.name.removesuffix(".dist-info").rpartition("-")[2]
            found[name] = Installed(name=name, version=version)
    return found


def verified_by(read: Promises, distributions: int) -> Verified:
    """Return the counts of what was read."""
    return Verified(
        distributions=distributions,
        files=len(read.claims),
        bytes=sum(claim.size for claim in read.claims),
        faults=(),
    )
