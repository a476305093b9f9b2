"""HTTP through urllib3, with the user's proxies, certificates and stored credentials.

Connections are kept alive and shared by the threads of a run. A whole answer gets three tries; of a
download, which goes on where it stopped, each try is one call. Apart from the rest because its imports cost more than a
restore from a warm cache spends on sources.
"""

import http.client
import random
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import mktime_tz, parsedate_tz
from threading import Lock
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import urllib3
from urllib3.exceptions import HTTPError, MaxRetryError

from envdoctor.model.frozen import field, frozen, mutable
from envdoctor.wheels.http_errors import TransientError, explained
from envdoctor.wheels.transport import CONNECT_TIMEOUT, certificates, insecure, login, proxy_for, read_timeout
from envdoctor.wheels.urls import THREADS, Access, IndexUnreadableError, bare_host, shown

PAUSES = (0.0, 0.3, 1.2)
"""Seconds before each try, to which up to a third is added by chance: threads that failed together do not return so."""
PATIENCE = 20.0
"""Seconds of a Retry-After that are waited; a server that wants more is left alone."""
_PASSING = (408, 425, 429, 500, 502, 503, 504)
"""What a server says when another try may help."""
_REDIRECTS = 10
_PIECE = 256 * 1024
_MAXIMUM = 64 * 1024 * 1024
"""Bytes of a whole answer."""
_RETRIES = urllib3.Retry(total=None, connect=0, read=0, status=0, other=0, redirect=0, raise_on_status=False)


@frozen
class WholeAnswer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    """Where it came from, after redirects."""


