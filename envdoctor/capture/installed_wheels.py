"""Every distribution of a venv: its files verified, and the wheel it came from found or, where none is, to be made."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from packaging.tags import Tag
from packaging.version import InvalidVersion, Version

from envdoctor.capture.outside import modules_left_behind, outside_of, refuse_outside, required_by, taken_of
from envdoctor.capture.pinning import NotPinned, Pinned, VerifiedDistribution, pin
from envdoctor.capture.repack import RepackError, filename
from envdoctor.errors import CaptureError
from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import open_regular
from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import frozen
from envdoctor.model.wording import counted
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distribution_digests import Content, content_of, lasting_rows
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.stack.verify import Discrepancy, Verified, verify
from envdoctor.standards.lock import LockedPackage
from envdoctor.standards.recorded import hash_field
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.urls import shown
from envdoctor.wheels.wheel_tags import places, supported

_THREADS = 8
_SHOWN = 3
_NEWEST_GLIBC = 60


@frozen
class Refused:
    """A distribution that cannot be locked, and why."""

    name: str
    version: str
    reason: str

    def __str__(self) -> str:
        """Return "name version: reason"."""
        return f"{self.name} {self.version}: {self.reason}"


@frozen
class ToKeep:
    """A distribution that no index has: its wheel is to be made again from its files."""

    subject: VerifiedDistribution
    reason: str


@frozen
class InstalledWheels:
    """What a venv holds, and where each part of it is found again."""

    pinned: tuple[Pinned, ...]
    to_keep: tuple[ToKeep, ...]
    verified: Verified
    warnings: tuple[str, ...]
    library: str
    """"python3.12"."""
    outside: tuple[Content, ...] = ()
    """What was taken from outside the venv."""
    left_behind: frozenset[tuple[str, str, str]] = frozenset()
    """(module, folder in front, folder behind) of hidden modules that a rebuilt venv has once."""


HOLE = "ED406"
"""The check that finds a required distribution missing; a waiver of it, by name, is how a profile accepts that."""


def find(
    reading: Reading,
    sources: IndexConfig | None,
    without: Mapping[str, str],
    listen: Listener,
    *,
    with_outside: bool = False,
) -> InstalledWheels:
    """Verify and pin every distribution but those of `without` (name -> reason); without sources no place is asked.

    with_outside: also those outside of the venv that these require, or that hide one of them. Raises CaptureError,
    naming all that cannot be captured.
    """
    items = _items(reading, without, with_outside=with_outside)
    refuse_outside(reading, items, without)
    _refuse_holes(reading, items, without)
    verified = verified_files(reading, items)
    subjects, refused = subjects_of(reading, items, verified)
    library = reading.fact(Interpreter).folder
    pinned, to_keep, unpinned = _pin(subjects, sources, _Fit(library, _order(reading)), listen)
    refused = sorted([*refused, *unpinned], key=lambda one: one.name)
    if refused:
        lines = "".join(f"\n  {one}" for one in refused)
        names = " ".join(f"--without {one.name}" for one in refused)
        raise CaptureError(
            f"{counted(len(refused), 'distribution')} cannot be captured:{lines}\nnothing was written",
            f"fix them, or leave them out of the lock knowingly: `{names}`",
        )
    return InstalledWheels(
        pinned=tuple(pinned),
        to_keep=tuple(to_keep),
        verified=verified,
        warnings=tuple(_not_captured(reading, verified, items)),
        library=library,
        left_behind=modules_left_behind(reading, items),
        outside=tuple(
            content_of(item, index(reading).rows.get(at)) for at, item in items if item.origin != "site-packages"
        ),
    )


def _items(reading: Reading, without: Mapping[str, str], *, with_outside: bool) -> list[tuple[int, Distribution]]:
    """Return the distributions to capture, with their place in the section: the venv's own, and what they take."""
    if not reading.fact(Interpreter).is_venv:
        raise CaptureError(f"{reading.target.prefix} is not a venv", "name a venv: `--venv PATH`")
    if not reading.fact(TorchBuild).version or "torch" in without:
        raise CaptureError("a profile names a torch build, and there is no torch to capture", "name a venv that has it")
    own = [
        (at, item)
        for at, item in enumerate(reading.fact(Distributions).items)
        if item.origin == "site-packages" and not item.shadowed
    ]
    outside = outside_of(reading) if with_outside else {}
    if strange := sorted(without.keys() - {item.name for _, item in own} - outside.keys()):
        raise CaptureError(f"--without {strange[0]}: it is not installed", "omit that option")
    kept = [(at, item) for at, item in own if item.name not in without]
    return [*kept, *taken_of(reading, kept, {name: one for name, one in outside.items() if name not in without})]


