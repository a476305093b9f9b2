"""The job that a process is a rank of: how many ranks there are, and where they meet.

Sources: torch/distributed/elastic/agent/server/local_elastic_agent.py (variables of a worker), srun(1), mpirun(1) of
Open MPI, the PMI of MPICH and Intel MPI, ray/train/v2/_internal/execution (Ray Train's variables are torchrun's).
"""

import hashlib
import json
from collections.abc import Mapping

from envdoctor.errors import UsageError
from envdoctor.facts.launch import number_of
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern

DONE = "ENVDOCTOR_RANKS_DONE"
"""Set in a rank that was compared: what it starts itself (a loader's workers) is no rank that the others wait for."""
SWITCH, IGNORE = "ENVDOCTOR_RANKS", "ENVDOCTOR_RANKS_IGNORE"
TIMEOUT, PORT, SECRET = "ENVDOCTOR_RANKS_TIMEOUT", "ENVDOCTOR_RANKS_PORT", "ENVDOCTOR_RANKS_KEY"
SECONDS = 300.0
"""As long as torch's own store waits by default (torch.distributed.distributed_c10d.default_pg_timeout of TCPStore)."""
_PROTOCOL = 1
# (rank, number of ranks, number of ranks on this node, set by the launcher alone). torchrun below srun has both.
_COUNTS = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    # Not SLURM_NTASKS: a batch script has it too, where nothing but the script was started.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ""),
)
# What tells two jobs apart that meet at one address.
_LAUNCH = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid",
           "PMI_ID", "RAY_JOB_ID", "MASTER_PORT")  # fmt: skip
_FIRST_PORT, _PORTS, _TRIED = 20_000, 12_000, 3
"""Below the ports that Linux gives to outgoing connections (ip_local_port_range starts at 32768)."""
_NAMES = pattern(r"([A-Za-z0-9._-]+)(?:\[(\d+)[^\]]*\])?")


@frozen
class MeetingPlace:
    """Where ranks may meet."""

    name: str
    """Host name or address; of an abstract Unix socket, where all ranks are on one node, its name."""
    port: int
    """0 for a Unix socket."""


@frozen
class RankedJob:
    """A job of at least two ranks, seen from one of them."""

    rank: int
    size: int
    on_node: bool
    """All ranks are on one node."""
    places: tuple[MeetingPlace, ...]
    """In the order in which they are tried; empty where nothing says where rank 0 is."""
    key: bytes
    """32 bytes that ranks of another job do not have; a secret as far as ENVDOCTOR_RANKS_KEY or the run id is one."""
    timeout: float
    """Seconds that ranks are waited for."""

    @property
    def mark(self) -> str:
        """Return what names this job in the variable DONE."""
        return hashlib.sha256(self.key).hexdigest()[:16]


def job_of(environ: Mapping[str, str]) -> RankedJob | None:
    """Return the job; None for a process that is alone, was compared, or whose job is not. Raises UsageError."""
    chosen = environ.get(SWITCH, "") or "compare"
    if chosen not in ("compare", "off"):
        raise UsageError(f"{SWITCH} is `{chosen}`", f"it is `compare` (default) or `off`: `export {SWITCH}=off`")
    counts = next((row for row in _COUNTS if environ.get(row[0]) and environ.get(row[1])), None)
    if chosen == "off" or counts is None:
        return None
    rank, size = (number_of(environ[name]) for name in counts[:2])
    if rank is None or size is None or not rank < size or size < 2:
        return None
    told = [_PROTOCOL, size, environ.get(SECRET, ""), *(environ.get(name, "") for name in _LAUNCH)]
    key = hashlib.sha256(json.dumps(told).encode("utf-8", "surrogateescape")).digest()
    on_node = _on_node(environ, counts[2], size)
    job = RankedJob(
        rank=rank,
        size=size,
        on_node=on_node,
        places=_local(key) if on_node else _remote(environ, key),
        key=key,
        timeout=_seconds(environ),
    )
    return None if environ.get(DONE) == job.mark else job


def _on_node(environ: Mapping[str, str], local: str, size: int) -> bool:
    if local:
        return number_of(environ.get(local, "")) == size
    return environ.get("SLURM_STEP_NUM_NODES") == "1"


def _local(key: bytes) -> tuple[MeetingPlace, ...]:
    name = hashlib.sha256(key + b"place").hexdigest()[:32]
    return tuple(MeetingPlace(name=f"envdoctor-{name}-{number}", port=0) for number in range(_TRIED))


def _remote(environ: Mapping[str, str], key: bytes) -> tuple[MeetingPlace, ...]:
    address = environ.get("MASTER_ADDR", "") or _first_of(environ.get("SLURM_STEP_NODELIST", ""))
    if not address:
        return ()
    if given := environ.get(PORT, ""):
        port = number_of(given)
        if port is None or not 0 < port < 1 << 16:
            raise UsageError(f"{PORT} is `{given}`", f"it is a TCP port: `export {PORT}=29600`")
        return (MeetingPlace(name=address, port=port),)
    first = _FIRST_PORT + int.from_bytes(key[:4], "big") % _PORTS
    return tuple(MeetingPlace(name=address, port=first + number) for number in range(_TRIED))


def _first_of(nodes: str) -> str:
    """Return the first node of a list of Slurm's: "n01" of "n[01-04,07],m3"."""
    found = _NAMES.match(nodes)
    return f"{found[1]}{found[2] or ''}" if found else ""


def _seconds(environ: Mapping[str, str]) -> float:
    given = environ.get(TIMEOUT, "")
    if not given:
        return SECONDS
    try:
        found = float(given)
    except ValueError:
        found = -1.0
    if not 0 < found < 1e6:
        raise UsageError(f"{TIMEOUT} is `{given}`", f"it is a number of seconds: `export {TIMEOUT}={SECONDS:.0f}`")
    return found
