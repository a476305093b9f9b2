"""A compile cache on a filesystem that does not suit it.

What it finds:
    A Triton, inductor or extension cache on a network filesystem while the job runs on several nodes; with a profile
    that expects a filled cache also one in memory (tmpfs) or under /tmp. A cache that this user cannot write.

Why it matters:
    Ranks that compile the same kernel replace each other's files: `Stale file handle` or `Device or resource busy` on
    one rank, and the others hang in NCCL until the watchdog ends them. Deleting the cache does not help: it comes back
    at the next compile. A cache in memory is gone after a reboot, one under /tmp after the next clean-up.

Example:
    HOME on nfs4, TRITON_CACHE_DIR not set, two nodes.

Fix:
    Give every node its own cache on a local disk; keep entries, they are found by content and never wrong.
"""

from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import Case
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.caches.compile_caches import CompileCache, CompileCaches
from envdoctor.probes.machine.environment import Environment

CODE = "ED502"
NAME = "cache-on-unfit-filesystem"
AREA = "Compile cache"
_VARIABLES = {
    "inductor": "TORCHINDUCTOR_CACHE_DIR",
    "triton": "TRITON_CACHE_DIR",
    "torch_extensions": "TORCH_EXTENSIONS_DIR",
    "flashinfer": "FLASHINFER_WORKSPACE_BASE",
    "cuda": "CUDA_CACHE_PATH",
}
_NODE_COUNTS = ("NNODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding for the shared caches, one for those that do not last."""
    caches = case.facts[CompileCaches].caches
    nodes, told_by = _nodes(case.facts[Environment])
    shared = [cache for cache in caches if cache.shared and cache.kind != "cuda"]
    if nodes > 1 and shared:
        yield _shared(shared, nodes, told_by)
    if closed := [cache for cache in caches if cache.present and not cache.writable and cache.kind != "cuda"]:
        yield _closed(closed, nodes)
    wanted = case.profile.compile if case.profile else None
    if wanted is not None and (wanted.cache_minimum_entries or wanted.cache_bytes):
        passing = [cache for cache in caches if cache.kind in ("inductor", "triton") and _passing(cache)]
        if passing:
            yield _does_not_last(passing, nodes)


def _nodes(environment: Environment) -> tuple[int, str]:
    """Return (nodes of this job, the variables that tell): torchrun's, Slurm's, else world size by local size."""
    for name in _NODE_COUNTS:
        if (count := _number(environment.value(name))) > 1:
            return count, f"{name}={count}"
    world, local = _number(environment.value("WORLD_SIZE")), _number(environment.value("LOCAL_WORLD_SIZE"))
    if local and world > local:
        return world // local, f"WORLD_SIZE={world}, LOCAL_WORLD_SIZE={local}"
    return 1, ""


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() else 0


def _passing(cache: CompileCache) -> bool:
    return cache.filesystem in ("tmpfs", "ramfs") or cache.path.startswith(("/tmp/", "/var/tmp/"))  # noqa: S108


def _shared(caches: Sequence[CompileCache], nodes: int, told_by: str) -> Finding:
    first = caches[0]
    names = ", ".join(cache.kind for cache in caches)
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{nodes} nodes would share the {names} cache on {first.filesystem}: ranks replace each other's files",
        subject=names,
        evidence=(
            *(f"{cache.kind}: {cache.path} lies on {cache.filesystem} ({cache.found_via})" for cache in caches),
            told_by,
        ),
        remediation=Remediation(
            text="Give every node a cache of its own on a local disk, in the launcher of every rank. Deleting the "
            "cache does not help: the same files collide at the next compile",
            commands=tuple(
                f'export {_VARIABLES[cache.kind]}="/tmp/{cache.kind}-$USER-${{SLURM_JOB_ID:-local}}"'
                for cache in caches
            ),
            safe=True,
        ),
    )


def _at_home(caches: Sequence[CompileCache], nodes: int) -> tuple[str, ...]:
    # Which folder of each node lasts and is its own is not known here: HOME is often shared by all of them.
    if nodes > 1:
        return ()
    return tuple(f'export {_VARIABLES[cache.kind]}="$HOME/.cache/{cache.kind}"' for cache in caches)


def _closed(caches: Sequence[CompileCache], nodes: int) -> Finding:
    names = ", ".join(cache.kind for cache in caches)
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"the {names} cache cannot be written by this user: what is compiled is not kept, or the compile raises",
        subject=names,
        evidence=tuple(
            f"{cache.kind}: {cache.path} ({cache.found_via}), of the user with uid {cache.owner_uid}"
            for cache in caches
        ),
        remediation=Remediation(
            text="Name a folder of your own, or let its owner open it to you",
            commands=_at_home(caches, nodes),
            safe=True,
        ),
    )


def _does_not_last(caches: Sequence[CompileCache], nodes: int) -> Finding:
    of_each = " of each node, which no other node writes to" if nodes > 1 else ""
    names = ", ".join(cache.kind for cache in caches)
    return Finding(
        code=CODE,
        name=NAME,
        severity="note",
        confidence="high",
        title=f"the {names} cache lies where a reboot or a clean-up of /tmp empties it",
        subject=names,
        evidence=tuple(
            f"{cache.kind}: {cache.path} on {cache.filesystem or 'an unknown filesystem'} ({cache.found_via})"
            for cache in caches
        ),
        remediation=Remediation(
            text=f"Keep it on a local disk that lasts{of_each}; deleting entries has no use, a stale one is never "
            "taken",
            commands=_at_home(caches, nodes),
            safe=True,
        ),
    )
