"""The job that a process is a rank of: how many ranks there are, and where they meet.

Sources: torch/distributed/elastic/agent/server/local_elastic_agent.py (variables of a worker), srun(1), mpirun(1) of
Open MPI, the PMI of MPICH and Intel MPI, ray/train/v2/_internal/execution (Ray Train's variables are torchrun's).
"""

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
SECONDS, REQUIRED_SECONDS = 60.0, 300.0
"""How long ranks are waited for where the job then starts all the same; and where it is refused: as long as torch's own
store waits by default (timeout of torch.distributed.TCPStore)."""
_PROTOCOL = 1
# (rank, number of ranks, number of ranks on this node, set by the launcher alone; what tells two of its jobs apart and
# is the same in all ranks of one). torchrun below srun has both: each of its nodes may be a step of its own.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", ("TORCHELASTIC_RUN_ID", "RAY_JOB_ID")),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", ("SLURM_JOB_ID",)),
    # Not SLURM_NTASKS: a batch script has it too, where nothing but the script was started.
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
)  # fmt: skip
_FIRST_PORT, _PORTS, _TRIED = 20_000, 12_000, 3
"""Below the ports that Linux gives to outgoing connections (ip_local_port_range starts at 32768)."""
_FIRST_NODE = pattern(r"([A-Za-z0-9._-]+)(?:\[(\d+)[^\]]*\])?(?:,|\Z)")


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
    required: bool = False
    """Ranks that did not meet do not start."""
    mark: str = ""
    """Names this job in the variable DONE."""

    @property
    def where(self) -> str:
        """Return where rank 0 is looked for over TCP ("n1, TCP ports 20100-20102"); empty for a Unix socket."""
        ports = [place.port for place in self.places if place.port]
        if not ports:
            return ""
        name = self.places[0].name
        return f"{name}, TCP port {ports[0]}" if len(ports) == 1 else f"{name}, TCP ports {ports[0]}-{ports[-1]}"


def job_of(environ: Mapping[str, str], launcher: str = "") -> RankedJob | None:
    """Return the job; None for a process that is alone, was compared, or whose job is not. Raises UsageError.

    launcher: names the process that started the ranks of this node, where it ends with them. On one node it tells apart
    what mpirun of MPICH gives no id.
    """
    chosen = environ.get(SWITCH, "") or "compare"
    if chosen not in ("compare", "require", "off"):
        meaning = f"it is `compare` (default), `require` or `off`: `export {SWITCH}=off`"
        raise UsageError(f"{SWITCH} is `{chosen}`", meaning)
    found = next((row for row in _LAUNCHERS if environ.get(row[0]) and environ.get(row[1])), None)
    if chosen == "off" or found is None:
        return None
    *counts, local, identity = found
    rank, size = (number_of(environ[name]) for name in counts)
    if rank is None or size is None or not rank < size or size < 2:
        return None
    import hashlib  # noqa: PLC0415 - a process that is alone hashes nothing; it loads OpenSSL

    told = [_PROTOCOL, size, environ.get(SECRET, ""), *(environ.get(name, "") for name in (*identity, "MASTER_PORT"))]
    key = hashlib.sha256(json.dumps(told).encode("utf-8", "surrogateescape")).digest()
    # Not of the launcher: what a rank leaves behind when it ends is a process of the same job.
    mark = hashlib.sha256(key).hexdigest()[:16]
    if on_node := _on_node(environ, local, size):
        key = hashlib.sha256(key + launcher.encode()).digest()
    required = chosen == "require"
    job = RankedJob(
        rank=rank,
        size=size,
        on_node=on_node,
        places=_local(key) if on_node else _remote(environ, key),
        key=key,
        timeout=_seconds(environ, REQUIRED_SECONDS if required else SECONDS),
        required=required,
        mark=mark,
    )
    return None if environ.get(DONE) == mark else job


def _on_node(environ: Mapping[str, str], local: str, size: int) -> bool:
    if local:
        return number_of(environ.get(local, "")) == size
    return environ.get("SLURM_STEP_NUM_NODES") == "1"


def _local(key: bytes) -> tuple[MeetingPlace, ...]:
    import hashlib  # noqa: PLC0415 - as above

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
    """Return the first node of a list of Slurm's: "n01" of "n[01-04,07],m3"; empty for "rack[1-2]n[01-04]"."""
    found = _FIRST_NODE.match(nodes)
    return f"{found[1]}{found[2] or ''}" if found else ""


def _seconds(environ: Mapping[str, str], usual: float) -> float:
    given = environ.get(TIMEOUT, "")
    if not given:
        return usual
    try:
        found = float(given)
    except ValueError:
        found = -1.0
    if not 0 < found < 1e6:
        raise UsageError(f"{TIMEOUT} is `{given}`", f"it is a number of seconds: `export {TIMEOUT}={SECONDS:.0f}`")
    return found