def _refuse_holes(reading: Reading, items: Sequence[tuple[int, Distribution]], without: Mapping[str, str]) -> None:
    """Refuse to leave out, without a reason, what a captured distribution requires: it would be missing."""
    required = required_by(reading, items)
    holes = {name: required[name] for name, reason in sorted(without.items()) if name in required and not reason}
    if holes:
        lines = "".join(f"\n  {name}, which {by} requires" for name, by in holes.items())
        options = " ".join(f'--without {name}="why it is not needed"' for name in holes)
        raise CaptureError(
            f"a venv restored from this lock would lack what its packages require:{lines}\nnothing was written",
            f"capture them too, or say why they may be missing, which the profile then keeps as a waiver: `{options}`",
        )


def verified_files(reading: Reading, items: Sequence[tuple[int, Distribution]]) -> Verified:
    """Compare the files of the distributions with their RECORDs. The reading's options say `deep`."""
    expected = {
        item.name: LockedPackage(name=item.name, version=item.version, hashes=())
        for _, item in items
        if item.origin == "site-packages" and _is_version(item.version)
    }
    outside = {at for at, item in items if item.origin != "site-packages"}
    # A venv whose files are links into uv's cache is captured by its contents like any other.
    return verify(reading, expected, self_contained=False, also=outside)


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def subjects_of(
    reading: Reading, items: Sequence[tuple[int, Distribution]], verified: Verified
) -> tuple[list[VerifiedDistribution], list[Refused]]:
    """Return the distributions whose files are known, and those that cannot be captured. The reading is `deep`."""
    rows = index(reading).rows
    faults: dict[str, list[Discrepancy]] = {}
    for fault in verified.faults:
        faults.setdefault(fault.owner, []).append(fault)
    subjects: list[VerifiedDistribution] = []
    refused: list[Refused] = []
    for at, item in items:
        told = faults.get(item.name, [])
        reason = _unfit(item, told)
        # Published with a RECORD that is wrong about some files: the wheel that holds the same bytes is still it.
        wrong = _wrong(item.site, told) if reason else {}
        if reason and not wrong:
            refused.append(Refused(name=item.name, version=item.version, reason=reason))
        else:
            lasting = dict(lasting_rows(item.site, item.folder, rows[at]))
            subjects.append(VerifiedDistribution(item=item, places=lasting, wrong=wrong, reason=reason))
    return subjects, refused


def _wrong(site: str, faults: Sequence[Discrepancy]) -> dict[str, str]:
    """Return place -> hash on disk when every fault is a file with other bytes than recorded; else nothing."""
    if not all(fault.path and fault.altered for fault in faults):
        return {}
    found = {}
    for fault in faults:
        try:
            with open_regular(f"{site}/{fault.path}") as file:
                found[fault.path] = hash_field(hashlib.file_digest(file, "sha256").digest())
        except OSError:
            return {}
    return found


