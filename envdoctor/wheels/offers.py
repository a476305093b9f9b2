"""What a configured place (an index, a find-links page or folder) offers of one distribution."""

from collections.abc import Iterable
from urllib.parse import urlsplit, urlunsplit

from envdoctor.model.frozen import replace
from envdoctor.wheels.index import File, page_files, project_files
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.urls import IndexUnreadableError, is_local, local_path


def files_of(place: str, name: str, sources: IndexConfig) -> list[File]:
    """Return the files a place offers of a distribution. Raises IndexUnreadableError when it cannot be read."""
    found = _linked(place, sources) if place in sources.find_links else project_files(place, name, sources.access)
    return [_with_login(file, place) for file in found]


def _linked(place: str, sources: IndexConfig) -> Iterable[File]:
    local = local_path(place)
    if not is_local(place) or (place.startswith("file:") and not local.is_dir()):
        return page_files(place, sources.access)
    try:
        return [
            File(filename=path.name, url=path.resolve().as_uri(), size=path.stat().st_size)
            for path in sorted(local.glob("*.whl"))
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
