"""The sockets that ranks meet at: an abstract Unix socket on one node, TCP between nodes."""

import contextlib
import errno
import os
import resource
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from envdoctor.ranks.job import MeetingPlace, RankedJob

_CONNECT_SECONDS = 3.0
_SPARE_FILES = 128


class NoPlaceError(OSError):
    """Rank 0 cannot listen where the others will look for it; the text says why."""


def listen(job: RankedJob) -> list[socket.socket]:
    """Return sockets that listen at the first place of the job that is free. Raises NoPlaceError."""
    reasons = []
    for place in job.places:
        try:
            return _listen(job, place)
        except (OSError, UnicodeError) as error:  # the latter for a name that is none, as `a..b`
            where = f"{place.name} port {place.port}" if place.port else "a Unix socket"
            reasons.append(f"{where}: {getattr(error, 'strerror', None) or error}")
    raise NoPlaceError("; ".join(dict.fromkeys(reasons)))


def connect(place: MeetingPlace) -> socket.socket | None:
    """Return a connection; None where nobody listens, or somebody who is not this user."""
    try:
        if place.port:
            return socket.create_connection((place.name, place.port), timeout=_CONNECT_SECONDS)
        made = socket.socket(socket.AF_UNIX)
        try:
            made.settimeout(_CONNECT_SECONDS)
            made.connect(f"\0{place.name}")
            if is_ours(made):
                return made
        except OSError:
            made.close()
            raise
        made.close()
    except (OSError, UnicodeError):
        pass
    return None


def is_ours(connection: socket.socket) -> bool:
    """Tell whether the other end of a Unix socket is this user's or root's; over TCP the key alone tells."""
    if connection.family != socket.AF_UNIX:
        return True
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", peer)[1] in (0, os.geteuid())


@contextlib.contextmanager
def enough_files(connections: int) -> Iterator[None]:
    """Let this process have so many connections, as far as its hard limit goes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _SPARE_FILES
    raised = soft != resource.RLIM_INFINITY and soft < wanted
    if raised:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )
    try:
        yield
    finally:
        if raised:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _listen(job: RankedJob, place: MeetingPlace) -> list[socket.socket]:
    if not place.port:
        return [_bound(socket.AF_UNIX, f"\0{place.name}", job.size)]
    found = socket.getaddrinfo(place.name, place.port, type=socket.SOCK_STREAM)
    addresses: list[tuple[int, Any]] = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    outward = [(family, address) for family, address in addresses if not _is_loopback(address[0])]
    # None of this host: a forwarded address, as a service of Kubernetes is. Loopback alone: Debian's `127.0.1.1 n1` of
    # /etc/hosts, while the others have another address of n1. torch's own store listens everywhere too.
    everywhere = [(socket.AF_INET, ("", place.port)), (socket.AF_INET6, ("::", place.port))]
    return _those_of_this_host(outward, job.size) or _those_of_this_host(everywhere, job.size)


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _those_of_this_host(addresses: Sequence[tuple[int, Any]], size: int) -> list[socket.socket]:
    made: list[socket.socket] = []
    for family, address in dict.fromkeys(addresses):
        try:
            made.append(_bound(family, address, size))
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                for one in made:
                    one.close()
                raise
    return made


def _bound(family: int, address: Any, size: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if family != socket.AF_UNIX:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(size)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
