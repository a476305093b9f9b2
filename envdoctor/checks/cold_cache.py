"""A cold or missing compile cache.

What it finds:
    The inductor and Triton caches this environment would use hold no compiled graph or kernel, or fewer files or bytes
    than the profile expects. Precompiled headers are not counted: torch writes 150 MB of them before it compiles.

Why it matters:
    A cold start recompiles everything; with several compile threads that is when the FX-tracing race strikes. It is a
    warning: a cold cache is slow, not wrong, and a warm one is not a cure for the race.

Example:
    No graph where the profile expects 353 MB: the cache folder under /tmp was emptied by a clean-up.

Fix:
    Restore the cache from its snapshot (`envdoctor cache restore`) or warm it (`envdoctor cache warm`); keep it on a
    local disk that survives a reboot. `envdoctor cache status` says whether what is there will hit.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.catalog.cache_kinds import PORTABLE
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted, size
from envdoctor.probes.caches.compile_caches import CompileCache, CompileCaches

CODE = "ED501"
NAME = "cold-compile-cache"
AREA = "Compile cache"
_LONG = 2


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding when both caches together fall short of the profile."""
    wanted = case.wanted().compile
    if not wanted.cache_minimum_entries and not wanted.cache_bytes:
        raise DoesNotApplyError("the profile expects nothing of the compile cache")
    caches = [cache for kind in PORTABLE if (cache := case.facts[CompileCaches].of(kind))]
    entries, held_bytes = sum(cache.entries for cache in caches), sum(cache.bytes for cache in caches)
    compiled = sum(cache.graphs + cache.kernels for cache in caches)
    least = wanted.cache_bytes[0] if wanted.cache_bytes else 0
    expects = bool(least or wanted.cache_minimum_entries)
    if (compiled or not expects) and entries >= wanted.cache_minimum_entries and held_bytes >= least:
        return
    minutes, source = _cold_minutes(case)
    cost = f"; expect about {_duration(minutes)} of compilation" if minutes else ""
    expected = _expected(least, wanted.cache_minimum_entries)
    held = f"smaller than expected: {counted(entries, 'file')}, {size(held_bytes)}"
    yield Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high" if all(cache.counted_all for cache in caches) else "medium",
        title=f"the compile cache is {held if compiled else 'cold: it holds no compiled graph or kernel'}"
        f"{expected}{cost}",
        subject="compile cache",
        evidence=tuple(filter(None, (*map(_line, caches), _elsewhere(case), source))),
        remediation=Remediation(
            text="The first launch fills it; do not delete caches to fix anything. Put it on a local disk that "
            "survives a reboot (TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR)",
            commands=(f"envdoctor cache warm --profile {case.profile_argument} --venv {case.prefix}",),
            safe=True,
        ),
    )


def _duration(minutes: float) -> str:
    """Return "12 minutes", "90 seconds" or "2 seconds"."""
    return f"{minutes:.2g} minutes" if minutes >= _LONG else counted(max(1, round(minutes * 60)), "second")


def _expected(least: int, files: int) -> str:
    parts = [size(least)] if least else []
    parts += [counted(files, "file")] if files else []
    return f", and the profile expects {' and '.join(parts)}" if parts else ""


def _elsewhere(case: CheckContext) -> str:
    """Return that the profile wants the cache in another folder: the usual reason why a warm one looks cold."""
    wanted, cache = case.wanted().compile.cache_location, case.facts[CompileCaches].of("inductor")
    if not wanted or cache is None or cache.path == wanted:
        return ""
    return f"profile {case.wanted().name} wants it at {wanted}"


def _cold_minutes(case: CheckContext) -> tuple[float, str]:
    """Return what a cold start costs and who says so: the profile's own warm-up here, else the profile's file."""
    profile = case.wanted()
    for start in case.facts[CompileCaches].cold_starts:
        if start.profile == profile.name:
            return start.seconds / 60, f"its warm-up of {start.at} took {start.seconds:.0f} s to compile"
    minutes = profile.compile.cold_minutes
    return minutes, f"profile {profile.name}: compile.cold_minutes = {minutes:g}" if minutes else ""


def _line(cache: CompileCache) -> str:
    headers = f", beside {size(cache.header_bytes)} of precompiled headers" if cache.header_bytes else ""
    state = f"{cache.contents}{headers}" if cache.present else "absent"
    where = f" on {cache.filesystem}" if cache.filesystem else ""
    return f"{cache.kind}: {cache.path}{where} ({cache.found_via}): {state}"
