"""What a wheel would install, and where: from its table of contents and its RECORD."""

import csv
import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO

from envdoctor.model.frozen import frozen
from envdoctor.standards.recorded import SCRIPTS, generated_scripts, hash_field, lasting, without_interpreter

_MAXIMUM_RECORD = 32 * 1024 * 1024
_PIECE = 1024 * 1024
# zipfile's own, zlib's, an unknown compression, an encrypted member, a name that is not the UTF-8 it says it is.
_UNPACKABLE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, UnicodeDecodeError)


class WheelError(Exception):
    """A file is not a wheel that can be read; the text says why."""


@frozen
class Wheel:
    """An open wheel."""

    archive: zipfile.ZipFile
    info: str
    """Its dist-info folder."""

    def places(self, library: str) -> dict[str, str]:
        """Return place -> RECORD hash ("sha256=…") of everything that an installer takes over from the wheel.

        A place is relative to site-packages; `library` is its parent folder's name ("python3.12"). What the wheel's
        own RECORD does not vouch for is hashed here. Raises WheelError.
        """
        recorded = self._recorded()
        generated = generated_scripts(self.text(f"{self.info}/entry_points.txt"))
        found: dict[str, str] = {}
        for entry in self.archive.infolist():
            if entry.is_dir():
                continue
            place = self._place(entry.filename, library)
            if not lasting(place, self.info):
                continue
            digest = recorded.get(entry.filename, "")
            # Installers write the line that names a script's Python again; a binary has none.
            script = place.startswith(SCRIPTS) and self._starts_with(entry, b"#!")
            found[place] = digest if digest.startswith("sha256=") and not script else self._hash(entry, script=script)
        found |= {SCRIPTS + name: "" for name in generated}
        return found

    def hashes(self, places: Collection[str], library: str) -> dict[str, str]:
        """Return the hash of the bytes themselves of what the wheel has at those places. Raises WheelError."""
        return {
            place: self._hash(entry, script=False)
            for entry in self.archive.infolist()
            if not entry.is_dir() and (place := self._place(entry.filename, library)) in places
        }

    def _place(self, name: str, library: str) -> str:
        data = self.info.removesuffix(".dist-info") + ".data/"
        if not name.startswith(data):
            return os.path.normpath(name)
        scheme, _, rest = name[len(data) :].partition("/")
        project = self.info.removesuffix(".dist-info").rpartition("-")[0]
        root = {
            "purelib": "",
            "platlib": "",
            "scripts": SCRIPTS,
            "data": "../../../",
            "headers": f"../../../include/site/{library}/{project}/",
        }.get(scheme)
        if root is None:
            raise WheelError(f"{name} is of no known kind")
        return os.path.normpath(root + rest)

    def _recorded(self) -> dict[str, str]:
        text = self.text(f"{self.info}/RECORD")
        try:
            return {row[0]: row[1] for row in csv.reader(io.StringIO(text)) if len(row) == 3}
        except csv.Error as error:
            raise WheelError(f"its RECORD is malformed ({error})") from error

    def text(self, name: str) -> str:
        """Return a member as text; empty when there is none of that name. Raises WheelError."""
        try:
            entry = self.archive.getinfo(name)
        except KeyError:
            return ""
        if entry.file_size > _MAXIMUM_RECORD:
            raise WheelError(f"{name} has {entry.file_size} bytes")
        with self._open(entry) as file:
            return file.read().decode("utf-8", "surrogateescape")

    def _starts_with(self, entry: zipfile.ZipInfo, sign: bytes) -> bool:
        with self._open(entry) as file:
            return file.read(len(sign)) == sign

    def _hash(self, entry: zipfile.ZipInfo, *, script: bool) -> str:
        content = hashlib.sha256()
        with self._open(entry) as file:
            head = file.read(_PIECE)
            content.update(without_interpreter(head) if script else head)
            while piece := file.read(_PIECE):
                content.update(piece)
        return hash_field(content.digest())

    @contextmanager
    def _open(self, entry: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
        try:
            with self.archive.open(entry) as file:
                yield file
        except _UNPACKABLE as error:
            raise WheelError(f"{entry.filename} cannot be unpacked ({error})") from error


def open_wheel(file: BinaryIO) -> Wheel:
    """Open a wheel for reading. Raises WheelError when it is not a zip, or holds not exactly one dist-info folder."""
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as error:
        raise WheelError(f"it is not a zip ({error})") from error
    tops = {name.split("/")[0] for name in archive.namelist()}
    infos = [name for name in tops if name.endswith(".dist-info")]
    if len(infos) != 1:
        raise WheelError(f"it holds {len(infos)} dist-info folders instead of one")
    return Wheel(archive=archive, info=infos[0])