def ask(
    url: str,
    access: Access,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> WholeAnswer:
    """Return a whole answer; with a `limit` its first bytes (decoded), for what is known to be that long.

    Raises IndexUnreadableError for an answer of more than 64 MiB without one: a page that is cut would lack files.
    Raises FileNotFoundError for 404 and 410, IndexUnreadableError for anything else that fails: a TransientError where
    three tries were not enough.
    """
    session = _session(access)
    for pause in PAUSES[1:]:
        try:
            return session.once(url, method, headers or {}, limit)
        except TransientError as error:
            if error.wait > PATIENCE:
                raise
            time.sleep(max(error.wait, pause * random.uniform(1, 4 / 3)))  # noqa: S311 - spreads tries, hides nothing
    try:
        return session.once(url, method, headers or {}, limit)
    except TransientError as error:
        session.failed(url, error)
        raise


@contextmanager
def opened(url: str, access: Access, headers: Mapping[str, str] | None = None) -> Iterator[urllib3.BaseHTTPResponse]:
    """Give the answer to one try, its body unread; what breaks while it is read is a TransientError too."""
    with _session(access).opened(url, "GET", headers or {}) as (answer, _):
        yield answer


@mutable
class _Session:
    """Connections and logins of one configuration."""

    access: Access
    managers: dict[tuple[str, bool], urllib3.PoolManager] = field(default_factory=dict)
    """By proxy, empty for none, and whether certificates are not verified."""
    spoken: set[str] = field(default_factory=set)
    """Hosts that have answered anything."""
    silent: dict[str, str] = field(default_factory=dict)
    """Hosts that never did in three tries, and why: asked once more for every package, nobody could wait for it."""

    def once(self, url: str, method: str, headers: Mapping[str, str], limit: int | None) -> WholeAnswer:
        left = _MAXIMUM if limit is None else limit
        with self.opened(url, method, headers) as (answer, place):
            pieces: list[bytes] = []
            while left > 0 and (piece := answer.read(min(left, _PIECE), decode_content=True)):
                pieces.append(piece)
                left -= len(piece)
            if limit is None and not left and answer.read(1, decode_content=True):
                raise IndexUnreadableError(f"{shown(url)}: its answer is longer than {_MAXIMUM // 1024**2} MiB")
            return WholeAnswer(status=answer.status, headers=answer.headers, body=b"".join(pieces), url=place)

    def failed(self, url: str, error: TransientError) -> None:
        host = bare_host(url)
        if not error.answered and host not in self.spoken:
            self.silent.setdefault(host, str(error))

    @contextmanager
    def opened(
        self, url: str, method: str, headers: Mapping[str, str]
    ) -> Iterator[tuple[urllib3.BaseHTTPResponse, str]]:
        """Give the answer and where it came from; an OSError of the caller's own work stays one."""
        try:
            host = bare_host(url)
        except ValueError as error:
            raise IndexUnreadableError(f"{shown(url)}: not a URL ({error})") from error
        if host in self.silent:
            raise TransientError(self.silent[host])
        answer, place = self._followed(url, method, headers)
        self.spoken.add(host)
        try:
            _refuse(url, answer)
            yield answer, place
        except (HTTPError, http.client.HTTPException) as error:
            raise explained(url, error, self.access) from error
        finally:
            _released(answer)

    def _followed(self, url: str, method: str, headers: Mapping[str, str]) -> tuple[urllib3.BaseHTTPResponse, str]:
        """Follow redirects. Proxy, certificates and login are each host's own, a login in the URL its origin's."""
        place = url
        for _ in range(_REDIRECTS + 1):
            try:
                answer = self._request(place, method, headers)
            except MaxRetryError as error:
                raise explained(place, error.reason or error, self.access) from error
            except (HTTPError, http.client.HTTPException, OSError) as error:
                raise explained(place, error, self.access) from error
            location = answer.get_redirect_location()
            if not location:
                return answer, place
            _released(answer)
            try:
                place = _with_login(urljoin(place, location), place)
            except ValueError as error:
                raise IndexUnreadableError(f"{shown(url)}: it redirects to what is not a URL ({error})") from error
        raise IndexUnreadableError(f"{shown(url)}: it redirects in a circle")

    def _request(self, url: str, method: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise IndexUnreadableError(f"{shown(url)}: only http, https and file are read")
        bare = urlunsplit(parts._replace(netloc=bare_host(url), fragment=""))
        sent = {"Accept": "*/*", "Accept-Encoding": "gzip", "User-Agent": "envdoctor", **headers}
        if known := login(url, self.access):
            sent["Authorization"] = _basic(*known)
        manager = self._manager(proxy_for(url, self.access), insecure(url, self.access))
        return manager.request(
            method,
            bare,
            headers=sent,
            preload_content=False,
            redirect=False,
            retries=_RETRIES,
            timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=read_timeout(self.access)),
        )

    def _manager(self, proxy: str, unverified: bool) -> urllib3.PoolManager:  # noqa: FBT001 - a key, not a switch
        key = (proxy, unverified)
        if key not in self.managers:
            context = certificates(self.access, verify=not unverified)
            more: dict[str, Any] = {"maxsize": THREADS, "block": True, "ssl_context": context}
            if proxy:
                parts = urlsplit(proxy)
                known = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
                headers = {"Proxy-Authorization": _basic(*known)} if known else None
                bare = urlunsplit(parts._replace(netloc=bare_host(proxy)))
                made: urllib3.PoolManager = urllib3.ProxyManager(bare, proxy_headers=headers, **more)
            else:
                made = urllib3.PoolManager(**more)
            # Two threads may make one each: the first that is stored is everybody's.
            self.managers.setdefault(key, made)
        return self.managers[key]


_SESSIONS: dict[int, _Session] = {}
_MUTEX = Lock()


def _session(access: Access) -> _Session:
    """Return the session of an Access object, which it keeps alive: its id stays its own."""
    with _MUTEX:
        if id(access) not in _SESSIONS:
            _SESSIONS[id(access)] = _Session(access=access)
        return _SESSIONS[id(access)]


def _refuse(url: str, answer: urllib3.BaseHTTPResponse) -> None:
    """Raise what a status that is not a success means."""
    if answer.status in (404, 410):
        raise FileNotFoundError(url)
    if answer.status in _PASSING:
        raise TransientError(
            f"{shown(url)}: it answered {answer.status} {_words(answer)}", answered=True, wait=_wait(answer.headers)
        )
    if answer.status >= 400 or answer.status in (301, 302, 303, 307, 308):
        raise IndexUnreadableError(f"{shown(url)}: it answered {answer.status} {_words(answer)}", status=answer.status)


def _words(answer: urllib3.BaseHTTPResponse) -> str:
    return answer.reason or http.client.responses.get(answer.status, "")


def _wait(headers: Mapping[str, str]) -> float:
    """Return the seconds of a Retry-After header (RFC 9110, 10.2.3); 0 without one."""
    told = headers.get("Retry-After", "").strip()
    if told.isdecimal():
        return float(told)
    date = parsedate_tz(told)
    return max(mktime_tz(date) - time.time(), 0.0) if date else 0.0


def _released(answer: urllib3.BaseHTTPResponse) -> None:
    """Give a connection's place in the pool back: of one that is closed alone, the pool would wait forever.

    It is kept open when its answer was read to the end, or when little of it is left, which is read here.
    """
    remaining: int | None = getattr(answer, "length_remaining", None)
    if remaining is not None and remaining <= _PIECE:
        answer.drain_conn()
    elif not answer.closed:
        answer.close()
    answer.release_conn()


def _with_login(place: str, before: str) -> str:
    """Return where a redirect leads, with the login of the URL before on the same origin (scheme, host, port) only."""
    to, of = urlsplit(place), urlsplit(before)
    same = (to.scheme, to.hostname, to.port) == (of.scheme, of.hostname, of.port)
    return urlunsplit(to._replace(netloc=of.netloc)) if same and not to.username else place


def _basic(user: str, password: str) -> str:
    """Return the value of an Authorization header (RFC 7617), in UTF-8 as uv sends it."""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode("ascii")
