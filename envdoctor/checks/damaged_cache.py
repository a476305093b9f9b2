"""Files of a compile cache that cannot be used.

What it finds:
    Empty files in the inductor and Triton caches; with `--deep` also graphs whose contents are not what their name
    says, shared objects and cubins that are cut off, sources and groups that cannot be read.

Why it matters:
    A damaged graph is compiled again; a damaged shared object is not: it is found by its name, loaded, and the launch
    ends in a compiler error or a segmentation fault. A full disk or a killed job leaves such files.

Example:
    `cxyz.main.so` of 0 bytes after the disk was full.

Fix:
    `envdoctor cache gc --damaged` moves the damaged entries away; the next launch compiles them again.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.catalog.cache_kinds import CPP, kind_of
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.caches.compile_caches import CompileCache, CompileCaches

CODE = "ED504"
NAME = "damaged-cache-entry"
AREA = "Compile cache"
_SHOWN = 6


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each cache with a damaged file."""
    for cache in case.facts[CompileCaches].caches:
        if cache.damaged:
            yield _finding(case, cache)


def _finding(case: CheckContext, cache: CompileCache) -> Finding:
    damaged = cache.damaged
    stops = any(kind_of(cache.kind, line.partition(": ")[0]) in CPP for line in damaged)
    effect = "the launch that loads one fails" if stops else "they are compiled again"
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if stops and case.profile is not None and case.profile.compile.threads else "warning",
        confidence="high",
        title=f"{counted(len(damaged), 'file')} of the {cache.kind} cache cannot be used: {effect}",
        subject=cache.path,
        evidence=(
            *(f"{cache.path}/{line}" for line in damaged[:_SHOWN]),
            *((f"and {len(damaged) - _SHOWN} more",) if len(damaged) > _SHOWN else ()),
        ),
        remediation=Remediation(
            text="Move the damaged entries away; `envdoctor cache undo` brings them back",
            commands=(f"envdoctor cache gc --damaged --venv {case.prefix}",),
            safe=True,
        ),
    )
