"""Proving that a built venv is exactly the lock: every file by its hash, nothing missing, nothing more."""

import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from envdoctor.errors import RestoreError
from envdoctor.facts.context import Reading
from envdoctor.facts.second_process import beside
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.loading.comparison import comparison
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.file_digests import usable
from envdoctor.probes.venv.installed_files import FileFault, InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.known_files import looking_at_known
from envdoctor.probes.venv.own_packages import own_packages
from envdoctor.probes.venv.record_rows import is_bytecode
from envdoctor.probes.venv.records import RecordIndex, index
from envdoctor.standards.lock import LockedPackage
from envdoctor.swap.store import STORE

_SHOWN = 5
_MISSING = "is missing"
# Files a RECORD lists without a hash (packaging.python.org, "Recording installed projects").
_UNHASHED = ("RECORD", "RECORD.jws", "RECORD.p7s")
# What uv itself puts into a new venv's site-packages, in no RECORD.
_INTERPRETER = pattern(r"bin/python[0-9.t]*")
_UV_OWN = {"_virtualenv.py", "_virtualenv.pth", "_virtualenv.pyc"}


@frozen
class Discrepancy:
    """One thing that is not as the lock and the RECORDs say."""

    owner: str
    path: str
    """As RECORD writes it, or relative to site-packages for what no RECORD lists."""
    problem: str
    altered: bool = False
    """A file that is there, with other bytes than recorded."""

    @property
    def of_cache(self) -> bool:
        """Tell whether an unpacked wheel in uv's cache that somebody changed can be why."""
        return self.altered or self.problem == _MISSING

    def __str__(self) -> str:
        """Return "nvidia-nccl-cu12: nvidia/nccl/lib/libnccl.so.2: changed"."""
        return ": ".join(part for part in (self.owner, self.path, self.problem) if part)


@frozen
class Verified:
    """What was verified."""

    distributions: int
    files: int
    bytes: int
    faults: tuple[Discrepancy, ...]
    remembered: int = 0
    """Files that were not read for this: an earlier run read them, and by inode and times nobody changed them since."""
    remembered_bytes: int = 0


def verify(
    reading: Reading,
    locked: Mapping[str, LockedPackage],
    *,
    strict: bool = True,
    self_contained: bool = True,
    threads_are_ours: bool = False,
    also: Container[int] = (),
    meanwhile: Callable[[Reading], None] | None = None,
) -> Verified:
    """Compare every file with its RECORD and the distributions with the lock. The reading's options say `deep`.

    strict: a file in site-packages that no RECORD lists is a fault too (a venv in use gathers such files, a new one
    does not), and so is a row that states no sha256. self_contained: so is a link whose file is outside the venv.
    threads_are_ours: no thread of this process is another program's, so that a child may walk through the venv while
    the files are compared here. also: distributions outside of the venv (indexes into `Distributions.items`) whose
    files are compared too; the lock does not have them. meanwhile: is called while other processes look at the files
    that are known and walk through the venv; it reads other facts.
    """
    items, records = reading.fact(Distributions).items, index(reading)
    own = {at for at, item in enumerate(items) if item.origin == "site-packages" or at in also}
    site = Path(reading.fact(Interpreter).library, "site-packages")
    faults = list(_against_lock(own_packages(reading), locked))

    def walk() -> list[tuple[str, str]]:
        claimed = records.owners if strict else None
        return list(_stray(reading.target.prefix, site, claimed, self_contained=self_contained))

    if strict or self_contained:
        with (
            looking_at_known(reading, all_are_ours=threads_are_ours),
            beside(walk, all_are_ours=threads_are_ours) as walking,
        ):
            if meanwhile:
                meanwhile(reading)
            reading.fact(InstalledFiles)
            found = walking.result()
        faults += [Discrepancy(owner="", path=path, problem=problem) for path, problem in found]
    reading.fact(InstalledFiles)
    faults += _of_records(items, records, own)
    faults += _of_files(reading, items, own)
    rows = [row for at in own for row in records.rows.get(at, ())]
    compared = comparison(reading)
    return Verified(
        distributions=len(own),
        files=len(rows),
        bytes=sum(map(int, filter(None, [row[2] for row in rows]))),
        faults=tuple(faults),
        remembered=max(0, compared.files - compared.read),
        remembered_bytes=max(0, compared.file_bytes - compared.read_bytes),
    )


