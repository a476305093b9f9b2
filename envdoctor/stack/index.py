"""The simple API of a package index (PEP 503 and 691), asked for one project: its files, their hashes and sizes."""

import json
import netrc
import re
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from packaging.utils import canonicalize_name

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_MAXIMUM_PAGE = 64 * 1024 * 1024
_TIMEOUT = 15.0


class IndexUnreadableError(Exception):
    """An index did not answer in a way that tells anything; the text says why."""

    def __init__(self, reason: str, *, answered: bool = True) -> None:
        """Keep whether it answered at all: one that wants a login may still serve uv."""
        super().__init__(reason)
        self.answered = answered


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file an index offers."""

    filename: str
    url: str
    sha256: str = ""
    size: int | None = None
    yanked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How indexes are reached: the user's proxies, certificates and stored credentials."""

    environment: Mapping[str, str]
    home: Path
    certificate: str = ""
    proxy: str = ""


def shown(url: str) -> str:
    """Return the URL without user and password, for people and files."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"****@{parts.hostname}{_port(parts.port)}")) if parts.username else url


def project_files(index: str, name: str, access: Access) -> tuple[File, ...]:
    """Return the files of a project; none when the index does not have it. Raises IndexUnreadableError."""
    page = f"{index.rstrip('/')}/{canonicalize_name(name)}/"
    return _local(page) if page.startswith("file:") else _remote(page, access)


def page_files(url: str, access: Access) -> tuple[File, ...]:
    """Return the files a find-links page links to. Raises IndexUnreadableError."""
    return _local(url) if url.startswith("file:") else _remote(url, access)


def size_of(file: File, access: Access) -> int | None:
    """Return the file's size as the page, the disk or a HEAD request tells it; None when none does."""
    if file.size is not None or file.url.startswith("file:"):
        return file.size
    try:
        with open_url(urllib.request.Request(file.url, method="HEAD"), access) as answer:  # noqa: S310 - http(s) only, open_url checks
            length = answer.headers.get("Content-Length", "")
    except (IndexUnreadableError, FileNotFoundError):
        return None
    return int(length) if length.isdecimal() else None


def _local(page: str) -> tuple[File, ...]:
    folder = Path(unquote(urlsplit(page).path))
    try:
        text = ((folder / "index.html") if folder.is_dir() else folder).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise IndexUnreadableError(f"{folder}: {error}") from error
    base = (folder / "index.html" if folder.is_dir() else folder).as_uri()
    return tuple(_sized(file) for file in _html(text, base))


def _sized(file: File) -> File:
    path = Path(unquote(urlsplit(file.url).path))
    if not file.url.startswith("file:") or not path.is_file():
        return file
    return File(filename=file.filename, url=file.url, sha256=file.sha256, size=path.stat().st_size, yanked=file.yanked)


def _remote(page: str, access: Access) -> tuple[File, ...]:
    request = urllib.request.Request(page, headers={"Accept": _ACCEPT, "User-Agent": "envdoctor"})  # noqa: S310
    try:
        with open_url(request, access) as answer:
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


def open_url(request: urllib.request.Request, access: Access) -> Any:
    """Open an http(s) URL; FileNotFoundError for 404 and 410, IndexUnreadableError for anything else that fails."""
    parts = urlsplit(request.full_url)
    if parts.scheme not in ("http", "https"):
        raise IndexUnreadableError(f"{shown(request.full_url)}: only http, https and file are read")
    credentials = _credentials(parts.username, parts.password, parts.hostname or "", access)
    if credentials:
        request.add_header("Authorization", "Basic " + b64encode(":".join(credentials).encode()).decode())
    if parts.username:
        request.full_url = urlunsplit(parts._replace(netloc=f"{parts.hostname}{_port(parts.port)}"))
    try:
        return _opener(access.certificate, tuple(_proxies(access).items())).open(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            raise FileNotFoundError(request.full_url) from error
        raise IndexUnreadableError(f"{shown(request.full_url)}: it answered {error.code} {error.reason}") from error
    except OSError as error:
        reason = f"{shown(request.full_url)}: {getattr(error, 'reason', error)}"
        raise IndexUnreadableError(reason, answered=False) from error


@cache
def _opener(certificate: str, proxies: tuple[tuple[str, str], ...]) -> urllib.request.OpenerDirector:
    # Reading the system's certificates takes 30 ms: once, not for every page.
    context = ssl.create_default_context(cafile=certificate or None)
    handlers = urllib.request.ProxyHandler(dict(proxies)), urllib.request.HTTPSHandler(context=context)
    return urllib.request.build_opener(*handlers)


def _port(port: int | None) -> str:
    return f":{port}" if port else ""


def _proxies(access: Access) -> dict[str, str]:
    if access.proxy:
        return {"http": access.proxy, "https": access.proxy}
    found: dict[str, str] = {}
    for scheme in ("http", "https"):
        for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"):
            if access.environment.get(name):
                found.setdefault(scheme, access.environment[name])
    return found


def _credentials(user: str | None, password: str | None, host: str, access: Access) -> tuple[str, str] | None:
    if user:
        return unquote(user), unquote(password or "")
    path = access.environment.get("NETRC") or str(access.home / ".netrc")
    try:
        stored = netrc.netrc(path).authenticators(host)
    except (OSError, netrc.NetrcParseError):
        return None
    return (stored[0], stored[2]) if stored and stored[2] else None
