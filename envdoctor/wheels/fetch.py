"""Fetching pages over HTTP, with the user's proxies, certificates and stored credentials.

Apart from the rest because its imports cost more than a restore from a warm cache spends on sources.
"""

import netrc
import ssl
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from envdoctor.wheels.urls import Access, IndexUnreadableError, bare_host, shown

_TIMEOUT = 15.0


def open_url(
    url: str, access: Access, *, method: str = "GET", accept: str = "*/*", more: Mapping[str, str] | None = None
) -> Any:
    """Open an http(s) URL; `more` are headers to send.

    Raises FileNotFoundError for 404 and 410, IndexUnreadableError for anything else that fails.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise IndexUnreadableError(f"{shown(url)}: only http, https and file are read")
    bare = urlunsplit(parts._replace(netloc=bare_host(url)))
    headers = {"Accept": accept, "User-Agent": "envdoctor", **(more or {})}
    request = urllib.request.Request(bare, method=method, headers=headers)  # noqa: S310 - http and https only, see above
    credentials = _credentials(parts.username, parts.password, parts.hostname or "", access)
    if credentials:
        request.add_header("Authorization", "Basic " + b64encode(":".join(credentials).encode()).decode())
    try:
        return _opener(access.certificate, tuple(_proxies(access).items())).open(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (404, 410):
            raise FileNotFoundError(url) from error
        raise IndexUnreadableError(f"{shown(url)}: it answered {error.code} {error.reason}") from error
    except OSError as error:
        reason = f"{shown(url)}: {getattr(error, 'reason', error)}"
        raise IndexUnreadableError(reason, answered=False) from error


@cache
def _opener(certificate: str, proxies: tuple[tuple[str, str], ...]) -> urllib.request.OpenerDirector:
    # Reading the system's certificates takes 30 ms: once, not for every page.
    context = ssl.create_default_context(cafile=certificate or None)
    handlers = urllib.request.ProxyHandler(dict(proxies)), urllib.request.HTTPSHandler(context=context)
    return urllib.request.build_opener(*handlers)


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
