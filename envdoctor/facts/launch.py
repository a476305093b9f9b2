"""Which launch of several ranks a process belongs to: what torchrun, accelerate, srun, mpirun and Ray leave in it.

Sources: torch/distributed/elastic/agent/server/local_elastic_agent.py (variables of a worker), srun(1), mpirun(1) of
Open MPI and MPICH,
ray/train/_internal/worker_group.py; proc(5) for /proc/PID/stat and /proc/PID/environ.
"""

import os
from collections.abc import Iterator, Mapping

from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen

PER_RANK = frozenset(
    ("RANK", "LOCAL_RANK", "ROLE_RANK", "TORCHELASTIC_ERROR_FILE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_TASK_PID",
     "PMI_RANK", "PMI_FD", "PMIX_RANK", "PMIX_ID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_NODE_RANK", "OMPI_MCA_ess_base_vpid", "OMPI_MCA_orte_ess_node_rank",
     "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
)  # fmt: skip
"""Variables that tell ranks of one launch apart, and on which no check depends."""
_LAUNCHERS = (
    ("TORCHELASTIC_RUN_ID", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("MPI_LOCALRANKID", "MPI_LOCALRANKID"),
    ("SLURM_STEP_ID", "SLURM_LOCALID"),
)
"""(a variable that the launcher sets in each rank and does not have itself, the one with the local rank)."""
# torchrun, accelerate and Ray Train; srun; Open MPI; Intel MPI and MPICH. torchrun below srun has both: its own counts.
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_TEMPORARY = ("TMPDIR", "TEMP", "TMP")
_ANCESTORS, _DIGITS = 16, 12
_TICKS = os.sysconf("SC_CLK_TCK")


@frozen
class Launch:
    """One launch, seen from one of its ranks."""

    rank: str
    """The local rank."""
    by: str
    """The process that started the ranks: its id, the time it started at, and the boot."""
    ends: bool
    """That process ends with the launch. A shell or Ray's raylet goes on, and starts others."""
    started: float
    """When this process was started, in seconds of CLOCK_BOOTTIME."""


def local_rank(environ: Mapping[str, str]) -> int:
    """Return the rank of a process on its node; 0 where no launcher gave one."""
    return number_of(_first_of(environ, _LOCAL_RANKS)) or 0


def number_of(value: str) -> int | None:
    """Return the number that a launcher's variable holds; None where it holds none."""
    return int(value) if value.isascii() and value.isdecimal() and len(value) <= _DIGITS else None


def shared(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in which ranks of one launch agree where their environments are the same.

    srun gives TMPDIR=/tmp to local rank 0 alone where there is none (slurmstepd's _make_tmpdir): it changes nothing.
    """
    found = {name: value for name, value in environ.items() if name not in PER_RANK}
    if found.get("TMPDIR") == "/tmp" and not any(map(found.get, _TEMPORARY[1:])):  # noqa: S108 - compared with
        del found["TMPDIR"]
    return found


def rank(environ: Mapping[str, str]) -> str:
    """Return the rank of a process in its launch, as its launcher wrote it; empty where there is none."""
    return _first_of(environ, _RANKS)


def _first_of(environ: Mapping[str, str], variables: tuple[str, ...]) -> str:
    return next((value for name in variables if (value := environ.get(name))), "")


def launch_of(host: Host) -> Launch | None:
    """Return the launch of this process; None where no launcher says that it is one of several on its node."""
    environ = host.environ
    if environ.get("LOCAL_WORLD_SIZE") == "1" or environ.get("SLURM_NTASKS") == "1":
        return None
    mark, name = next((pair for pair in _LAUNCHERS if all(map(environ.get, pair))), ("", "LOCAL_RANK"))
    if not environ.get(name):
        return None
    try:
        above = list(_ancestors(host))
        boot = (host.proc / "sys/kernel/random/boot_id").read_text().strip()
        launcher = next((pid for pid in above[1:] if not mark or not _has(host, pid, mark)), None)
        if launcher is None:
            return None
        by = f"{launcher} {_stat(host, launcher)[1]} {boot}"
        return Launch(rank=environ[name], by=by, ends=bool(mark), started=_stat(host, above[0])[1] / _TICKS)
    except (OSError, ValueError, IndexError):
        return None  # without a /proc nothing is shared, which costs time only


def _ancestors(host: Host) -> Iterator[int]:
    pid = os.getpid()
    for _ in range(_ANCESTORS):
        yield pid
        pid = _stat(host, pid)[0]
        if pid <= 0:
            return


def _stat(host: Host, pid: int) -> tuple[int, int]:
    """Return a process's parent and the clock ticks after the boot at which it started."""
    fields = (host.proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return int(fields[1]), int(fields[19])


def _has(host: Host, pid: int, variable: str) -> bool:
    try:
        started_with = (host.proc / str(pid) / "environ").read_bytes()
    except OSError:
        return False  # slurmstepd is root's
    return f"\0{variable}=".encode() in b"\0" + started_with
