"""A real Slurm of one node, with its own munge, all of it below one folder and gone afterwards."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
_PATH = os.pathsep.join((os.environ["PATH"], "/usr/sbin"))
_PATIENCE = 60.0


@contextmanager
def make_slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Start it and give the variables that `srun` needs; skip, saying why, where it cannot be had."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: slurm-wlm, munge)")
    configuration = _write(folder)
    environment = {"PATH": _PATH, "HOME": str(folder), "SLURM_CONF": str(configuration)}
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    munged = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}"]
    munged += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed"]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in (munged, ["slurmctld", "-D"], ["slurmd", "-D", "-N", "n1"]):
            with (folder / f"{command[0]}.out").open("wb") as out:
                started.append(
                    subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
                )
            if command is munged:
                _wait((folder / "munge.socket").exists, folder)
        _wait(lambda: _idle(environment), folder)
        yield environment
    finally:
        for process in reversed(started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _write(folder: Path) -> Path:
    controller, node = _free_ports(2)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host, user = socket.gethostname(), getpass.getuser()
    path = folder / "slurm.conf"
    path.write_text(
        f"ClusterName=local\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\n"
        f"AuthType=auth/munge\nAuthInfo=socket={folder}/munge.socket\nCredType=cred/munge\n"
        f"SlurmUser={user}\nSlurmdUser={user}\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\n"
        f"SlurmctldPidFile={folder}/ctl.pid\nSlurmdPidFile={folder}/d.pid\nSlurmctldLogFile={folder}/ctl.log\n"
        f"SlurmdLogFile={folder}/d.log\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\nMpiDefault=none\n"
        "SelectType=select/cons_tres\nReturnToService=2\n"
        f"NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node} CPUs={max(2, os.cpu_count() or 2)}\n"
        "PartitionName=p Nodes=n1 Default=YES State=UP\n"
    )
    return path


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _idle(environment: dict[str, str]) -> bool:
    told = subprocess.run(
        ["sinfo", "--noheader", "--states=idle", "--format=%D"], env=environment, capture_output=True, check=False
    )
    return told.stdout.strip() == b"1"


def _wait(ready: "object", folder: Path) -> None:
    begun = time.monotonic()
    while not ready():  # type: ignore[operator]
        if time.monotonic() - begun > _PATIENCE:
            said = "".join(path.read_text(errors="replace")[-500:] for path in sorted(folder.glob("*.out")))
            pytest.skip(f"Slurm does not start here: {said}")
        time.sleep(0.2)
