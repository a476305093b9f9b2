"""A compile cache that somebody else can put code into.

What it finds:
    The inductor, Triton or extension cache belongs to another user, can be written by everybody, or holds a file or a
    folder of another user or that everybody can write. Root, this user and the owner of the environment are trusted;
    a group is, too.

Why it matters:
    What is in a compile cache is code: torch loads it by its name, without asking who wrote it. The default folder of
    inductor lies under /tmp and has a name that can be foreseen, so that another user of the machine can make it first.

Example:
    /tmp/torchinductor_alice with mode 0777.

Fix:
    Keep the cache in a folder of your own (TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR), and start with an empty one:
    what is in the open one may be anybody's.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.catalog.cache_kinds import BY_NAME
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.caches.compile_caches import CompileCache, CompileCaches

CODE = "ED505"
NAME = "cache-others-can-fill"
AREA = "Compile cache"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each cache that others can fill."""
    caches = case.facts[CompileCaches]
    for cache in caches.caches:
        if cache.present and cache.others:
            yield _finding(cache, caches.fit_folder)


def _finding(cache: CompileCache, fit: str) -> Finding:
    variable = BY_NAME[cache.kind].variable
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"somebody else can put code into the {cache.kind} cache, and a launch runs what is in it",
        subject=cache.path,
        evidence=(f"{cache.path} ({cache.found_via}) {cache.others}",),
        remediation=Remediation(
            text="Use a new folder of your own: what is in this one may be anybody's",
            commands=(f'export {variable}="{fit}/{cache.kind}-own"',) if fit else (),
            safe=True,
        ),
    )
