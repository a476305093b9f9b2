"""What the probes wrote down about one environment."""

from typing import TypeVar

from envdoctor.model.frozen import frozen

SCHEMA_VERSION = 1

Section = TypeVar("Section")


class MissingFactError(LookupError):
    """A check asked for a section its probe could not read; `reason` says why."""

    def __init__(self, section: str, reason: str) -> None:
        """Keep the section's name and the probe's reason."""
        super().__init__(f"{section}: {reason}")
        self.section = section
        self.reason = reason


@frozen
class Unread:
    """A section that could not be read, and why. "Could not read" is never the same as "absent"."""

    section: str
    reason: str


@frozen
class Fingerprint:
    """All sections of one environment. A section is a frozen dataclass declared beside its probe."""

    target: str
    """The environment's prefix, as an absolute path."""
    taken_at: str
    """UTC, ISO 8601, seconds."""
    tool_version: str
    sections: tuple[object, ...]
    unread: tuple[Unread, ...] = ()

    def __getitem__(self, kind: type[Section]) -> Section:
        """Return the section of that type; raise MissingFactError with the probe's reason when it has none."""
        for section in self.sections:
            if type(section) is kind:
                return section
        reason = next((gap.reason for gap in self.unread if gap.section == kind.__name__), "not probed")
        raise MissingFactError(kind.__name__, reason)

    def get(self, kind: type[Section]) -> Section | None:
        """Return the section of that type, or None."""
        return next((section for section in self.sections if type(section) is kind), None)
