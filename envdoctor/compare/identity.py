"""From a fingerprint to what its stack is, and to the digest of that."""

from collections.abc import Iterator, Sequence

from envdoctor.model.digest import Identity, Member, digest
from envdoctor.model.fingerprint import Fingerprint, MissingFactError
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.distribution_digests import Content, Contents
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.startup_hooks import StartupHooks
from envdoctor.standards.redaction import redacted

# uv and virtualenv put it into every venv they make; it patches distutils for venvs and belongs to no distribution.
_OF_THE_VENV = "_virtualenv.pth"
# It guards the stack and is not part of it: with the gate and without it a stack is the same.
_GATE = "envdoctor-gate"


def identity_of(facts: Fingerprint, outside: Sequence[Content] = ()) -> Identity:
    """Return what the stack is. Raises MissingFactError when a section it needs was not read.

    outside: distributions that it takes from outside of itself, which count as if they were in it.
    """
    contents = sorted((*facts[Contents].items, *outside), key=lambda one: one.name)
    taken = {one.name for one in outside}
    python, build = facts[Interpreter], facts[TorchBuild]
    return Identity(
        python=f"{python.minor}t" if python.free_threaded else python.minor,
        machine=python.machine,
        torch=build.version,
        torch_commit=build.git_version,
        members=tuple(
            # An editable's RECORD names a folder of this machine; what it holds is not in it.
            Member(
                name=one.name, version=one.version, content="" if one.editable else one.sha256, editable=one.editable
            )
            for one in contents
            if one.name != _GATE
        ),
        providers=tuple(
            sorted(
                {
                    (one.soname, one.owner, one.owner_version)
                    for one in facts[Libraries].providers
                    if one.owner and (_inside(one.path) or one.owner in taken)
                }
            )
        ),
        deviations=tuple(sorted(_deviations(facts))),
    )


def digest_of(facts: Fingerprint) -> str | None:
    """Return the stack's digest; None when a section it needs was not read."""
    try:
        return digest(identity_of(facts))
    except MissingFactError:
        return None


def _deviations(facts: Fingerprint) -> Iterator[str]:
    files = facts[InstalledFiles]
    for fault in (one for one in files.faults if _inside(one.path)):
        yield f"{fault.owner}: {fault.path}: {fault.kind} {fault.size}"
    if deep := facts.get(DeepFiles):
        for altered in (one for one in deep.altered if _inside(one.path)):
            yield f"{altered.owner}: {altered.path}: altered {altered.found}"
    for contested in (one for one in files.contested if _inside(one.path)):
        yield f"{contested.path}: bytes of {', '.join(sorted(contested.on_disk)) or 'none of its owners'}"
    for hook in facts[StartupHooks].hooks:
        name = hook.path.rpartition("/")[2]
        if not hook.owner and hook.origin == "site-packages" and name != _OF_THE_VENV:
            # As a fingerprint's file keeps them: without what is a secret by its form.
            yield f"{name}: {redacted('; '.join(hook.lines)) or 'runs at start-up'}"


def _inside(path: str) -> bool:
    """Tell whether a path of a fact is in the environment itself: what its base or the user's folder has is not of it.

    A venv that is restored never sees those, so its digest could never be that of the venv which does.
    """
    return not path.startswith("/")
