"""What every RECORD promises, against what is on disk: existence and size, no contents but of contested ties."""

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern
from envdoctor.probes.loading.comparison import comparison
from envdoctor.probes.venv.barriers import Barrier, ClosedFile, barrier_of
from envdoctor.probes.venv.behind_links import BehindLink, behind_links, elsewhere
from envdoctor.probes.venv.bytecode import is_sourceless
from envdoctor.probes.venv.contested_paths import Contested, contested_paths, told_by_rows
from envdoctor.probes.venv.digest_memo import key_of
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.file_digests import Hashing
from envdoctor.probes.venv.first_look import Looked, first_look
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.known_files import known_rows
from envdoctor.probes.venv.obstacles import Obstacle, filled_folders, in_the_way, obstacles
from envdoctor.probes.venv.parsing import unparsable
from envdoctor.probes.venv.record_rows import is_bytecode, recorded_size
from envdoctor.probes.venv.records import RecordIndex, index
from envdoctor.probes.venv.rows import Fields, largest
from envdoctor.probes.venv.script_options import is_program, only_options_added
from envdoctor.probes.venv.uv_cache import UvCache
from envdoctor.probes.venv.uv_held import held

_KIND_OF_FILE, _REGULAR, _ANYBODY, _READABLE = 0o170000, stat.S_IFREG, 0o111, 0o444
_METADATA_FILES = ("METADATA", "RECORD", "WHEEL", "INSTALLER", "direct_url.json")
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_OF_THE_WHEEL = pattern(r"[^/]+\.data/(?:scripts|purelib|platlib|headers|data)/")
"""What installers put elsewhere. uv leaves the row of a script whose name is an entry point's too."""
Kind = Literal["missing", "resized", "not a file", "unreadable", "not executable"]


@frozen
class FileFault:
    """A file that is not as its owner's RECORD says."""

    path: str
    """Relative to the prefix (or absolute in a leaked folder)."""
    owner: str
    kind: Kind
    recorded_size: int
    size: int
    """-1 when there is none."""
    cached_at: str = ""
    """The same file in uv's cache, which a change in place changes too; empty when it shares none."""
    published_at: str = ""
    """uv's cache has the file at this size since it unpacked that wheel: its own RECORD is wrong. Empty: not known."""
    in_the_way: str = ""
    """For a missing file: a file or a link to nowhere where one of its folders should be, relative to the prefix."""
    unparsable: bool = False
    """A Python file of another size that does not parse: a cut one. Looked at with `deep` only."""
    barrier: Barrier | None = None
    """For one that may not be read: the folder or file that refuses."""
    compiled: bool = False
    """A missing .py, with bytecode for this Python in its place: it is imported from that, and nothing verifies it."""
    of_version: str = ""
    """The version whose RECORD lists it, where several metadata folders have the owner's name; empty otherwise."""


@frozen
class Owner:
    """How one distribution's RECORD fared."""

    name: str
    version: str
    files: int
    bytes: int
    missing: int
    resized: int
    record_sha256: str
    """Digest of the rows that the wheel brought: two fingerprints are compared by content."""


@frozen
class InstalledFiles:
    """RECORD truth of the environment."""

    owners: tuple[Owner, ...]
    faults: tuple[FileFault, ...]
    contested: tuple[Contested, ...]
    shared_equal: int
    """Paths with several owners that agree on the bytes (harmless until one is uninstalled)."""
    outside: tuple[tuple[str, str], ...]
    """(owner, row) of rows that lead out of the environment; never followed."""
    malformed: tuple[str, ...]
    links_out: tuple[tuple[str, str], ...] = ()
    """(owner, link) of each link, relative to the prefix, through which its rows lead out; no owner: all do (lib)."""
    closed: tuple[ClosedFile, ...] = ()
    """What of the metadata folders this user may not read; their other facts are not known."""
    behind: tuple[BehindLink, ...] = ()
    """What is behind each of those links, as far as it can be told without opening anything."""
    obstacles: tuple[Obstacle, ...] = ()
    """What is in the way of a reinstall, and that an uninstall would not take away, or would delete filled."""
    misnamed: tuple[str, ...] = ()
    """Metadata folders, absolute, whose RECORD lists none of their own files: it is of another version."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """The rows of `outside` that are behind none of those links: absolute ones, and those that climb out."""
    held: tuple[str, ...] = ()
    """Of those with faults or contested paths: what uv's cache holds whole."""


