"""A compile cache on a filesystem that does not suit it.

What it finds:
    A Triton, inductor or extension cache on a network filesystem while the job runs on several nodes; on a mount with
    `noexec`, a read-only or a full one, or one without free inodes, by the nearest folder that exists; a cache that
    this user cannot write. With a profile that expects a filled cache also one in memory (tmpfs) or under /tmp.

Why it matters:
    Ranks that compile the same kernel replace each other's files: `Stale file handle` or `Device or resource busy` on
    one rank, and the others hang in NCCL until the watchdog ends them. Deleting the cache does not help: it comes back
    at the next compile. A cache in memory is gone after a reboot, one under /tmp after the next clean-up. What is
    compiled is mapped as code: `noexec` ends the first kernel in "failed to map segment from shared object".

Example:
    HOME on nfs4, TRITON_CACHE_DIR not set, two nodes.

Fix:
    Give every node its own cache on a local disk; keep entries, they are found by content and never wrong.
"""

from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.catalog.cache_kinds import BY_NAME, PORTABLE
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.caches.compile_caches import CompileCache, CompileCaches
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.venv.distributions import Distributions

CODE = "ED502"
NAME = "cache-on-unfit-filesystem"
AREA = "Compile cache"
_NODE_COUNTS = ("NNODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for the shared caches, one for those that do not last."""
    caches = case.facts[CompileCaches].caches
    nodes, told_by = _nodes(case.facts[Environment])
    shared = [cache for cache in caches if cache.shared and BY_NAME[cache.kind].owner]
    if nodes > 1 and shared:
        yield _shared(shared, nodes, told_by)
    used = [cache for cache in caches if BY_NAME[cache.kind].owner and _used(case, cache)]
    unfit = [cache for cache in used if cache.obstacle]
    if unfit:
        yield _unfit(case, unfit, nodes)
    if closed := [cache for cache in used if not cache.writable and not cache.obstacle]:
        yield _closed(case, closed, nodes)
    wanted = case.profile.compile if case.profile else None
    if wanted is not None and (wanted.cache_minimum_entries or wanted.cache_bytes):
        passing = [cache for cache in caches if cache.kind in PORTABLE and _passing(cache)]
        if passing:
            yield _does_not_last(case, passing, nodes)


def _used(case: CheckContext, cache: CompileCache) -> bool:
    """Tell whether a cache is one that this environment would write: its owner is installed, and compiles there."""
    owner = BY_NAME[cache.kind].owner
    here = case.facts[Distributions].active(owner) is not None
    return here and (cache.present or cache.kind in PORTABLE or cache.found_via == BY_NAME[cache.kind].variable)


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
            *(f"{cache.kind}: {cache.path} is on {cache.filesystem} ({cache.found_via})" for cache in caches),
            told_by,
        ),
        remediation=Remediation(
            text="Give every node a cache of its own on a local disk, in the launcher of every rank. Deleting the "
            "cache does not help: the same files collide at the next compile",
            commands=tuple(
                f'export {BY_NAME[cache.kind].variable}="/tmp/{cache.kind}-$USER-${{SLURM_JOB_ID:-local}}"'
                for cache in caches
            ),
            safe=True,
        ),
    )


def _elsewhere(case: CheckContext, caches: Sequence[CompileCache], nodes: int) -> tuple[str, ...]:
    # Which folder of each node lasts and is its own is not known here: HOME is often shared by all of them.
    fit = case.facts[CompileCaches].fit_folder
    if nodes > 1 or not fit:
        return ()
    return tuple(f'export {BY_NAME[cache.kind].variable}="{fit}/{cache.kind}"' for cache in caches)


_EFFECT = {
    "noexec": "is on a mount with noexec: the first kernel fails to map its code",
    "read-only": "is on a read-only mount: nothing that is compiled can be written",
    "full": "is on a full filesystem: nothing that is compiled can be written",
    "without inodes": "is on a filesystem without free inodes: nothing that is compiled can be written",
}


def _unfit(case: CheckContext, caches: Sequence[CompileCache], nodes: int) -> Finding:
    compiles = case.profile is not None and (case.profile.compile.threads or case.profile.compile.cache_bytes)
    names = ", ".join(cache.kind for cache in caches)
    full = [cache for cache in caches if cache.obstacle in ("full", "without inodes")]
    text = "Name a folder that allows execution, on a filesystem with room"
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if compiles else "warning",
        confidence="high",
        title=f"the {names} cache {_EFFECT[caches[0].obstacle]}",
        subject=names,
        evidence=tuple(
            f"{cache.kind}: {cache.path} ({cache.found_via}) on {cache.mount_point or '?'}, "
            f"{cache.filesystem or 'of unknown type'}: {cache.obstacle}"
            for cache in caches
        ),
        remediation=Remediation(
            text=f"{text}; or make room where it is" if full else text,
            commands=_elsewhere(case, caches, nodes),
            safe=True,
        ),
    )


def _closed(case: CheckContext, caches: Sequence[CompileCache], nodes: int) -> Finding:
    names = ", ".join(cache.kind for cache in caches)
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"the {names} cache cannot be written by this user: what is compiled is not kept, or the compile raises",
        subject=names,
        evidence=tuple(
            f"{cache.kind}: {cache.path} ({cache.found_via}), "
            + (f"of the user with uid {cache.owner_uid}" if cache.present else "which cannot be made there")
            for cache in caches
        ),
        remediation=Remediation(
            text="Name a folder of your own, or let its owner open it to you",
            commands=_elsewhere(case, caches, nodes),
            safe=True,
        ),
    )


def _does_not_last(case: CheckContext, caches: Sequence[CompileCache], nodes: int) -> Finding:
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
            commands=_elsewhere(case, caches, nodes),
            safe=True,
        ),
    )
