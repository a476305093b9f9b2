"""The simple API of a package index (PEP 503 and 691), asked for one project: its files, their hashes and sizes."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

from packaging.utils import canonicalize_name

from envdoctor.facts.regular_file import read_text
from envdoctor.model.frozen import frozen, replace
from envdoctor.standards.bounded_json import loads
from envdoctor.wheels.urls import Access, IndexUnreadableError, local_path, shown

_MAXIMUM_PAGE = 128 << 20

# The page of a project with 10,000 releases has some 500,000.
_MAXIMUM_VALUES = 3_000_000

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


Wanted = Callable[[str], bool]
"""Tells by its name whether a file is asked about: a page may list thousands."""


@frozen
class File:
    """One file an index offers."""

    filename: str
    url: str
    sha256: str = ""
    size: int | None = None
    yanked: bool = False

    @property
    def local(self) -> Path | None:
        """Return where it lies when it is on this machine."""
        return local_path(self.url) if self.url.startswith("file:") else None


def everything(filename: str) -> bool:
    """Leave out no file."""
    del filename
    return True


def project_files(index: str, name: str, access: Access, wanted: Wanted = everything) -> tuple[File, ...]:
    """Return the wanted files of a project; none when the index does not have it. Raises IndexUnreadableError."""
    return page_files(f"{index.rstrip('/')}/{canonicalize_name(name)}/", access, wanted)


def page_files(url: str, access: Access, wanted: Wanted = everything) -> tuple[File, ...]:
    """Return the wanted files a find-links page links to. Raises IndexUnreadableError."""
    return _local(url, wanted) if url.startswith("file:") else _remote(url, access, wanted)


def size_of(file: File, access: Access) -> int | None:
    """Return the file's size as the page, the disk or a HEAD request tells it; None when none does."""
    if file.size is not None or file.local is not None:
        return file.size
    from envdoctor.wheels.http import ask  # noqa: PLC0415

    try:
        length = ask(file.url, access, method="HEAD", headers={"Accept-Encoding": "identity"}).headers.get(
            "Content-Length", ""
        )
    except (IndexUnreadableError, FileNotFoundError):
        return None
    return int(length) if length.isdecimal() else None


def _local(page: str, wanted: Wanted) -> tuple[File, ...]:
    folder = local_path(page)
    try:
        text = read_text((folder / "index.html") if folder.is_dir() else folder, _MAXIMUM_PAGE)
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise IndexUnreadableError(f"{folder}: {error}") from error
    base = (folder / "index.html" if folder.is_dir() else folder).as_uri()
    return tuple(_sized(file) for file in _html(text, base, wanted))


def _sized(file: File) -> File:
    path = file.local
    return replace(file, size=path.stat().st_size) if path is not None and path.is_file() else file


def _remote(page: str, access: Access, wanted: Wanted) -> tuple[File, ...]:
    from envdoctor.wheels.http import ask  # noqa: PLC0415

    try:
        answer = ask(page, access, headers={"Accept": _ACCEPT})
    except FileNotFoundError:
        return ()
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if not kind.endswith("json"):
        return tuple(_html(answer.body.decode("utf-8", "replace"), answer.url, wanted))
    try:
        return tuple(
            _entry(item, answer.url)
            for item in loads(answer.body, _MAXIMUM_VALUES)["files"]
            if wanted(item["filename"])
        )
    except (ValueError, KeyError, TypeError) as error:
        raise IndexUnreadableError(f"{shown(page)}: not a simple API page ({type(error).__name__})") from error


def _entry(item: Mapping[str, Any], base: str) -> File:
    size = item.get("size")
    return File(
        filename=str(item["filename"]),
        url=urljoin(base, str(item["url"])),
        sha256=str(item.get("hashes", {}).get("sha256", "")),
        size=size if isinstance(size, int) else None,
        yanked=bool(item.get("yanked", False)),
    )


def _html(text: str, base: str, wanted: Wanted) -> list[File]:
    files = []
    for href, yanked in _links(text):
        path, _, fragment = href.partition("#")
        filename = unquote(path.partition("?")[0].rsplit("/", 1)[-1])
        if not wanted(filename):
            continue
        try:
            url = urljoin(base, path)
        except ValueError:
            continue  # "http://[": no installer could follow it either
        digest = re.search(r"sha256=([0-9a-f]{64})", fragment)
        files.append(File(filename=filename, url=url, sha256=digest[1] if digest else "", yanked=yanked))
    return files


def _links(text: str) -> list[tuple[str, bool]]:
    """Return what the links of a page lead to, and whether it was withdrawn."""
    from html.parser import HTMLParser  # noqa: PLC0415 - a restore from uv's cache reads no page

    found: list[tuple[str, bool]] = []

    class _Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            values = dict(attrs)
            if tag == "a" and values.get("href"):
                found.append((str(values["href"]), "data-yanked" in values))

    _Links().feed(text)
    return found
