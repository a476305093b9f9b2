"""A real Slurm on this machine, with its own munge, all of it below one folder and gone afterwards."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.factories.make_port import make_port

_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
_PATH = os.pathsep.join((os.environ["PATH"], "/usr/sbin"))
_PATIENCE = 60.0


@contextmanager
def make_slurm(folder: Path, nodes: int = 1) -> Iterator[dict[str, str]]:
    """Start nodes n1, n2, … and give the variables that `srun` needs; skip, saying why, where Slurm is not installed.

    The process of node n1's slurmd is in FOLDER/slurmd-n1.pid.
    """
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian: slurm-wlm, munge)")
    held = ExitStack()
    ports = [held.enter_context(make_port()) for _ in range(nodes + 1)]
    configuration = _write(folder, nodes, ports)
    environment = {"PATH": _PATH, "HOME": str(folder), "SLURM_CONF": str(configuration)}
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    munged = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}"]
    munged += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed"]
    started: list[subprocess.Popen[bytes]] = []
    try:
        slurmds = [["slurmd", "-D", "-N", f"n{number}"] for number in range(1, nodes + 1)]
        for command in (munged, ["slurmctld", "-D"], *slurmds):
            with (folder / f"{command[0]}-{command[-1]}.out".replace("/", "_")[-100:]).open("wb") as out:
                started.append(
                    subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)
                )
            if command[0] == "slurmd":
                (folder / f"slurmd-{command[-1]}.pid").write_text(f"{started[-1].pid}")
            if command is munged:
                _wait((folder / "munge.socket").exists, folder)
        _wait(lambda: _idle(environment, nodes), folder)
        yield environment
    finally:
        for process in reversed(started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        held.close()


def _write(folder: Path, nodes: int, held: Sequence[int]) -> Path:
    controller, *ports = held
    for name in ("state", *(f"spool-n{number}" for number in range(1, nodes + 1))):
        (folder / name).mkdir()
    cores = max(2, os.cpu_count() or 2)
    host, user = socket.gethostname(), getpass.getuser()
    path = folder / "slurm.conf"
    path.write_text(
        f"ClusterName=local\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\n"
        f"AuthType=auth/munge\nAuthInfo=socket={folder}/munge.socket\nCredType=cred/munge\n"
        f"SlurmUser={user}\nSlurmdUser={user}\nStateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\n"
        f"SlurmctldPidFile={folder}/ctl.pid\nSlurmdPidFile={folder}/d-%n.pid\nSlurmctldLogFile={folder}/ctl.log\n"
        f"SlurmdLogFile={folder}/d-%n.log\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\nMpiDefault=none\n"
        "SelectType=select/cons_tres\nReturnToService=2\n"
        + "".join(
            f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cores}\n"
            for number, port in enumerate(ports, start=1)
        )
        + "PartitionName=p Nodes=ALL Default=YES State=UP\n"
    )
    return path


def _idle(environment: dict[str, str], nodes: int) -> bool:
    told = subprocess.run(
        ["sinfo", "--noheader", "--states=idle", "--format=%D"], env=environment, capture_output=True, check=False
    )
    return told.stdout.strip() == f"{nodes}".encode()


def _wait(ready: "object", folder: Path) -> None:
    begun = time.monotonic()
    while not ready():  # type: ignore[operator]
        if time.monotonic() - begun > _PATIENCE:
            said = "".join(path.read_text(errors="replace")[-500:] for path in sorted(folder.glob("*.out")))
            pytest.skip(f"Slurm does not start here: {said}")
        time.sleep(0.2)