def probe(reading: Reading) -> InstalledFiles:
    """Stat every RECORD row but bytecode and rows that lead outside; where the options ask for it, hash them all."""
    items = reading.fact(Distributions).items
    records = index(reading)
    prefix = str(reading.target.prefix) + os.sep
    looked_at = _look_deeply(reading, prefix) if reading.options.deep else _look(reading, prefix)
    faults = list(_faults(looked_at))
    disputed = contested_paths(reading)
    return InstalledFiles(
        owners=tuple(owner for owner, _ in looked_at),
        faults=tuple(_with_twins(faults, reading)),
        contested=disputed.found,
        shared_equal=disputed.shared_equal,
        outside=tuple((items[at].name, path) for at, path in records.outside),
        elsewhere=tuple(elsewhere(items, records)),
        malformed=tuple(f"{items[at].name}: {reason}" for at, reason in records.malformed),
        links_out=(
            *((items[at].name, link.removeprefix(prefix)) for at, link in records.links),
            *(("", link.removeprefix(prefix)) for link in _above(items, prefix)),
        ),
        closed=tuple(_closed(reading, records, prefix)),
        behind=tuple(behind_links(items, records, prefix)),
        obstacles=(*obstacles(items, records, prefix), *filled_folders(_not_files(faults), prefix)),
        misnamed=tuple(_misnamed(items, records)),
        held=held(reading, {*(one.owner for one in faults), *(c.owner for one in disputed.found for c in one.claims)}),
    )


def _faults(looked_at: Sequence[tuple[Owner, list[FileFault]]]) -> Iterator[FileFault]:
    named = Counter(owner.name for owner, _ in looked_at)
    for owner, found in looked_at:
        yield from (replace(one, of_version=owner.version) if named[owner.name] > 1 else one for one in found)


def contested(reading: Reading) -> tuple[Contested, ...]:
    """Return the same as the fact, without a look at every file where no hash of one is asked for."""
    hashed = reading.options.deep and not told_by_rows(reading)
    return reading.fact(InstalledFiles).contested if hashed else contested_paths(reading).found


def _above(items: Sequence[Distribution], prefix: str) -> Iterator[str]:
    """Yield the links between the prefix and its site folders that lead out of it."""
    root = os.path.realpath(prefix) + os.sep
    for site in dict.fromkeys(item.site for item in items if item.site.startswith(prefix)):
        parts = site.removeprefix(prefix).split("/")
        folders = (prefix + "/".join(parts[:count]) for count in range(1, len(parts) + 1))
        yield from (at for at in folders if os.path.islink(at) and not os.path.realpath(at).startswith(root))  # noqa: PTH114


def _closed(reading: Reading, records: RecordIndex, prefix: str) -> Iterator[ClosedFile]:
    """Look at the distributions of which something could not be read: whether it was for want of permission."""
    installed = reading.fact(Distributions)
    doubtful = {at for at, _ in records.malformed}
    for at, item in enumerate(installed.items):
        folder = f"{item.site}/{item.folder}/"
        if at in doubtful or any(line.startswith(folder) for line in installed.unreadable):
            for path in (folder + name for name in _METADATA_FILES):
                if (barrier := barrier_of(path, reading.target.prefix)) is None:
                    continue
                if barrier_of(folder[:-1], reading.target.prefix) is None:
                    yield ClosedFile(owner=item.name, path=path.removeprefix(prefix), barrier=barrier)
                    continue
                # What a closed folder holds is not known: it is told once, as itself.
                yield ClosedFile(owner=item.name, path=folder[:-1].removeprefix(prefix), barrier=barrier)
                break


