"""Every RECORD row of the environment, in memory: who owns which path, and which rows lead out of it."""

import os
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_unless
from envdoctor.model.frozen import field, frozen, mutable, replace
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.links_out import Links
from envdoctor.probes.venv.parsed_record import RecordsAhead, odd_rows, parse
from envdoctor.probes.venv.record_memo import Parsed, RecordMemo, load
from envdoctor.probes.venv.record_rows import most_rows, recorded_size, unfit
from envdoctor.probes.venv.rows import Fields, binaries, ending_in

# A stack of 90 distributions has 26,000 rows of 3 MB. A RECORD may claim any number; memory is not for it to decide.
_MAXIMUM_BYTES = 16 * 1024 * 1024
_MAXIMUM_ROWS = 150_000
"""Of all RECORDs together."""
_MOST_MALFORMED = 200
_OF_PREFIX = pattern(r"(/.*/)lib(?:64)?/python3(?:\.\d+t?)?/(?:site|dist)-packages/\Z")


class Row(NamedTuple):
    """One claim on a contested path."""

    path: str
    """As written."""
    hash: str
    """"sha256=…" or empty."""
    size: int
    """-1 when the row states none."""


@frozen
class RecordIndex:
    """RECORD rows by distribution, and owners by absolute path."""

    rows: dict[int, Sequence[Fields]]
    """Index into `Distributions.items` -> its rows that stay inside."""
    digests: dict[int, str]
    """The same index -> sha256 of the rows that the wheel brought: equal for one wheel wherever it is installed."""
    contested: dict[str, list[tuple[int, Row]]]
    """Absolute path -> all owners, where there are several."""
    outside: list[tuple[int, str]]
    """Rows that lead out of the environment: (owner, path as written). Never read, hashed or removed."""
    links: dict[tuple[int, str], None]
    """(owner, absolute path) of each link that leads a folder of its rows out."""
    malformed: list[tuple[int, str]]
    """Rows or whole RECORDs that could not be read: (owner, reason)."""
    behind: dict[tuple[int, str], list[Fields]]
    """The same keys as `links` -> the rows of `outside` that are behind that link."""
    paths: Callable[[int, Sequence[Fields]], list[str]] = field(repr=False, compare=False)
    """Returns the absolute paths of rows of a distribution."""
    packages: set[str] = field(default_factory=set)
    """Absolute folders at the top of the site folders in which a RECORD lists a file, at any depth."""

    @cached_property
    def owners(self) -> dict[str, int]:
        """Absolute path inside the prefix -> index of the first owner. A check of a healthy stack never asks."""
        found: dict[str, int] = {}
        for at, rows in self.rows.items():
            found.update((path, at) for path in self.paths(at, rows) if path not in found)
        return found

    def owner_of(self, path: str) -> int | None:
        """Return the same for one path, without making the map of all of them."""
        last = path.rpartition("/")[2]
        named = ((at, ending_in(rows, last)) for at, rows in self.rows.items())
        return next((at for at, rows in named if path in self.paths(at, rows)), None)

    @cached_property
    def shared_objects(self) -> dict[str, int]:
        """The same for files with ".so" in their name."""
        found: dict[str, int] = {}
        for at, rows in self.rows.items():
            chosen = [(path, "", "") for path in binaries(rows) if ".so" in path]
            found.update((path, at) for path in self.paths(at, chosen) if path not in found)
        return found


def index(reading: Reading) -> RecordIndex:
    """Read every RECORD once."""
    return reading.material(RecordIndex, _index)


def _index(reading: Reading) -> RecordIndex:
    items = reading.fact(Distributions).items
    memo = load(reading)
    ahead = reading.material(RecordsAhead, lambda _: RecordsAhead())
    indexer = _Indexer(items=items, prefix=str(reading.target.prefix) + os.sep, memo=memo, ahead=ahead)
    for at, item in enumerate(items):
        if item.has_record:
            indexer.enter(at)
    indexer.compare()
    memo.save()
    return indexer.made


