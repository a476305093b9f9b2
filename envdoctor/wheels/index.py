"""The simple API of a package index (PEP 503 and 691), asked for one project: its files, their hashes and sizes."""

import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from packaging.utils import canonicalize_name

from envdoctor.model.frozen import frozen, replace
from envdoctor.wheels.urls import Access, IndexUnreadableError, local_path, shown

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_MAXIMUM_PAGE = 64 * 1024 * 1024


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


def project_files(index: str, name: str, access: Access) -> tuple[File, ...]:
    """Return the files of a project; none when the index does not have it. Raises IndexUnreadableError."""
    page = f"{index.rstrip('/')}/{canonicalize_name(name)}/"
    return _local(page) if page.startswith("file:") else _remote(page, access)


def page_files(url: str, access: Access) -> tuple[File, ...]:
    """Return the files a find-links page links to. Raises IndexUnreadableError."""
    return _local(url) if url.startswith("file:") else _remote(url, access)


def size_of(file: File, access: Access) -> int | None:
    """Return the file's size as the page, the disk or a HEAD request tells it; None when none does."""
    if file.size is not None or file.local is not None:
        return file.size
    from envdoctor.wheels.fetch import open_url  # noqa: PLC0415

    try:
        with open_url(file.url, access, method="HEAD") as answer:
            length = answer.headers.get("Content-Length", "")
    except (IndexUnreadableError, FileNotFoundError):
        return None
    return int(length) if length.isdecimal() else None


def _local(page: str) -> tuple[File, ...]:
    folder = local_path(page)
    try:
        text = ((folder / "index.html") if folder.is_dir() else folder).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise IndexUnreadableError(f"{folder}: {error}") from error
    base = (folder / "index.html" if folder.is_dir() else folder).as_uri()
    return tuple(_sized(file) for file in _html(text, base))


def _sized(file: File) -> File:
    path = file.local
    return replace(file, size=path.stat().st_size) if path is not None and path.is_file() else file


def _remote(page: str, access: Access) -> tuple[File, ...]:
    from envdoctor.wheels.fetch import open_url  # noqa: PLC0415

    try:
        with open_url(page, access, accept=_ACCEPT) as answer:
            kind = answer.headers.get_content_type()
            body = answer.read(_MAXIMUM_PAGE)
            base = answer.url
    except FileNotFoundError:
        return ()
    text = body.decode("utf-8", "replace")
    if not kind.endswith("json"):
        return tuple(_html(text, base))
    try:
        return tuple(_entry(item, base) for item in json.loads(text)["files"])
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


def _html(text: str, base: str) -> list[File]:
    parser = _Links()
    parser.feed(text)
    files = []
    for href, yanked in parser.found:
        url, _, fragment = urljoin(base, href).partition("#")
        digest = re.search(r"sha256=([0-9a-f]{64})", fragment)
        filename = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
        files.append(File(filename=filename, url=url, sha256=digest[1] if digest else "", yanked=yanked))
    return files


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.found.append((str(values["href"]), "data-yanked" in values))
