"""The heading of a report, from the facts: what the command line and the gate share."""

from envdoctor.model.fingerprint import Fingerprint, MissingFactError
from envdoctor.model.header import Header
from envdoctor.probes.loading.torch_build import TorchBuild


def heading(facts: Fingerprint, profile: str = "", found_by: str = "", profile_path: str = "") -> Header:
    """Return the header of a report on `facts`, compared with the profile of that name."""
    version, note = _torch(facts)
    return Header(
        target=facts.target,
        tool_version=facts.tool_version,
        taken_at=facts.taken_at,
        profile=profile,
        profile_path=profile_path,
        found_by=found_by,
        torch=version,
        torch_note=note,
    )


def _torch(facts: Fingerprint) -> tuple[str, str]:
    try:
        build = facts[TorchBuild]
    except MissingFactError as gap:
        return "", f"could not be read: {gap.reason}"
    if not build.present:
        return "", "not installed"
    return (build.version, "") if build.version else ("", "of unknown build")
