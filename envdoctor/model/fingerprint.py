"""What the probes wrote down about one environment."""

from typing import TypeVar

from envdoctor.model.frozen import frozen

SCHEMA_VERSION = 1

Section = TypeVar("Section")


class MissingFactError(LookupError):
    """A check asked for a section its probe could not read; `reason` says why."""

    def __init__(self, section: str, reason: str, traceback: str = "") -> None:
        """Keep the section's name, the probe's reason, and its traceback when it crashed."""
        super().__init__(f"{section}: {reason}")
        self.section = section
        self.reason = reason
        self.traceback = traceback


@frozen
class Unread:
    """A section that could not be read, and why. "Could not read" is never the same as "absent"."""

    section: str
    reason: str
    traceback: str = ""
    """Of a probe that crashed; a fingerprint file does not keep it."""


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
        gap = next((gap for gap in self.unread if gap.section == kind.__name__), None)
        if gap is None:
            raise MissingFactError(kind.__name__, "not probed")
        raise MissingFactError(kind.__name__, gap.reason, gap.traceback)

    def get(self, kind: type[Section]) -> Section | None:
        """Return the section of that type, or None."""
        return next((section for section in self.sections if type(section) is kind), None)