def refuse(verified: Verified, what: str, wanted: str = "what the lock says", otherwise: str = "") -> None:
    """Raise RestoreError, naming the faults, when there are any.

    wanted: what it was compared with. otherwise: what to do about a fault that is neither uv's cache's nor a wheel's.
    """
    if not verified.faults:
        return
    shown = "; ".join(str(fault) for fault in verified.faults[:_SHOWN])
    more = len(verified.faults) - _SHOWN
    cached = sorted({fault.owner for fault in verified.faults if fault.owner and fault.of_cache})
    wheels = sorted({fault.owner for fault in verified.faults if fault.owner and fault.path} - {*cached})
    if cached:
        hint = f"uv's cache may hold changed files: `uv cache clean {' '.join(cached)}`, then run it again"
    elif wheels:
        hint = f"the wheel of {', '.join(wheels)} is at fault: lock another version or build of it"
    else:
        hint = otherwise or "lock the stack again"
    raise RestoreError(f"{what} is not {wanted}: {shown}" + (f"; and {more} more" if more > 0 else ""), hint)


def _against_lock(present: Mapping[str, Distribution], locked: Mapping[str, LockedPackage]) -> Iterator[Discrepancy]:
    for name, package in locked.items():
        found = present.get(name)
        if found is None:
            yield Discrepancy(owner=name, path="", problem=f"{package.version} is not installed")
        elif not equal(found.version, package.version):
            yield Discrepancy(owner=name, path="", problem=f"is {found.version}, the lock has {package.version}")
    for name, found in present.items():
        if name not in locked:
            yield Discrepancy(owner=name, path="", problem=f"{found.version} is not in the lock")


def equal(one: str, other: str) -> bool:
    """Tell whether two versions are the same one, however written."""
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def _of_records(items: Sequence[Distribution], records: RecordIndex, own: set[int]) -> Iterator[Discrepancy]:
    """Yield what the RECORDs themselves are at fault for."""
    for at, reason in records.malformed:
        if at in own:
            why = reason.partition("RECORD:")[2].strip()
            problem = f"cannot be read ({'line ' if why[:1].isdecimal() else ''}{why})"
            yield Discrepancy(owner=items[at].name, path=f"{items[at].folder}/RECORD", problem=problem)
    for at in sorted(own):
        item = items[at]
        if item.folder.endswith(".dist-info") and not item.has_record:
            yield Discrepancy(owner=item.name, path=f"{item.folder}/RECORD", problem=_MISSING)
    for at, path in records.outside:
        if at in own:
            yield Discrepancy(owner=items[at].name, path=path, problem="leads out of the venv")
    yield from _of_rows(items, records, own)


def _of_rows(items: Sequence[Distribution], records: RecordIndex, own: set[int]) -> Iterator[Discrepancy]:
    """Yield the rows that prove nothing."""
    for at in sorted(own):
        odd = [row for row in records.rows.get(at, ()) if not row[1].startswith("sha256=")]
        for path, stated, _ in odd:
            if not stated and not _may_lack_hash(path, items[at].folder):
                yield Discrepancy(owner=items[at].name, path=path, problem="has no hash in RECORD")
            elif stated:
                problem = f"is recorded with {stated.partition('=')[0]}, not sha256"
                yield Discrepancy(owner=items[at].name, path=path, problem=problem)


def _may_lack_hash(path: str, folder: str) -> bool:
    return is_bytecode(path) or path in [f"{folder}/{name}" for name in _UNHASHED]


