"""What every format shows, whatever command it came from: entries with a cause, evidence and a remedy."""

from collections.abc import Mapping
from typing import Literal

from envdoctor.model.frozen import field, frozen
from envdoctor.model.verdict import AreaState

Level = Literal["error", "warning", "note"]
LEVELS: Mapping[Level, int] = {"error": 0, "warning": 1, "note": 2}


@frozen
class OutlinePlace:
    """A line of a file."""

    file: str
    line: int


@frozen
class OutlineEntry:
    """One thing that a result says, with what shows it and what to do."""

    code: str
    """Stable: "ED201" of a check, "diff/torch" of a comparison."""
    name: str
    level: Level
    title: str
    subject: str
    evidence: tuple[str, ...] = ()
    confidence: str = "high"
    remedy: str = ""
    commands: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()
    caused_by: int | None = None
    """Index of its cause among the entries."""
    place: OutlinePlace | None = None

    @property
    def line(self) -> str:
        """Return the entry in one line: its title, and what evidence says beyond it."""
        more = [text for text in self.evidence if text.partition(": ")[2] not in self.title]
        return f"{self.title} ({'; '.join(more)})" if more else self.title


def _kind(entry: OutlineEntry) -> tuple[object, ...]:
    return entry.code, entry.level, entry.remedy, entry.commands, entry.place, entry.confidence


@frozen
class OutlineRow:
    """One area that was looked at."""

    area: str
    state: AreaState
    summary: str


@frozen
class OutlineGap:
    """What could not be determined, and why."""

    code: str
    name: str
    reason: str


@frozen
class OutlineWaived:
    """An entry that somebody accepted, with the reason."""

    entry: OutlineEntry
    reason: str


@frozen
class Outline:
    """One result."""

    command: str
    subject: str
    """What was looked at: a path, two stacks."""
    conclusion: str
    """One sentence without a full stop."""
    exit_code: int
    tool_version: str
    context: tuple[tuple[str, str], ...] = ()
    """Name -> value of the heading: profile, torch, when."""
    entries: tuple[OutlineEntry, ...] = ()
    rows: tuple[OutlineRow, ...] = ()
    gaps: tuple[OutlineGap, ...] = ()
    waived: tuple[OutlineWaived, ...] = ()
    machine: tuple[tuple[str, str], ...] = ()
    distributions: Mapping[str, str] = field(default_factory=dict)
    fail_on: Level = "error"

    @property
    def causes(self) -> tuple[tuple[OutlineEntry, tuple[OutlineEntry, ...]], ...]:
        """Return each entry that no other explains, with those it explains."""
        return tuple(
            (entry, tuple(other for other in self.entries if other.caused_by == at))
            for at, entry in enumerate(self.entries)
            if entry.caused_by is None
        )

    @property
    def bundles(self) -> tuple[tuple[tuple[OutlineEntry, tuple[OutlineEntry, ...]], ...], ...]:
        """Return the causes, those in a row that differ in their subject alone together: one says all of them."""
        made: list[list[tuple[OutlineEntry, tuple[OutlineEntry, ...]]]] = []
        for entry, others in self.causes:
            last = made[-1][-1] if made else None
            plain = not (others or entry.commands or entry.remedy or entry.place or entry.confidence != "high")
            if last and plain and not last[1] and _kind(last[0]) == _kind(entry):
                made[-1].append((entry, others))
            else:
                made.append([(entry, others)])
        return tuple(map(tuple, made))

    @property
    def state(self) -> AreaState:
        """Return the worst level there is; unknown where nothing is wrong and something could not be determined."""
        worst = min((LEVELS[entry.level] for entry in self.entries), default=9)
        found: list[AreaState] = ["error", "warning", "note"]
        return found[worst] if worst < len(found) and (worst < 2 or not self.gaps) else "unknown" if self.gaps else "ok"