def _not_files(faults: Sequence[FileFault]) -> Iterator[tuple[str, str]]:
    return ((fault.owner, fault.path) for fault in faults if fault.kind == "not a file")


def _misnamed(items: Sequence[Distribution], records: RecordIndex) -> Iterator[str]:
    """Look at names that stand more than once: an uninstall by such a RECORD takes the other one's metadata."""
    counted = Counter((item.site, item.name) for item in items)
    for at, item in enumerate(items):
        rows = records.rows.get(at)
        if rows and counted[item.site, item.name] > 1 and not any(row[0].startswith(f"{item.folder}/") for row in rows):
            yield f"{item.site}/{item.folder}"


def _look(reading: Reading, prefix: str) -> list[tuple[Owner, list[FileFault]]]:
    items, records = reading.fact(Distributions).items, index(reading)
    looked = first_look(reading)
    return [
        _owner(items[at], rows, records.digests[at], prefix, looked=looked[at]) for at, rows in records.rows.items()
    ]


def _look_deeply(reading: Reading, prefix: str) -> list[tuple[Owner, list[FileFault]]]:
    """Look as `_look` does, and have each distribution's files hashed while the next one is looked at."""
    items, records = reading.fact(Distributions).items, index(reading)
    compared = comparison(reading)
    # The threads are to have the largest files first, and all of them soon.
    order = sorted(records.rows, key=lambda at: largest(records.rows[at]), reverse=True)
    found: dict[int, tuple[Owner, list[FileFault]]] = {}
    known = known_rows(reading)
    with Hashing(compared.digests, reading.options.progress) as hashing:
        for at in order:
            keys: dict[str, bytes] = {}
            rows, fresh, looked = records.rows[at], reading.options.fresh, None
            if seen := known(at):
                rows, looked = seen.others, Looked(plain_bytes=seen.total, odd=tuple(seen.others))
                compared.take_known(*seen[:-1])
            found[at] = _owner(
                items[at],
                records.rows[at],
                records.digests[at],
                prefix,
                looked=looked,
                keys=keys,
                bytecode=fresh,
            )
            compared.take(at, rows, keys, items[at].site, hashing)
    compared.judge(records, items)
    return [found[at] for at in sorted(found)]


