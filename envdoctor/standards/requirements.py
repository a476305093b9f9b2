"""Requires-Dist lines, read leniently: a line that does not parse requires nothing."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from envdoctor.standards.names import normalized

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def required_names(lines: Iterable[str]) -> set[str]:
    """Return the normalized names in Requires-Dist lines, markers not evaluated."""
    return {normalized(requirement.name) for line in lines if (requirement := parse_requirement(line))}


def parse_requirement(line: str) -> "Requirement | None":
    """Return the parsed line, or None when it is malformed."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - slow, and rarely needed

    try:
        return Requirement(line)
    except (InvalidRequirement, RecursionError):
        return None


def pinned_version(lines: Iterable[str], name: str) -> str:
    """Return the version that one of the Requires-Dist lines pins a distribution to; empty when none does."""
    for line in lines:
        requirement = parse_requirement(line)
        if requirement is not None and normalized(requirement.name) == name:
            exact = [clause.version for clause in requirement.specifier if clause.operator == "=="]
            return exact[0] if exact else ""
    return ""


def applies(requirement: "Requirement", environment: Mapping[str, str]) -> bool:
    """Tell whether a requirement holds in that environment without any extra."""
    return requirement.marker is None or requirement.marker.evaluate({**environment, "extra": ""})
