"""`envdoctor cache warm`: run the profile's warm-up twice, and prove that the second compiles nothing."""

import shlex

from envdoctor.app.caches import Subject, subject
from envdoctor.cache import snapshot
from envdoctor.cache import warm as warming
from envdoctor.cache.layout import files
from envdoctor.cache.snapshot import Purpose
from envdoctor.cache.store import label
from envdoctor.cache.warm import Run, Warmed
from envdoctor.cli.options import ProfileOption, VenvArgument, VenvOption
from envdoctor.cli.terminal import say, write_result
from envdoctor.cli.values import one_venv
from envdoctor.cli.waiting import waiting
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import CacheError
from envdoctor.exitcodes import ExitCode
from envdoctor.report.cache_text import entries, megabytes


def warm(venv: VenvArgument = "", venv_option: VenvOption = "", profile: ProfileOption = "") -> int:
    """Run the warm-up of the training code in the venv, twice, and prove that the second run compiles nothing.

    Runs the venv's interpreter. The time goes into the profile's history, from which a check tells what a cold start
    costs. Exit codes: 0 proven warm, 1 not, 2 bad input.
    """
    asked = subject(Workspace.open(one_venv(venv, venv_option), profile), say)
    asked.workspace.needs_profile("warm for", "envdoctor cache warm --profile P")
    warmed = _run_twice(asked)
    if warmed.doubts:
        raise CacheError(
            f"the cache of {_name(asked)} is not proven warm: {'; '.join(warmed.doubts)}",
            "a graph the cache cannot hold is compiled at every start: TORCH_LOGS=+inductor names it"
            if warmed.second.hits
            else "look whether the warm-up compiles at all on this machine; compile.warm_command may say how it must",
        )
    purpose = Purpose(
        name=_name(asked),
        profile=_name(asked),
        profile_digest=asked.profile_digest,
        cold_seconds=warmed.compile_seconds if warmed.was_cold else 0.0,
    )
    manifest = snapshot.describe(asked.roots(), asked.key(live=True), purpose)
    label(asked.inductor, manifest)
    asked.store.keep_warm(manifest, warmed.compile_seconds if warmed.was_cold else None)
    cost = f"; compiling took {warmed.compile_seconds:.0f} s" if warmed.was_cold else "; it was not cold before"
    write_result(
        f"The cache of {_name(asked)} is warm: the second run was served {warmed.second.hits} graphs and compiled none"
        f"{cost}\n{megabytes(manifest.bytes)} in {len(manifest.files)} files: {entries(manifest.entries)}\n"
        f"key {manifest.key_digest}\n"
    )
    return ExitCode.OK


def _run_twice(asked: Subject) -> Warmed:
    assert asked.profile is not None  # noqa: S101 - `warm` requires a profile
    words = warming.command(asked.profile.compile.warm_command, asked.python, asked.profile_asked)
    was_cold = not any(file.kind.endswith("graph") for file in files(asked.roots()))
    say(f"running twice: {shlex.join(words)}")
    runs: list[Run] = []
    warmed = warming.warm(words, dict(asked.workspace.launched().host.environ), asked.host.cwd, asked.roots())
    for number in (1, 2):
        with waiting(f"run {number} of 2 is going on"):
            run = next(warmed)
        runs.append(run)
        say(
            f"run {len(runs)}: {run.seconds:.1f} s, {run.compiled} graphs compiled, {run.hits} served, "
            f"{len(run.added)} files added"
        )
    return Warmed(first=runs[0], second=runs[1], was_cold=was_cold)


def _name(asked: Subject) -> str:
    return asked.profile.name if asked.profile else ""
