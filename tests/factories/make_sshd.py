"""A real sshd on the loopback, at an unprivileged port, with keys and configuration of its own, gone afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.factories.make_port import make_port

_PATH = os.pathsep.join((os.environ["PATH"], "/usr/sbin"))


@contextmanager
def make_sshd(folder: Path, names: Sequence[str], *, command: str = "") -> Iterator[str]:
    """Start it and give the lines of an ssh_config in which each of the names is a host that it answers for.

    command: what it runs in place of what is asked for. Skips, saying why, where it is not installed.
    """
    missing = [name for name in ("sshd", "ssh", "ssh-keygen") if shutil.which(name, path=_PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: openssh-server)")
    folder.mkdir()
    for key in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True, stdin=subprocess.DEVNULL
        )
    with make_port() as port:
        yield from _serving(folder, port, names, command)


def _serving(folder: Path, port: int, names: Sequence[str], command: str) -> Iterator[str]:
    shutil.copy(folder / "user.pub", folder / "authorized")
    forced = f"ForceCommand {command}\n" if command else ""
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        f"PidFile {folder}/sshd.pid\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        f"PermitRootLogin prohibit-password\nAllowTcpForwarding no\nX11Forwarding no\n{forced}"
    )
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists on its folder of privilege separation
    with (folder / "log").open("wb") as log:
        program = shutil.which("sshd", path=_PATH)
        assert program is not None
        process = subprocess.Popen(
            [program, "-D", "-e", "-f", folder / "sshd_config"], stderr=log, start_new_session=True
        )
    try:
        _wait(port, process, folder)
        (folder / "pid").write_text(f"{process.pid}")
        yield "".join(
            f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {folder}/known\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n"
            for name in names
        )
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(port: int, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    begun = time.monotonic()
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() - begun > 30:
            pytest.skip(f"sshd does not start here: {(folder / 'log').read_text()[-500:]}")
        time.sleep(0.05)
