"""URLs: as people may see them, and how they are reached."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envdoctor.model.frozen import frozen
from envdoctor.standards.redaction import redacted

THREADS = 16
"""That ask one host at a time; as many connections to it are kept."""


@frozen
class Access:
    """How indexes are reached: the user's proxies, certificates and stored credentials."""

    environment: Mapping[str, str]
    home: Path
    certificate: str = ""
    proxy: str = ""
    insecure_hosts: tuple[str, ...] = ()
    """Whose certificates the user does not want verified."""


class IndexUnreadableError(Exception):
    """An index did not answer in a way that tells anything; the text says why."""

    def __init__(self, reason: str, *, answered: bool = True, transient: bool = False, status: int = 0) -> None:
        """Keep whether it answered at all, whether another try may help, and the HTTP status of a refusal."""
        super().__init__(reason)
        self.answered = answered
        self.transient = transient
        self.status = status


def is_local(place: str) -> bool:
    """Tell whether a place is a folder or a file:// URL, which no network is needed for."""
    return "://" not in place or place.startswith("file:")


def local_path(place: str) -> Path:
    """Return the path of a local place."""
    return Path(unquote(urlsplit(place).path)) if place.startswith("file:") else Path(place)


def shown(url: str) -> str:
    """Return the URL without logins and tokens, for people and files; a folder's path stays as it is."""
    return redacted(url) if "://" in url else url


def bare_host(url: str) -> str:
    """Return host and port, without user and password."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname or "")
