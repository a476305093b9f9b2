"""A wheel made again from installed files, for a distribution that no index has. The same files give the same bytes."""

import hashlib
import os
import stat
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from packaging.tags import parse_tag

from envdoctor.capture.pinning import VerifiedDistribution
from envdoctor.facts.regular_file import open_regular
from envdoctor.facts.whole_file import beside
from envdoctor.probes.venv.distributions import Distribution
from envdoctor.standards.recorded import SCRIPTS, hash_field, without_interpreter

_EPOCH = (1980, 1, 1, 0, 0, 0)
_PIECE = 1024 * 1024
_MAXIMUM_SCRIPT = 1024 * 1024


class RepackError(Exception):
    """No wheel can be made of a distribution; the text says why."""


def repack(subject: VerifiedDistribution, library: str, folder: Path) -> Path:
    """Write the wheel of an installed distribution into `folder`, which exists, and return its path.

    `library` is "python3.12". Each file is held to its RECORD hash as it is read. Raises RepackError.
    """
    made = folder / filename(subject.item)
    temporary = beside(made)
    try:
        with zipfile.ZipFile(temporary, "x", zipfile.ZIP_DEFLATED) as archive:
            _write(archive, subject, library)
        temporary.replace(made)
    except OSError as error:
        raise RepackError(f"{error.filename or made}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return made


def filename(item: Distribution) -> str:
    """Return the wheel's file name, from the dist-info folder's name and the tags of WHEEL. Raises RepackError."""
    stem = item.folder.removesuffix(".dist-info")
    if not item.tags or stem == item.folder:
        raise RepackError("it was not installed from a wheel: no WHEEL file names its tags")
    return f"{stem}-{_joined(item.tags)}.whl"


def _joined(written: Iterable[str]) -> str:
    """Return tags as a file name writes them (PEP 425): the parts joined by dots, where that says no more."""
    tags = {tag for text in written for tag in parse_tag(text)}
    columns = ({t.interpreter for t in tags}, {t.abi for t in tags}, {t.platform for t in tags})
    joined = "-".join(".".join(sorted(column)) for column in columns)
    return joined if set(parse_tag(joined)) == tags else min(str(tag) for tag in tags)


def _write(archive: zipfile.ZipFile, subject: VerifiedDistribution, library: str) -> None:
    rows: list[str] = []
    for place in sorted(subject.places):
        digest = subject.places[place]
        if not digest and place.startswith(SCRIPTS):
            continue  # made from entry_points.txt wherever the wheel is installed
        name = _name(place, subject.item, library)
        with open_regular(Path(subject.item.site, place)) as file:
            rows.append(_row(name, *_add(archive, name, file, digest, place)))
    record = f"{subject.item.folder}/RECORD"
    archive.writestr(_entry(record, 0o644), "\n".join([*rows, f"{record},,", ""]))


def _name(place: str, item: Distribution, library: str) -> str:
    if not place.startswith("../"):
        return place
    data = item.folder.removesuffix(".dist-info") + ".data"
    if place.startswith(SCRIPTS):
        return f"{data}/scripts/{place.removeprefix(SCRIPTS)}"
    # Relative to the venv, which is what a wheel's data folder is copied onto.
    return f"{data}/data/{os.path.normpath(f'lib/{library}/site-packages/{place}')}"


def _add(archive: zipfile.ZipFile, name: str, file: BinaryIO, expected: str, place: str) -> tuple[str, int]:
    status = os.fstat(file.fileno())
    entry = _entry(name, 0o755 if status.st_mode & stat.S_IXUSR else 0o644)
    content, size = hashlib.sha256(), 0
    head = file.read(_MAXIMUM_SCRIPT)
    if place.startswith(SCRIPTS) and head.startswith(b"#!"):
        head = without_interpreter(head)
    with archive.open(entry, "w", force_zip64=status.st_size >= 2**31) as member:
        while head:
            content.update(head)
            size += len(head)
            member.write(head)
            head = file.read(_PIECE)
    digest = hash_field(content.digest())
    if digest != expected:
        raise RepackError(f"{place} does not have the recorded hash")
    return digest, size


def _entry(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | mode) << 16
    return entry


def _row(name: str, digest: str, size: int) -> str:
    quoted = f'"{name.replace(chr(34), chr(34) * 2)}"' if any(sign in name for sign in ',"') else name
    return f"{quoted},{digest},{size}"
