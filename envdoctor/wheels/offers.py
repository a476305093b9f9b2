"""What a configured place (an index, a find-links page or folder) offers of one distribution."""

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from packaging.version import InvalidVersion, Version

from envdoctor.model.frozen import replace
from envdoctor.wheels.index import File, Wanted, everything, page_files, project_files
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.urls import IndexUnreadableError, is_local, local_path


def files_of(place: str, name: str, version: str, sources: IndexConfig) -> list[File]:
    """Return the wheels a place offers of a version of a distribution, or all where the version is none.

    Raises IndexUnreadableError when the place cannot be read.
    """
    wanted = _of(version)
    if place in sources.find_links:
        found = _linked(place, sources, wanted)
    else:
        found = project_files(place, name, sources.access, wanted)
    return [_with_login(file, place) for file in found]


def _of(version: str) -> Wanted:
    """Return what tells by its name whether a file is a wheel of that version, however that is written."""
    try:
        asked = Version(version)
    except InvalidVersion:
        return everything
    known: dict[str, bool] = {}

    def wanted(filename: str) -> bool:
        if not filename.endswith(".whl"):
            return False
        _, _, rest = filename.partition("-")
        written = rest.partition("-")[0]
        if written not in known:
            known[written] = _same(written, asked)
        return known[written]

    return wanted


def _same(written: str, asked: Version) -> bool:
    try:
        return Version(written) == asked
    except InvalidVersion:
        return False


def _linked(place: str, sources: IndexConfig, wanted: Wanted) -> Iterable[File]:
    local = local_path(place)
    if not is_local(place) or (place.startswith("file:") and not local.is_dir()):
        return page_files(place, sources.access, wanted)
    try:
        return [
            File(filename=name, url=Path(os.path.realpath(local / name)).as_uri(), size=(local / name).stat().st_size)
            for name in sorted(entry.name for entry in os.scandir(local))
            if name.endswith(".whl") and wanted(name)
        ]
    except OSError as error:
        raise IndexUnreadableError(f"{local}: {error.strerror}") from error


def _with_login(file: File, place: str) -> File:
    """Give a file of the index's own host the user and password that are written into the index's URL."""
    index, there = urlsplit(place), urlsplit(file.url)
    if not index.username or there.username or (there.scheme, there.hostname) != (index.scheme, index.hostname):
        return file
    login = index.netloc.rpartition("@")[0]
    return replace(file, url=urlunsplit(there._replace(netloc=f"{login}@{there.netloc}")))
