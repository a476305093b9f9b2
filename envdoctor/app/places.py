"""Where a profile or a lock speaks of what was found, so that a reviewer is led to a line."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envdoctor.facts.regular_file import read_text
from envdoctor.model.finding import Finding
from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.standards.names import normalized

if TYPE_CHECKING:
    from envdoctor.documents.profile_store import ProfileRef

# The key of a profile that a check compares with, by the check's name.
_KEYS = {
    "python-drift": "python.versions",
    "torch-build-drift": "torch.version",
    "cpu-build-with-gpu": "torch.version",
    "gpu-not-in-build": "torch.version",
    "driver-out-of-range": "driver",
    "environment-drift": "environment",
    "cold-compile-cache": "compile",
    "fx-tracing-race": "compile.threads",
    "wrong-provider": "libraries",
    "source-drift": "sources",
}
_MAXIMUM = 8 << 20
_BETWEEN = pattern(r", | / ")


@frozen
class SaidAt:
    """One line of a file."""

    file: str
    """Relative to the current folder where it is inside, else absolute."""
    line: int
    """From 1."""


def places(findings: Sequence[Finding], profile: "ProfileRef | None", lock: str, cwd: Path) -> Mapping[int, SaidAt]:
    """Return index of a finding -> the line that is about it; one about which no file says anything is left out.

    lock: path of a lock that is compared in place of a profile's; empty without one.
    """
    if not findings or (profile is None and not lock):
        return {}
    from envdoctor.documents.lines import key_lines, pinned_lines  # noqa: PLC0415 - most checks find nothing

    pins = pinned_lines(_text(profile.lock_path if profile else Path(lock)))
    keys = key_lines(_text(profile.path)) if profile else {}
    lock_shown = _shown(profile.lock_path if profile else Path(lock), cwd)
    found: dict[int, SaidAt] = {}
    for at, finding in enumerate(findings):
        if profile and (line := _key_line(finding, keys)):
            found[at] = SaidAt(file=_shown(profile.path, cwd), line=line)
        elif line := next((pins[name] for name in _distributions(finding) if name in pins), 0):
            found[at] = SaidAt(file=lock_shown, line=line)
    return found


def _key_line(finding: Finding, keys: Mapping[str, int]) -> int:
    subjects = _BETWEEN.split(finding.subject)
    key = _KEYS.get(finding.name, "")
    tables = [key, *(f"{table}.{subject}" for table in (key, "libraries", "environment.set") for subject in subjects)]
    exact = next((keys[name] for name in reversed(tables) if name in keys), 0)
    return exact or keys.get(key.partition(".")[0], 0)


def _distributions(finding: Finding) -> Iterator[str]:
    """Yield the distributions that a finding may be about, what it names itself first."""
    yield from (normalized(word) for word in _BETWEEN.split(finding.subject))
    yield from (token.partition(":")[2] for token in finding.causes if token.startswith("dist:"))


def _text(path: Path) -> str:
    try:
        return read_text(path, _MAXIMUM, "replace")
    except OSError:
        return ""


def _shown(path: Path, cwd: Path) -> str:
    return os.path.relpath(path, cwd) if path.is_relative_to(cwd) else str(path)
