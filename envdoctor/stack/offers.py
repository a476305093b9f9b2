"""What a configured place (an index, a find-links page or folder) offers of one distribution."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from envdoctor.stack.index import File, IndexUnreadableError, page_files, project_files
from envdoctor.stack.settings import Sources


def is_local(place: str) -> bool:
    """Tell whether a place lies on this machine."""
    return "://" not in place or place.startswith("file:")


def files_of(place: str, name: str, sources: Sources) -> Iterable[File]:
    """Return the files a place offers of a distribution. Raises IndexUnreadableError when it cannot be read."""
    found = linked(place, sources) if place in sources.find_links else project_files(place, name, sources.access)
    return [_with_login(file, place) for file in found]


def linked(place: str, sources: Sources) -> Iterable[File]:
    """Return the files of a find-links folder or page. Raises IndexUnreadableError."""
    local = Path(unquote(urlsplit(place).path)) if place.startswith("file:") else Path(place)
    if not is_local(place) or (place.startswith("file:") and not local.is_dir()):
        return page_files(place, sources.access)
    try:
        return [
            File(filename=path.name, url=path.resolve().as_uri(), size=path.stat().st_size)
            for path in sorted(local.glob("*.whl"))
        ]
    except OSError as error:
        raise IndexUnreadableError(f"{local}: {error.strerror}") from error


def path_of(file: File) -> Path | None:
    """Return where a file lies on this machine; None for a remote one."""
    return Path(unquote(urlsplit(file.url).path)) if file.url.startswith("file:") else None


def _with_login(file: File, place: str) -> File:
    """Give a file of the index's own host the user and password that are written into the index's URL."""
    index, there = urlsplit(place), urlsplit(file.url)
    if not index.username or there.username or (there.scheme, there.hostname) != (index.scheme, index.hostname):
        return file
    login = index.netloc.rpartition("@")[0]
    return replace(file, url=urlunsplit(there._replace(netloc=f"{login}@{there.netloc}")))
