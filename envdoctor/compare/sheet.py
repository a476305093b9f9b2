"""What a fingerprint says of a stack as one flat sheet: what the ranks of a job and the hosts of a fleet compare.

A fact has a name ("torch", "package numpy", "variable NCCL_PROTO") and a value that a person can read. Where the
environment lies is no fact, nor is when it was read: one stack may be in another folder on each host.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping

from envdoctor.catalog.variables import known
from envdoctor.compare.identity import digest_of
from envdoctor.model.fingerprint import Fingerprint, MissingFactError
from envdoctor.model.frozen import field, frozen
from envdoctor.model.pattern import pattern
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.nccl import Nccl
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.venv.distribution_digests import Contents
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.training_sources import Sources

ORDER = ("torch", "CUDA of torch", "commit of torch", "Python", "processor", "NCCL", "bytes of NCCL", "driver", "GPUs",
         "stack", "cache key", "library ", "package ", "variable ", "source ")  # fmt: skip
"""Facts, and with a blank at their end families of facts, in the order in which they decide what runs."""
OF_DIGEST = frozenset(("torch", "commit of torch", "Python", "processor", "library", "package"))
"""Facts and families that the digest of a stack covers too."""
_LAUNCHER = ("TORCHELASTIC_",)
"""Variables of the launch, and not of the stack."""
_SHELL_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*")


@frozen
class StackSheet:
    """What one rank or host says of its stack."""

    facts: Mapping[str, str]
    """Fact -> value; empty for "none"."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Fact, or family of facts ("package"), that could not be read -> why."""


def sheet_of(facts: Fingerprint, *, cache_key: str | None = None, per_rank: bool = False) -> StackSheet:
    """Return the sheet of a fingerprint that was taken with `Options(contents=True)`.

    cache_key: the digest of the compile cache's key, where it was computed; None where it was not, which makes it
    no fact of this sheet. per_rank: with the variables of which each rank and node may have its own.
    """
    readers: Mapping[tuple[str, ...], Callable[[Fingerprint], Iterator[tuple[str, str]]]] = {
        ("torch", "CUDA of torch", "commit of torch"): _torch,
        ("Python", "processor"): _python,
        ("NCCL", "bytes of NCCL"): _nccl,
        ("driver", "GPUs"): _machine,
        ("library",): _libraries,
        ("package",): _packages,
        ("variable",): _all_variables if per_rank else _variables,
        ("source",): _sources,
    }
    found: dict[str, str] = {}
    unread: dict[str, str] = {}
    for names, read in readers.items():
        try:
            found.update(read(facts))
        except MissingFactError as error:
            unread.update(dict.fromkeys(names, error.reason))
    digest = digest_of(facts)
    if digest is None:
        unread["stack"] = "a part of what it is made of could not be read"
    else:
        found["stack"] = digest
    if cache_key is not None:
        found["cache key"] = cache_key
    return StackSheet(facts=found, unread=unread)


def rank_of(fact: str) -> tuple[int, str]:
    """Return where a fact is among others, in the order in which they decide what runs."""
    named = (
        at for at, name in enumerate(ORDER) if fact == name.rstrip() or (name[-1] == " " and fact.startswith(name))
    )
    return next(named, len(ORDER)), fact


def family_of(fact: str) -> str:
    """Return the family of a fact: "package" of "package numpy", "torch" of itself."""
    head = fact.partition(" ")[0]
    return head if f"{head} " in ORDER else fact


def is_fact(name: str) -> bool:
    """Tell whether a sheet may have a fact of this name: "driver", "package numpy"; not "package"."""
    return rank_of(name)[0] < len(ORDER) and f"{name} " not in ORDER and name == name.strip()


def variable_of(fact: str) -> str:
    """Return the variable that a fact is about; empty for another, and for a name that no shell takes."""
    name = fact.removeprefix("variable ")
    return name if name != fact and _SHELL_NAME.fullmatch(name) else ""


def setting_of(fact: str, value: str) -> str:
    """Return the shell command that gives a variable the value of a sheet, and takes it away for an empty one.

    Empty where the fact is not a variable, where the sheet has a stand-in for its value (a folder, a secret), and where
    the value cannot be shown as it is: a command that is copied from a terminal would be another one.
    """
    name = variable_of(fact)
    if not name or "{venv}" in value or value.startswith("set; ") or not value.isprintable():
        return ""
    return f"export {name}={shlex.quote(value)}" if value else f"unset {name}"


def _torch(facts: Fingerprint) -> Iterator[tuple[str, str]]:
    build = facts[TorchBuild]
    yield "torch", build.version if build.present else ""
    yield "CUDA of torch", build.cuda or (f"ROCm {build.hip}" if build.hip else "")
    yield "commit of torch", build.git_version


def _python(facts: Fingerprint) -> Iterator[tuple[str, str]]:
    python = facts[Interpreter]
    # As in the digest: another patch release runs the same code of the stack.
    yield "Python", python.minor + ("t" if python.free_threaded else "")
    yield "processor", python.machine


def _nccl(facts: Fingerprint) -> Iterator[tuple[str, str]]:
    found = facts[Nccl]
    outside = f"{found.path}, of no distribution" if found.path else ""
    yield "NCCL", f"{found.owner} {found.owner_version}" if found.owner else outside
    yield "bytes of NCCL", f"{found.size} bytes, samples {found.sampled[:16]}" if found.sampled else ""


def _machine(facts: Fingerprint) -> Iterator[tuple[str, str]]:
    gpu = facts[Gpu]
    yield "driver", gpu.driver_version
    if gpu.state in ("present", "absent"):
        yield "GPUs", ", ".join(sorted(device.name for device in gpu.devices))


def _libraries(facts: Fingerprint) -> Iterator[tuple[str, str]]:
    found = facts[Libraries]
    for one in found.providers:
        if one.owner != "torch":
            yield f"library {one.soname}", f"{one.owner} {one.owner_version}" if one.owner else one.path
    for gone in found.unresolved:
        if gone.stage != "lazy":
            yield f"library {gone.soname}", "not found"


def _packages(facts: Fingerprint) -> Iterator[tuple[str, str]]:
    for one in facts[Contents].items:
        contents = "editable" if one.editable else one.sha256[:12] or "no RECORD"
        yield f"package {one.name}", f"{one.version} ({contents})"


def _all_variables(facts: Fingerprint) -> Iterator[tuple[str, str]]:
    found = facts[Environment]
    for one in found.variables:
        if _of_stack(one.name):
            # A folder of the venv is the same one in each, wherever it is.
            yield f"variable {one.name}", one.value.replace(facts.target, "{venv}")
    for name in found.withheld:
        if _of_stack(name):
            yield f"variable {name}", "set; its value is not kept"


def _variables(facts: Fingerprint) -> Iterator[tuple[str, str]]:
    for fact, value in _all_variables(facts):
        row = known(fact.removeprefix("variable "))
        if row is None or not row.per_rank:
            yield fact, value


def _of_stack(name: str) -> bool:
    row = known(name)
    return (row is None or row.scope == "stack") and not name.startswith(_LAUNCHER)


def _sources(facts: Fingerprint) -> Iterator[tuple[str, str]]:
    for one in facts[Sources].files:
        yield f"source {one.path}", one.problem or f"sha256 {one.sha256[:16]}"
