"""The profile of a captured venv, from its fingerprint; and a profile as TOML."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import tomli_w

from envdoctor.catalog.cache_kinds import PORTABLE
from envdoctor.catalog.minimum_drivers import MINIMUM_DRIVER
from envdoctor.catalog.variables import known
from envdoctor.model.codec import encode
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.profile import (
    CompileWanted,
    DriverWanted,
    EnvironmentWanted,
    GitState,
    GpuWanted,
    LockWanted,
    Profile,
    PythonWanted,
    TorchWanted,
)
from envdoctor.probes.caches.compile_caches import CompileCaches
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.venv.interpreter import Interpreter

SCHEMA = 1
FORBIDDEN = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")


def launch_variables(environment: Environment) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables a launch should set again, and the names of those that name a place of this machine."""
    chosen = [one for one in environment.variables if (row := known(one.name)) is not None and row.captured]
    local = tuple(variable.name for variable in chosen if "/" in variable.value)
    return {variable.name: variable.value for variable in chosen if variable.name not in local}, local


def profile_of(
    facts: Fingerprint,
    *,
    name: str,
    summary: str,
    lock: LockWanted,
    sources: Mapping[str, str],
    git: GitState,
    cache_key: str,
) -> Profile:
    """Return the profile that the captured environment satisfies. Raises MissingFactError for an unread section."""
    build = facts[TorchBuild]
    environment = facts[Environment]
    gpu = facts[Gpu]
    return Profile(
        schema=SCHEMA,
        name=name,
        summary=summary,
        python=PythonWanted(versions=(facts[Interpreter].minor,)),
        torch=TorchWanted(version=build.version, cuda=build.cuda, git_version=build.git_version),
        lock=lock,
        libraries=_libraries(facts[Libraries]),
        driver=DriverWanted(minimum=MINIMUM_DRIVER.get(build.cuda_major, "")),
        gpu=GpuWanted(
            architectures=tuple(sorted({one.compute_capability for one in gpu.devices if one.compute_capability}))
        ),
        environment=EnvironmentWanted(
            set=launch_variables(environment)[0],
            forbidden=tuple(name for name in FORBIDDEN if environment.value(name) is None),
        ),
        compile=_compile(facts[CompileCaches], cache_key),
        sources=sources,
        git=git,
    )


def _libraries(libraries: Libraries) -> dict[str, str]:
    """Return the providers of the CUDA libraries that the import of torch maps."""
    return {
        one.soname: one.owner
        for one in sorted(libraries.providers, key=lambda one: one.soname)
        if one.owner not in ("", "torch") and one.cuda_major and one.stage in ("preload", "import")
    }


def _compile(found: CompileCaches, key: str) -> CompileWanted:
    caches = [cache for kind in PORTABLE if (cache := found.of(kind)) and cache.counted_all]
    size = sum(cache.bytes for cache in caches)
    if not size:
        return CompileWanted()
    inductor = found.of("inductor")
    named = inductor is not None and inductor.found_via != "default"
    # No size: every stack of the machine may share the folder, so the bytes in it are not known to be this one's.
    return CompileWanted(
        cache_location=inductor.path if inductor and named else "",
        cache_key=key,
    )


def profile_toml(profile: Profile) -> str:
    """Return a profile as TOML, without the keys that say nothing."""
    return tomli_w.dumps(_stated(profile, keep=("schema", "name", "summary", "python", "torch", "lock")))


def _stated(value: Any, keep: Sequence[str] = ()) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for field in fields(value):
        item = getattr(value, field.name)
        if is_dataclass(item):
            table = _stated(item)
            if table or field.name in keep:
                plain[field.name] = table
        elif field.name in keep or (item and item != field.default):
            plain[field.name] = encode(item)
    return plain
