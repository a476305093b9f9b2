"""What a fingerprint and a profile say of a stack, in the form in which two of them are compared."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from envdoctor.catalog.cache_kinds import PORTABLE
from envdoctor.catalog.variables import known
from envdoctor.compare.difference import Area, ComparableStack, Property
from envdoctor.compare.identity import digest_of
from envdoctor.model.fingerprint import Fingerprint, MissingFactError
from envdoctor.model.profile import Profile
from envdoctor.model.wording import counted
from envdoctor.probes.caches.compile_caches import CompileCaches
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.distribution_digests import Contents
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.startup_hooks import StartupHooks
from envdoctor.probes.venv.training_sources import Sources
from envdoctor.standards.lock import Lock
from envdoctor.standards.names import normalized
from envdoctor.standards.redaction import redacted

# The training stack's own layers come before what they merely depend on.
_MAIN = {"torch": 0, "triton": 2, "transformers": 2, "accelerate": 2, "datasets": 3, "safetensors": 3, "numpy": 3}
_CACHES = "inductor and triton"
# As much as one run adds to a warm cache without making it another.
_CACHE_MARGIN = 10
_SHOWN = 3
_ABSENT = "absent"
_NOTHING = Property(shown="", facets={"there": frozenset({"no"})})


def of_fingerprint(facts: Fingerprint, label: str, kind: str) -> ComparableStack:
    """Return what a fingerprint says. An area whose facts could not be read keeps the reason."""
    readers: Mapping[str, Callable[[Fingerprint], Area]] = {
        "torch": _torch,
        "libraries": _libraries,
        "files": _files,
        "packages": _packages,
        "start-up": _hooks,
        "sources": _sources,
        "environment": _environment,
        "caches": _caches,
        "machine": _machine,
    }
    areas: dict[str, Area] = {}
    for name, read in readers.items():
        try:
            areas[name] = read(facts)
        except MissingFactError as error:
            areas[name] = Area(traits={}, unread=str(error))
    return ComparableStack(label=label, kind=kind, digest=digest_of(facts), areas=areas)


def of_profile(profile: Profile, lock: Lock, markers: Mapping[str, str], label: str) -> ComparableStack:
    """Return what a profile and its lock say to an interpreter with these markers (PEP 508)."""
    providers = set(profile.libraries.values())
    locked = lock.select(markers)
    areas = {
        "torch": Area(traits=_torch_wanted(profile)),
        "libraries": Area(traits={name: _one(owner, "owner", owner) for name, owner in profile.libraries.items()}),
        "files": Area(traits={name: _one("as recorded", "damage", "") for name in locked}),
        "packages": Area(
            traits={name: _package(package.version, _rank(name, providers)) for name, package in locked.items()},
            absent=_NOTHING,
        ),
        "sources": Area(traits=_sources_wanted(profile)),
        "environment": Area(
            traits={
                **{name: _one(value, "value", value) for name, value in profile.environment.set.items()},
                **{name: _one("must not be set", "value", "") for name in profile.environment.forbidden},
            }
        ),
        "caches": Area(traits=_cache_wanted(profile)),
    }
    return ComparableStack(label=label, kind="profile", digest=profile.lock.digest or None, areas=areas)


def _one(shown: str, facet: str, value: str, rank: int = 9) -> Property:
    return Property(shown=shown, facets={facet: frozenset({value})}, rank=rank)


def _torch(facts: Fingerprint) -> Area:
    build, python = facts[TorchBuild], facts[Interpreter]
    traits = {
        "torch": _one(build.version or "not installed", "version", _plain(build.version), 0),
        "CUDA of torch": _one(build.cuda or "none", "version", build.cuda, 1),
        "commit of torch": _one(build.git_version[:12] or "not stated", "commit", build.git_version, 2),
        "Python": _one(python.version, "minor", python.minor + ("t" if python.free_threaded else ""), 1),
        "processor": _one(python.machine, "machine", python.machine, 1),
    }
    return Area(traits=traits)


def _torch_wanted(profile: Profile) -> dict[str, Property]:
    wanted = profile.torch
    traits = {
        "torch": _one(wanted.version, "version", _plain(wanted.version), 0),
        "CUDA of torch": _one(wanted.cuda or "none", "version", wanted.cuda, 1),
        "Python": Property(
            shown=" or ".join(profile.python.versions), facets={"minor": frozenset(profile.python.versions)}, rank=1
        ),
    }
    if wanted.git_version:
        traits["commit of torch"] = _one(wanted.git_version[:12], "commit", wanted.git_version, 2)
    return traits


def _libraries(facts: Fingerprint) -> Area:
    found = facts[Libraries]
    traits = {
        one.soname: Property(
            shown=f"{one.owner} {one.owner_version}" if one.owner else f"{one.path}, of no distribution",
            # Which libraries torch brings along is the build's affair, and the build is compared by itself.
            facets={"owner": frozenset({one.owner, _ABSENT} if one.owner == "torch" else {one.owner})},
        )
        for one in found.providers
    }
    traits |= {
        one.soname: _one("not found", "owner", "not found", 0) for one in found.unresolved if one.stage != "lazy"
    }
    # What was not simulated (there is no torch) has nothing to say of any library.
    absent = Property(shown="", facets={"owner": frozenset({"", _ABSENT})}) if found.simulated else None
    return Area(traits=traits, absent=absent)


def _files(facts: Fingerprint) -> Area:
    contents = facts[Contents]
    damage = _damage(facts[InstalledFiles], facts.get(DeepFiles))
    return Area(
        traits={
            one.name: Property(
                shown=damage.get(one.name) or f"contents {one.sha256[:12] or 'unknown'}",
                facets={
                    "damage": frozenset({damage.get(one.name, "")}),
                    **({"content": frozenset({one.sha256})} if one.sha256 and not one.editable else {}),
                },
                rank=0 if one.name in damage else 9,
            )
            for one in contents.items
        }
    )


def _damage(files: InstalledFiles, deep: DeepFiles | None) -> dict[str, str]:
    """Return distribution -> what is wrong with its files, in words."""
    told: dict[str, list[str]] = {}
    # A distribution of the same name outside of the environment (its base's pip) is another one.
    inside = {fault.owner for fault in files.faults if not fault.path.startswith("/")}
    outside = {fault.owner for fault in files.faults} - inside
    for owner in files.owners:
        parts = [
            f"{number} {word}" for number, word in ((owner.missing, "missing"), (owner.resized, "resized")) if number
        ]
        if parts and owner.name not in outside:
            told.setdefault(owner.name, []).append(f"{', '.join(parts)} of {owner.files} files")
    for contested in files.contested:
        for claim in contested.claims:
            if claim.owner not in contested.on_disk and contested.told_by in ("size", "hash"):
                whose = " and ".join(contested.on_disk) or "none of its owners"
                told.setdefault(claim.owner, []).append(f"{contested.path} has the bytes of {whose}")
    for altered in deep.altered if deep else ():
        told.setdefault(altered.owner, []).append(f"{altered.path} is altered")
    return {name: _first(lines) for name, lines in told.items()}


def _first(lines: Sequence[str]) -> str:
    return "; ".join(lines[:_SHOWN]) + (f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else "")


def _packages(facts: Fingerprint) -> Area:
    providers = {one.owner for one in facts[Libraries].providers}
    return Area(
        traits={
            one.name: _package(one.version, _rank(one.name, providers), one.direct_url, editable=one.editable)
            for one in facts[Distributions].items
            if not one.shadowed
        },
        absent=_NOTHING,
    )


def _package(version: str, rank: int, origin: str = "", *, editable: bool = False) -> Property:
    return Property(
        shown=f"{version} (editable, {origin})" if editable else version or "of unknown version",
        facets={
            "there": frozenset({"yes"}),
            "version": frozenset({_plain(version)}),
            "editable": frozenset({str(editable)}),
        },
        rank=rank,
    )


def _rank(name: str, providers: Iterable[str]) -> int:
    return _MAIN.get(normalized(name), 1 if name in providers else 9)


def _plain(version: str) -> str:
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - slow, and a check needs none of this

    try:
        return str(Version(version))
    except InvalidVersion:
        return version


def _hooks(facts: Fingerprint) -> Area:
    hooks = [hook for hook in facts[StartupHooks].hooks if not hook.owner]
    return Area(
        traits={
            # As a fingerprint's file keeps them: without what is a secret by its form.
            hook.path.rpartition("/")[2]: _one("; ".join(lines) or "runs", "lines", "\n".join(lines))
            for hook in hooks
            for lines in [[redacted(line) for line in hook.lines]]
        },
        absent=Property(shown="", facets={"lines": frozenset({_ABSENT})}),
    )


def _sources(facts: Fingerprint) -> Area:
    return Area(traits={one.path: _source(one.sha256, one.problem) for one in facts[Sources].files})


def _sources_wanted(profile: Profile) -> dict[str, Property]:
    traits = {name: _source(digest) for name, digest in profile.sources.items()}
    if profile.git.commit:
        changed = f", {counted(len(profile.git.changed), 'file')} changed" if profile.git.changed else ""
        traits["git commit"] = _one(profile.git.commit[:12] + changed, "commit", profile.git.commit, 0)
    return traits


def _source(digest: str, problem: str = "") -> Property:
    return _one(problem or f"sha256 {digest[:12]}", "sha256", digest)


def _environment(facts: Fingerprint) -> Area:
    return Area(
        traits={
            one.name: _one(one.value, "value", one.value)
            for one in facts[Environment].variables
            # Where a user keeps things, and what a launcher gives each of its processes, is not part of a stack.
            if (row := known(one.name)) is None or row.scope in ("stack", "rank")
        },
        absent=_one("not set", "value", ""),
    )


def _caches(facts: Fingerprint) -> Area:
    found = facts[CompileCaches]
    caches = [cache for kind in PORTABLE if (cache := found.of(kind))]
    size = sum(cache.bytes for cache in caches)
    shown = f"{sum(cache.entries for cache in caches)} files, {_megabytes(size)}" if size else "cold"
    whole = all(cache.counted_all for cache in caches)
    return Area(traits={_CACHES: Property(shown=shown, facets={}, span=_around(size) if whole else None)})


def _cache_wanted(profile: Profile) -> dict[str, Property]:
    if not profile.compile.cache_bytes:
        return {}
    low, high = profile.compile.cache_bytes
    return {_CACHES: Property(shown=f"{_megabytes(low)} to {_megabytes(high)}", facets={}, span=(low, high))}


def _around(size: int) -> tuple[int, int]:
    return size * (100 - _CACHE_MARGIN) // 100, size * (100 + _CACHE_MARGIN) // 100


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _machine(facts: Fingerprint) -> Area:
    gpu = facts[Gpu]
    names = sorted(device.name for device in gpu.devices)
    return Area(
        traits={
            "driver": _one(gpu.driver_version or "none", "version", gpu.driver_version),
            "GPUs": _one(", ".join(names) or "none", "names", "\n".join(names)),
        }
    )
