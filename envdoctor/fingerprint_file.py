"""A fingerprint as one JSON document, and back."""

from typing import Any

from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.fingerprint import SCHEMA_VERSION, Fingerprint, Unread
from envdoctor.probes.registry import PROBES

_SECTIONS: dict[str, type] = {kind.__name__: kind for kind in PROBES}


def document(facts: Fingerprint) -> dict[str, Any]:
    """Return plain values: each section under the name of its type, and the reason of each that could not be read."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "envdoctor", "version": facts.tool_version},
        "target": facts.target,
        "taken_at": facts.taken_at,
        "sections": {type(section).__name__: encode(section) for section in facts.sections},
        "unread": {gap.section: gap.reason for gap in facts.unread},
    }


def parse(data: Any) -> Fingerprint:
    """Return the fingerprint a document holds. Raises CodecError with the path of the first mistake.

    A section this version does not know is an error: its facts would silently be left out of the verdict.
    """
    if not isinstance(data, dict):
        raise CodecError("", "expected a table")
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise CodecError("schema_version", f"this envdoctor reads {SCHEMA_VERSION}, the document says {version!r}")
    sections = decode(dict[str, Any], data.get("sections"), "sections")
    strange = sorted(set(sections) - set(_SECTIONS))
    if strange:
        raise CodecError(f"sections.{strange[0]}", "unknown section")
    return Fingerprint(
        target=decode(str, data.get("target"), "target"),
        taken_at=decode(str, data.get("taken_at"), "taken_at"),
        tool_version=decode(str, decode(dict[str, Any], data.get("tool"), "tool").get("version"), "tool.version"),
        sections=tuple(decode(_SECTIONS[name], value, f"sections.{name}") for name, value in sections.items()),
        unread=tuple(
            Unread(section=name, reason=reason)
            for name, reason in decode(dict[str, str], data.get("unread"), "unread").items()
        ),
    )
