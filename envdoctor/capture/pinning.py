"""The wheel an installed distribution came from: the one whose files are the installed ones, hash by hash."""

import hashlib
import time
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from packaging.tags import Tag, parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from envdoctor.model.frozen import field, frozen, mutable
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.wheels.index import File
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.offers import files_of
from envdoctor.wheels.remote_file import NoRangesError, open_remote
from envdoctor.wheels.urls import IndexUnreadableError, shown
from envdoctor.wheels.wheel_contents import WheelError, open_wheel

_SHOWN = 3
# Eight searches at once are enough to make a small resolver stumble.
_PAUSES = (0.3, 1.0)


@frozen
class VerifiedDistribution:
    """One installed distribution, its files verified."""

    item: Distribution
    places: Mapping[str, str]
    """Place below site-packages -> RECORD hash, without what its installer added."""
    wrong: Mapping[str, str] = field(default_factory=dict)
    """Place -> hash of what is on disk, where RECORD states another: the wheel must hold these bytes."""
    reason: str = ""
    """Why it cannot be captured unless such a wheel is found."""


@frozen
class Pinned:
    """A wheel that holds exactly the installed files."""

    name: str
    version: str
    sha256: str
    file: File
    place: str
    """The index or find-links place that has it, as configured."""


@frozen
class NotPinned:
    """Why no place has the wheel."""

    name: str
    version: str
    reason: str
    unread: bool
    """Some place did not answer: the wheel may well be there."""


@mutable
class _Seen:
    """What spoke against the candidates."""

    differing: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def pin(
    subject: VerifiedDistribution, sources: IndexConfig, library: str, order: Mapping[Tag, int]
) -> Pinned | NotPinned:
    """Search the configured places for the wheel of a distribution. `library` is "python3.12".

    order: the tags that the interpreter supports, best first. The tags inside a wheel are often not those of its file's
    name (built as linux_x86_64, renamed to manylinux): they only decide which wheels are looked into first.

    Of a remote wheel only the table of contents and RECORD are fetched; its sha256 is what the index states. A local
    wheel is hashed. A place that does not answer is asked again, twice.
    """
    found = _search(subject, sources, library, order)
    for pause in _PAUSES:
        if isinstance(found, Pinned) or not found.unread:
            break
        time.sleep(pause)
        found = _search(subject, sources, library, order)
    return found


def _search(
    subject: VerifiedDistribution, sources: IndexConfig, library: str, order: Mapping[Tag, int]
) -> Pinned | NotPinned:
    seen = _Seen()
    offered = [
        (not same, place, file)
        for place in (*sources.find_links, *sources.indexes)
        for same, file in _candidates(place, subject.item, sources, order, seen)
    ]
    for other in (False, True):
        for _, place, file in (one for one in offered if one[0] is other):
            digest = _matches(file, place, subject, sources, library, seen)
            if digest:
                return Pinned(
                    name=subject.item.name, version=subject.item.version, sha256=digest, file=file, place=place
                )
    reasons = [*seen.differing, *seen.unread] or ["no configured place has a wheel of it"]
    return NotPinned(
        name=subject.item.name, version=subject.item.version, reason="; ".join(reasons), unread=bool(seen.unread)
    )


def _candidates(
    place: str, item: Distribution, sources: IndexConfig, order: Mapping[Tag, int], seen: _Seen
) -> Iterator[tuple[bool, File]]:
    """Yield the wheels of that version that may be it, and whether one calls itself what is installed."""
    try:
        found = list(files_of(place, item.name, item.version, sources))
    except IndexUnreadableError as error:
        seen.unread.append(str(error))
        return
    tags = {tag for written in item.tags for tag in parse_tag(written)}
    for file in found:
        try:
            name, version, _, fitting = parse_wheel_filename(file.filename)
        except (InvalidWheelFilename, InvalidVersion):
            continue
        if name == canonicalize_name(item.name) and version == _version(item.version):
            same = not tags or bool(tags & fitting)
            if same or any(tag in order for tag in fitting):
                yield same, file


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _matches(
    file: File, place: str, subject: VerifiedDistribution, sources: IndexConfig, library: str, seen: _Seen
) -> str:
    """Return the wheel's sha256 when it holds exactly the installed files; note why not, and return nothing."""
    where = f"{shown(place)} has {file.filename}"
    try:
        with _open(file, sources) as content:
            wheel = open_wheel(content)
            offered = wheel.places(library)
            really = wheel.hashes(subject.wrong, library) if subject.wrong and offered == subject.places else {}
    except (NoRangesError, IndexUnreadableError, FileNotFoundError, OSError, WheelError) as error:
        seen.unread.append(f"{where}, which cannot be looked into ({error})")
        return ""
    if offered != subject.places:
        differing = sorted(
            place for place in {*offered, *subject.places} if offered.get(place) != subject.places.get(place)
        )
        told = counted(len(differing), "file", "differs", "differ")
        seen.differing.append(f"{where}, but {told} from it ({', '.join(differing[:_SHOWN])})")
        return ""
    if really != subject.wrong:
        told = counted(len(subject.wrong), "file", "is", "are")
        seen.differing.append(f"{where}, but {told} not as in it ({', '.join(sorted(subject.wrong)[:_SHOWN])})")
        return ""
    digest = _digest(file)
    if not digest:
        seen.unread.append(f"{where}, but states no sha256")
    return digest


def _open(file: File, sources: IndexConfig) -> BinaryIO:
    return file.local.open("rb") if file.local is not None else open_remote(file.url, sources.access)


def _digest(file: File) -> str:
    if file.local is None:
        return file.sha256
    with file.local.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
