"""Where the wheels come from that a repair installs again."""

from collections.abc import Sequence

from envdoctor.errors import RestoreError
from envdoctor.model.plan import PlannedPackage
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels import wheel_origins
from envdoctor.wheels.cached_answers import Question, Remembered


def located(wanted: Sequence[LockedPackage], question: Question, memos: Remembered) -> tuple[PlannedPackage, ...]:
    """Return a source for each pinned package. Raises RestoreError for one that is not found."""
    if not wanted:
        return ()
    found = wheel_origins.locate(question, wanted, memos)
    if found.unavailable:
        first = found.unavailable[0]
        raise RestoreError(f"{first.name} {first.version} was not found: {first.reason}", first.hint)
    return tuple(
        PlannedPackage(name=package.name, version=package.version, source=found.sources[package.name])
        for package in wanted
    )