def _unfit(item: Distribution, faults: Sequence[Discrepancy]) -> str:
    if item.editable:
        return f"it is editable, from {shown(item.direct_url)}: its files are outside the venv"
    if not item.has_record:
        return f"{item.folder} has no RECORD, so its files are not known"
    if not _is_version(item.version):
        return f"`{item.version}` is not a version that a lock can name (PEP 440)"
    told = "; ".join(f"{fault.path} {fault.problem}".strip() for fault in faults[:_SHOWN])
    return told + (f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else "")


class _Fit(NamedTuple):
    """What a wheel is for."""

    library: str
    order: Mapping[Tag, int]


def _order(reading: Reading) -> Mapping[Tag, int]:
    """Return the tags of the venv's interpreter; its glibc is not asked, since a wheel that is installed runs on it."""
    python = reading.fact(Interpreter)
    major, minor = (int(part) for part in python.minor.split("."))
    tags = supported((major, minor), python.machine, _NEWEST_GLIBC, free_threaded=python.free_threaded)
    return places(tags)


def _pin(
    subjects: Sequence[VerifiedDistribution], sources: IndexConfig | None, fit: _Fit, listen: Listener
) -> tuple[list[Pinned], list[ToKeep], list[Refused]]:
    pinned: list[Pinned] = []
    to_keep: list[ToKeep] = []
    refused: list[Refused] = []
    with ThreadPoolExecutor(_THREADS) as pool:
        sought = pool.map(lambda one: pin(one, sources, fit.library, fit.order) if sources else None, subjects)
        for done, (subject, found) in enumerate(zip(subjects, sought, strict=True), 1):
            listen(Event(phase="pin", text=subject.item.name, done=done, total=len(subjects)))
            if isinstance(found, Pinned):
                pinned.append(found)
            elif problem := subject.reason or _unkeepable(subject, found):
                refused.append(Refused(name=subject.item.name, version=subject.item.version, reason=problem))
            else:
                to_keep.append(ToKeep(subject=subject, reason=_why(subject.item, found)))
    return pinned, to_keep, refused


def _why(item: Distribution, found: NotPinned | None) -> str:
    origin = f"installed from {shown(item.direct_url)}; " if item.direct_url else ""
    return origin + (found.reason if found else "no index was asked")


def _unkeepable(subject: VerifiedDistribution, found: NotPinned | None) -> str:
    if found is not None and found.unread:
        # Its wheel could be made again, but that would hide that an index may have it.
        return f"{found.reason}; try again, or keep every distribution as a wheel with `--offline`"
    try:
        filename(subject.item)
    except RepackError as error:
        return f"{_why(subject.item, found)}; and no wheel can be made of it: {error}"
    return ""


def _not_captured(reading: Reading, verified: Verified, items: Sequence[tuple[int, Distribution]]) -> Iterator[str]:
    stray = sorted(fault.path for fault in verified.faults if not fault.owner)
    if stray:
        it = "it" if len(stray) == 1 else "them"
        belong = counted(len(stray), "file", "belongs", "belong")
        yield f"{belong} to no distribution, so a restore will not bring {it} back: {_first(stray)}"
    taken = [item for _, item in items if item.origin != "site-packages"]
    if taken:
        named = [f"{item.name} {item.version} ({item.site})" for item in taken]
        yield f"taken from outside the venv, and in the lock: {_first(named)}"
    outside = sorted(outside_of(reading).keys() - {item.name for item in taken})
    if outside:
        seen = counted(len(outside), "distribution", "is", "are")
        yield f"{seen} seen from outside the venv and not captured: {_first(outside)}"
    prefix = str(reading.target.prefix) + os.sep
    leaked = [
        entry.path
        for entry in reading.fact(SearchPath).entries
        if entry.origin.endswith(".pth") and not entry.path.startswith(prefix)
    ]
    if leaked:
        put = counted(len(leaked), "folder", "is", "are")
        yield f"{put} put on sys.path by .pth files and not captured: {_first(leaked)}"


def _first(names: Sequence[str]) -> str:
    more = f", … and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
