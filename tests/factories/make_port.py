"""A TCP port of the loopback that a program is told to listen on, and that nobody else is given meanwhile."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def make_port() -> Iterator[int]:
    """Give a port, bound here and not listened on, which the kernel gives to nobody who asks for any.

    Who asks for this one by its number gets it, with SO_REUSEADDR, as sshd, Slurm and torch's store set it.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
