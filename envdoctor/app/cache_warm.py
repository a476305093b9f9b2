"""Warming the compile cache: the profile's warm-up runs twice, and the second run must compile nothing."""

import shlex

from envdoctor.app.caches import CacheSubject, subject
from envdoctor.app.result import Dialog, Result
from envdoctor.cache import snapshot
from envdoctor.cache import warm as warming
from envdoctor.cache.layout import files
from envdoctor.cache.manifest import Manifest
from envdoctor.cache.snapshot import Purpose
from envdoctor.cache.store import label
from envdoctor.cache.warm import Warmed, WarmupRun
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import CacheError
from envdoctor.model.frozen import frozen
from envdoctor.standards.redaction import redacted_words


@frozen
class Proven:
    """A cache that is warm, and how that was proven."""

    profile: str
    warmed: Warmed
    manifest: Manifest


def warm(workspace: Workspace, dialog: Dialog, *, trust_variables: bool = False) -> Result:
    """Run the warm-up twice; runs the venv's interpreter. Raises CacheError for a cache that is not proven warm."""
    profile = workspace.needs_profile("warm for", "envdoctor cache warm --profile NAME")
    if not trust_variables:
        workspace.refuse_code_variables()
    asked = subject(workspace, dialog.note)
    warmed = _run_twice(asked, profile, dialog)
    if warmed.doubts:
        raise CacheError(
            f"the cache of {profile.name} is not proven warm: {'; '.join(warmed.doubts)}",
            "a graph the cache cannot hold is compiled at every start: TORCH_LOGS=+inductor names it"
            if warmed.second.hits
            else "look whether the warm-up compiles at all on this machine; compile.warm_command may say how it must",
        )
    cold_seconds = warmed.compile_seconds if warmed.was_cold else None
    purpose = Purpose(
        name=profile.name,
        profile=profile.name,
        profile_digest=profile.digest,
        cold_seconds=cold_seconds or 0.0,
        proven=True,
    )
    manifest = snapshot.describe(asked.roots(), asked.key(live=True, trust_variables=trust_variables), purpose)
    label(asked.inductor, manifest)
    asked.store.keep_warm(manifest, cold_seconds)
    return Result(command="cache warm", data=Proven(profile=profile.name, warmed=warmed, manifest=manifest))


def _run_twice(asked: CacheSubject, profile: ProfileRef, dialog: Dialog) -> Warmed:
    words = warming.command(profile.profile.compile.warm_command, asked.python, profile.asked)
    was_cold = not any(file.kind.endswith("graph") for file in files(asked.roots()))
    dialog.note(f"running twice, as {profile.path} says: {shlex.join(redacted_words(words))}")
    runs: list[WarmupRun] = []
    warmed = warming.warm(
        words, dict(asked.workspace.launched().host.environ), asked.host.cwd, asked.roots(), dialog.note
    )
    for number in (1, 2):
        with dialog.waiting(f"run {number} of 2 is going on"):
            run = next(warmed)
        runs.append(run)
        dialog.note(
            f"run {len(runs)}: {run.seconds:.1f} s, {run.compiled} graphs compiled, {run.hits} served, "
            f"{len(run.added)} files added"
        )
    return Warmed(first=runs[0], second=runs[1], was_cold=was_cold)