def _owner(
    item: Distribution,
    rows: Sequence[Fields],
    digest: str,
    prefix: str,
    *,
    looked: Looked | None = None,
    keys: dict[str, bytes] | None = None,
    bytecode: bool = False,
) -> tuple[Owner, list[FileFault]]:
    """Judge the rows that a first look found odd, without one all of them; `keys` gets the key of each file."""
    faults: list[FileFault] = []
    ways: dict[str, str] = {}
    counts, total = {"missing": 0, "resized": 0}, looked.plain_bytes if looked else 0
    stat_at = os.stat
    # Relative to the open site folder the kernel walks a third of each path, 25,000 times.
    site = os.open(item.site, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path, stated, recorded in looked.odd if looked else rows:
            # Bytecode is rewritten by every interpreter; its absence or another size says nothing.
            if is_bytecode(path, stated) and not (bytecode and stated):
                continue
            try:
                status = stat_at(path, dir_fd=site)
            except OSError as error:
                lost, missing = _lost(item, path, prefix, error, recorded, ways)
                counts["missing"] += missing
                faults += lost
                continue
            # virtualenv lists folders as well as the files in them; a row that states nothing can promise one.
            if not recorded and not stated and stat.S_ISDIR(status.st_mode):
                continue
            size = status.st_size
            total += size
            if recorded != str(size) and recorded_size(recorded) not in (-1, size):
                if fault := _of_another_size(item, path, prefix, status, stated, recorded):
                    counts["resized"] += fault.kind == "resized"
                    faults.append(fault)
            elif status.st_mode & _KIND_OF_FILE != _REGULAR:
                faults.append(_fault(item, path, prefix, "not a file", recorded_size(recorded), -1))
            else:
                if "/bin/" in path or status.st_mode & _READABLE != _READABLE:
                    faults += _by_mode(item, path, prefix, status, recorded)
                if keys is not None:
                    keys[path] = key_of(status)
    finally:
        os.close(site)
    owner = Owner(
        name=item.name,
        version=item.version,
        files=len(rows),
        bytes=total,
        missing=counts["missing"],
        resized=counts["resized"],
        record_sha256=digest,
    )
    return owner, faults


def _lost(
    item: Distribution, path: str, prefix: str, error: OSError, recorded: str, ways: dict[str, str]
) -> tuple[list[FileFault], int]:
    """Return the fault of a row whose file cannot be looked at, and how many files are missing."""
    if error.errno not in _NOT_THERE:
        return [_fault(item, path, prefix, "unreadable", recorded_size(recorded), -1)], 0
    if _OF_THE_WHEEL.match(path):
        return [], 0
    fault = _fault(item, path, prefix, "missing", recorded_size(recorded), -1)
    way = in_the_way(item.site, path, prefix, ways)
    return [replace(fault, in_the_way=way) if way else fault], 1


def _by_mode(item: Distribution, path: str, prefix: str, status: os.stat_result, recorded: str) -> Iterator[FileFault]:
    if not os.access(f"{item.site}/{path}", os.R_OK):
        yield _fault(item, path, prefix, "unreadable", recorded_size(recorded), status.st_size)
    elif "/bin/" in path and not status.st_mode & _ANYBODY and is_program(item, path):
        yield _fault(item, path, prefix, "not executable", recorded_size(recorded), status.st_size)


def _of_another_size(
    item: Distribution, path: str, prefix: str, status: os.stat_result, stated: str, recorded: str
) -> FileFault | None:
    if not stat.S_ISREG(status.st_mode):
        return _fault(item, path, prefix, "not a file", recorded_size(recorded), -1)
    if "/bin/" in path and only_options_added(f"{item.site}/{path}", stated):
        return None
    return _fault(item, path, prefix, "resized", recorded_size(recorded), status.st_size)


def _with_twins(faults: Sequence[FileFault], reading: Reading) -> Iterator[FileFault]:
    items = {item.name: item for item in reading.fact(Distributions).items if not item.shadowed}
    cache = UvCache(host=reading.host)
    cut = _cut(faults, reading)
    minor = reading.fact(Interpreter).minor if faults else ""
    for fault in faults:
        if fault.kind == "missing" and fault.path.endswith(".py"):
            compiled = is_sourceless(str(reading.target.prefix / fault.path), minor)
            yield replace(fault, compiled=True) if compiled else fault
            continue
        if fault.kind == "unreadable":
            yield replace(fault, barrier=barrier_of(str(reading.target.prefix / fault.path), reading.target.prefix))
            continue
        owner = items.get(fault.owner) if fault.kind in ("resized", "not a file") else None
        if owner is None:
            yield fault
            continue
        full, whole = str(reading.target.prefix / fault.path), fault.kind == "resized"
        published = whole and cache.published(full, owner.site, owner.folder, fault.recorded_size)
        twin = "" if published else cache.twin(full, owner.site, owner.folder)
        yield replace(fault, cached_at=twin, published_at=published or "", unparsable=full in cut)


def _cut(faults: Sequence[FileFault], reading: Reading) -> set[str]:
    """Parse what is of another size, for a repair alone: it asks which of it could not be imported before."""
    sources = [fault.path for fault in faults if fault.kind == "resized" and fault.path.endswith(".py")]
    if not sources or not reading.options.deep:
        return set()
    return unparsable([str(reading.target.prefix / path) for path in sources], reading.fact(Interpreter).minor)


def _fault(item: Distribution, path: str, prefix: str, kind: Kind, recorded: int, size: int) -> FileFault:
    full = os.path.normpath(os.path.join(item.site, path))  # noqa: PTH118 - faults can be thousands
    return FileFault(path=full.removeprefix(prefix), owner=item.name, kind=kind, recorded_size=recorded, size=size)
