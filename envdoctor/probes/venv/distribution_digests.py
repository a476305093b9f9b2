"""What each distribution consists of: one digest over its RECORD that no path, user or installer changes."""

import os
from collections.abc import Iterator, Sequence

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.rows import Fields
from envdoctor.standards.recorded import SCRIPTS, generated_scripts, hash_field, lasting, without_interpreter

_MAXIMUM_SCRIPT = 1024 * 1024
_MAXIMUM_ENTRY_POINTS = 256 * 1024


@frozen
class Content:
    """One distribution of the environment's own site-packages."""

    name: str
    version: str
    sha256: str
    """Over the sorted (path, hash) rows of its RECORD; empty when it has none."""
    editable: bool


@frozen
class Contents:
    """All of them. There is no such section unless it was asked for: a check does not pay for it."""

    items: tuple[Content, ...]


def probe(reading: Reading) -> Contents:
    """Digest the rows of every RECORD."""
    records = index(reading)
    items = [
        content_of(item, records.rows.get(at))
        for at, item in enumerate(reading.fact(Distributions).items)
        if item.origin == "site-packages" and not item.shadowed
    ]
    return Contents(items=tuple(sorted(items, key=lambda item: item.name)))


def content_of(item: Distribution, rows: Sequence[Fields] | None) -> Content:
    """Return what a distribution consists of, by the rows of its RECORD; None for one without."""
    return Content(
        name=item.name,
        version=item.version,
        sha256="" if rows is None else _digest(item, rows),
        editable=item.editable,
    )


def _digest(item: Distribution, rows: Sequence[Fields]) -> str:
    lines = sorted({f"{path}\0{digest}" for path, digest in lasting_rows(item.site, item.folder, rows)})
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, and few checks hash anything

    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def lasting_rows(site: str, folder: str, rows: Sequence[Fields]) -> Iterator[tuple[str, str]]:
    """Yield (normalized path below the site folder, hash field) of the rows that no other place or installer changes.

    A script made from an entry point is known by its name alone (entry_points.txt is a row of its own); of any other
    script the line that names its Python counts as a wheel writes it.
    """
    generated: frozenset[str] | None = None
    for written, digest, _ in rows:
        path = os.path.normpath(written) if written[:1] in "./" or "/." in written or "//" in written else written
        if not lasting(path, folder):
            continue
        if path.startswith(SCRIPTS):
            if generated is None:
                generated = generated_scripts(_text(f"{site}/{folder}/entry_points.txt"))
            yield path, "" if path.rpartition("/")[2] in generated else _script(f"{site}/{path}", digest)
        else:
            yield path, digest


def _script(path: str, recorded: str) -> str:
    try:
        data = read_regular(path, _MAXIMUM_SCRIPT)
    except OSError:
        return recorded  # a binary of some size, or gone: its row is all there is to say
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, and few checks hash anything

    return hash_field(hashlib.sha256(without_interpreter(data)).digest()) if data.startswith(b"#!") else recorded


def _text(path: str) -> str:
    try:
        return read_regular(path, _MAXIMUM_ENTRY_POINTS).decode("utf-8", "replace")
    except OSError:
        return ""