def _of_files(reading: Reading, items: Sequence[Distribution], own: set[int]) -> Iterator[Discrepancy]:
    compared = comparison(reading)
    names = {items[at].name for at in own}
    for fault in reading.fact(InstalledFiles).faults:
        # Published with a RECORD that states another size: the lock's hash is that of the wheel, RECORD and all.
        if fault.owner in names and not fault.published_at:
            path, altered = _written(fault.path, reading), fault.kind == "resized"
            yield Discrepancy(owner=fault.owner, path=path, problem=_problem(fault), altered=altered)
    for item in compared.altered:
        if item.owner in own:
            yield Discrepancy(
                owner=items[item.owner].name, path=item.row[0], problem="does not have the recorded hash", altered=True
            )
    for item in compared.unverified:
        if item.owner in own and (item.unreadable or usable(item.row[1])):
            problem = f"cannot be read ({item.reason})"
            yield Discrepancy(owner=items[item.owner].name, path=item.row[0], problem=problem)
    # What two owners record differently is as recorded for one of them at most.
    resized = {(fault.owner, fault.path) for fault in reading.fact(InstalledFiles).faults}
    for contested in reading.fact(InstalledFiles).contested:
        for claim in contested.claims:
            known = not contested.on_disk or claim.owner in contested.on_disk
            if not known and (claim.owner, contested.path) not in resized:
                shown = _written(contested.path, reading)
                yield Discrepancy(owner=claim.owner, path=shown, problem="does not have the recorded hash")


def _written(inner: str, reading: Reading) -> str:
    """Return a path relative to the venv as RECORD writes it."""
    site = f"{reading.fact(Interpreter).library}/site-packages"
    return os.path.relpath(reading.target.prefix / inner, site)


def _problem(fault: FileFault) -> str:
    if fault.kind == "missing":
        return _MISSING
    if fault.kind == "resized":
        return f"has {fault.size} bytes, not the recorded {fault.recorded_size}"
    return {"unreadable": "cannot be read", "not a file": "is not a file"}.get(fault.kind, "cannot be executed")


def _stray(
    venv: Path, site: Path, claimed: Container[str] | None, *, self_contained: bool
) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) of what no RECORD row speaks of, in one walk.

    self_contained: links whose file is outside the venv: what is verified there may change without it. claimed: the
    paths that some RECORD lists; None where other files in site-packages are no fault.
    """
    inside, top = os.path.realpath(venv) + os.sep, str(site)
    pending = [(str(venv), False)]
    while pending:
        folder, installed = pending.pop()
        installed = installed or folder == top
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            # A folder that is closed, or deeper than a path can name: what is in it cannot be told.
            shown = os.path.relpath(folder, site)
            yield f"{shown:.200}", f"cannot be listed: {error.strerror}"
            continue
        if entries:
            for entry in entries:
                path, linked = entry.path, entry.is_symlink()
                if linked and self_contained:
                    yield from _leading_out(path, venv, inside)
                elif not linked and entry.is_dir():
                    if entry.name != STORE:
                        # Bytecode is written by each process that imports.
                        pending.append((path, installed and entry.name != "__pycache__"))
                    continue
                stray = installed and claimed is not None and path not in claimed
                if stray and not (folder == top and entry.name in _UV_OWN) and not (linked and _is_folder(path)):
                    yield os.path.relpath(path, site), "is in no RECORD"


def _is_folder(link: str) -> bool:
    return os.path.isdir(link)  # noqa: PTH112 - Path.is_dir raises for a loop


def _leading_out(link: str, venv: Path, inside: str) -> Iterator[tuple[str, str]]:
    goal, shown = os.path.realpath(link), os.path.relpath(link, venv)
    if not f"{goal}{os.sep}".startswith(inside) and not _INTERPRETER.fullmatch(shown):
        yield shown, f"is a link out of the venv, to {goal}"
