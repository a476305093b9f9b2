"""What a run is started on, in a file beside its outputs, and the journal's note of a run that went well."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.facts.context import Options
from envdoctor.facts.whole_file import write_named, write_whole
from envdoctor.model.fingerprint import Fingerprint

KEPT = 50
"""Runs of a venv whose start is kept beside its journal."""


def begun(launch: Workspace, command: Sequence[str], file: str) -> Fingerprint:
    """Return the fingerprint of what is about to start, and write it where a file is named. Raises UsageError.

    The file is the fingerprint's document, which `diff` and `check --fingerprint` take, with a key "run" more.
    """
    facts = launch.facts(Options(contents=True))
    if file:
        path = Path(launch.host.cwd, file)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_named(path, _document(launch, facts, command))
        except OSError as error:
            hint = "name a file in a folder that you can write, or omit `--provenance`"
            raise UsageError(f"{path} cannot be written: {error.strerror or error}", hint) from error
    return facts


def kept(launch: Workspace, facts: Fingerprint, command: Sequence[str]) -> str:
    """Keep what a run is started on beside the venv's journal; return a warning where that failed.

    The newest are kept. A folder that cannot be written fails no run.
    """
    from envdoctor.documents.stack_journal import StackJournal  # noqa: PLC0415 - a run that is not watched keeps none

    folder = StackJournal.of(launch.target.prefix, launch.host).folder / "runs"
    # In the order of time, and of two at once each its own.
    name = f"{facts.taken_at.replace(':', '')}-{os.getpid()}.json"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder / name, _document(launch, facts, command), 0o600)
        for path in sorted(folder.glob("*.json"))[:-KEPT]:
            path.unlink(missing_ok=True)
    except OSError as error:
        return f"warning: {folder} cannot be written, so what this run is started on is not kept: {error.strerror}"
    return ""


def _document(launch: Workspace, facts: Fingerprint, command: Sequence[str]) -> bytes:
    from envdoctor.documents.fingerprint_file import document  # noqa: PLC0415 - most runs write none
    from envdoctor.standards.redaction import redacted, redacted_words, secrets_of  # noqa: PLC0415

    profile = launch.profile.name if launch.profile else None
    run = {"command": redacted_words(command), "cwd": str(launch.host.cwd), "profile": profile, "pid": os.getpid()}
    text = json.dumps({**document(facts), "run": run}, indent=1)
    return redacted(text, secrets_of(launch.host.environ)).encode() + b"\n"


def good(launch: Workspace, facts: Fingerprint, share: float | None, rate: float | None) -> str:
    """Note in the venv's journal that a run reached its profile's rate; return a warning where that failed.

    share: of the expected tokens a second; rate: tokens a second. A journal that cannot be written fails no run.
    """
    from envdoctor.app.watch_stack import REACHED, noted  # noqa: PLC0415 - a run that is not watched notes nothing

    if share is None or rate is None or share < REACHED:
        return ""
    try:
        noted(launch, facts, "good", rate)
    except UsageError as error:
        return f"warning: this run reached its profile's rate, which is not noted: {error.message}"
    return ""