@mutable
class _Indexer:
    """Enters one RECORD after the other. Steps work on whole lists: a loop over all rows costs what a probe costs."""

    items: Sequence[Distribution]
    prefix: str
    """With a final slash."""
    memo: RecordMemo
    ahead: RecordsAhead
    left: int = _MAXIMUM_ROWS
    left_bytes: int = _MAXIMUM_BYTES
    links: dict[tuple[str, str], Links] = field(default_factory=dict)
    made: RecordIndex = field(
        default_factory=lambda: RecordIndex(
            rows={},
            digests={},
            contested={},
            outside=[],
            links={},
            malformed=[],
            behind={},
            paths=lambda _, __: [],
        )
    )
    order: list[tuple[int, str]] = field(default_factory=list)
    """(index, path) of each RECORD whose rows count."""
    plain: set[int] = field(default_factory=set)
    """Distributions whose rows are all the plain text of a path below the site folder."""

    def enter(self, at: int) -> None:
        item = self.items[at]
        path = f"{item.site}/{item.folder}/RECORD"
        read_ns = time.time_ns()
        try:
            status, data = read_unless(path, _MAXIMUM_BYTES, lambda status: self.memo.knows(path, status))
        except OSError as error:
            self.made.malformed.append((at, f"{path}: {error.strerror or error}"))
            return
        if (self.memo.recall(path).lines if data is None else most_rows(data)) >= self.left:
            self.made.malformed.append((at, f"{path}: not read, there are more than {_MAXIMUM_ROWS} rows in all"))
            return
        if status.st_size > self.left_bytes:
            self.made.malformed.append((at, f"{path}: not read, there are more than {_MAXIMUM_BYTES} bytes in all"))
            return
        if data is not None and (why := unfit(data)):
            self.made.malformed.append((at, f"{path}: not read, it has a row of {why}"))
            return
        if data is None:
            parsed = self.memo.recall(path)
        else:
            parsed, wrong = self.ahead.get(item.folder, data) or parse(data, item.folder)
            self.made.malformed.extend((at, f"{path}:{number}: not a RECORD row") for number in wrong[:_MOST_MALFORMED])
            if len(wrong) > _MOST_MALFORMED:
                more = len(wrong) - _MOST_MALFORMED
                self.made.malformed.append((at, f"{path}: {more} more rows are not RECORD rows"))
            self.memo.learn(path, status, read_ns, parsed)
        if not parsed.odd:
            self.plain.add(at)
        self.left -= len(parsed.rows)
        self.left_bytes -= status.st_size
        self.made.digests[at] = parsed.digest
        self.made.packages.update(f"{item.site}/{path.partition('/')[0]}" for path in (*parsed.folders, *parsed.odd))
        self.made.rows[at] = self._inside(at, item, parsed)
        self.order.append((at, path))

    def compare(self) -> None:
        """Find the paths that several distributions list, or recall them where every RECORD is as it was then."""
        made = self.made
        self.made = replace(made, paths=self.paths)
        known = None if made.outside else self.memo.contested(self.order)
        if known is not None:
            made.contested.update({path: [(at, Row(*row)) for at, row in claims] for path, claims in known.items()})
            return
        owners: dict[str, int] = {}
        whole = not made.outside
        for at, rows in made.rows.items():
            paths = self.paths(at, rows)
            mine = dict.fromkeys(paths, at)
            if len(mine) != len(paths):
                # Some builders list a file twice; the first row counts.
                first = dict(zip(reversed(paths), reversed(rows), strict=True))
                paths = list(mine)
                made.rows[at] = [first[path] for path in paths]
                whole = False
            if owners.keys().isdisjoint(mine):
                owners.update(mine)
            else:
                self._contest(at, paths, owners)
        # The property that would be made of the same rows again.
        vars(self.made)["owners"] = owners
        if whole:
            self.memo.learn_contested(self.order, {path: list(claims) for path, claims in made.contested.items()})

    def _links_of(self, item: Distribution) -> Links:
        base = item.site + os.sep
        root = self.prefix if base.startswith(self.prefix) else _root_of(base)
        return self.links.setdefault((root, item.site), Links(root=root, site=item.site))

    def paths(self, at: int, rows: Sequence[Fields]) -> list[str]:
        """Return the absolute paths of rows of a distribution; empty for one that leads out."""
        base = self.items[at].site + os.sep
        paths = [base + row[0] for row in rows]
        for number in () if at in self.plain else odd_rows(rows):
            paths[number] = self._links_of(self.items[at]).settled(rows[number][0])
        return paths

    def _inside(self, at: int, item: Distribution, parsed: Parsed) -> Sequence[Fields]:
        """Return the rows that stay inside; the others are noted."""
        rows, base, links = parsed.rows, item.site + os.sep, self._links_of(item)
        folders = {base + folder if folder else item.site for folder in parsed.folders}
        folders |= {links.settled(written).rpartition("/")[0] for written in parsed.odd}
        out = {folder for folder in folders if not folder or links.lead_out(folder)}
        if not out:
            return rows
        kept: list[Fields] = []
        for row, path in zip(rows, self.paths(at, rows), strict=True):
            if path.rpartition("/")[0] in out:
                self.made.outside.append((at, row[0]))
                if link := links.links.get(path.rpartition("/")[0]):
                    self.made.links[at, link] = None
                    self.made.behind.setdefault((at, link), []).append(row)
            else:
                kept.append(row)
        return kept

    def _contest(self, at: int, paths: list[str], owners: dict[str, int]) -> None:
        firsts: dict[int, dict[str, Fields]] = {}
        for row, path in zip(self.made.rows[at], paths, strict=True):
            first = owners.setdefault(path, at)
            if first == at:
                continue
            if path not in self.made.contested:
                if first not in firsts:
                    base = self.items[first].site + os.sep
                    firsts[first] = {os.path.normpath(base + one[0]): one for one in self.made.rows[first]}
                self.made.contested[path] = [(first, _as_row(firsts[first][path]))]
            self.made.contested[path].append((at, _as_row(row)))


def _root_of(site: str) -> str:
    """Return the folder that rows of a distribution outside the environment may not climb out of; both end in a slash.

    The base's and the user's site-packages belong to a prefix of their own, whose bin holds their scripts. Any other
    folder on PYTHONPATH is its own root.
    """
    match = _OF_PREFIX.match(site)
    return match[1] if match else site


def _as_row(fields: Fields) -> Row:
    return Row(fields[0], fields[1], recorded_size(fields[2]))
