"""Fingerprints as versioned JSON, and back."""

import json
from typing import Any

from envdoctor.errors import FingerprintError
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.fingerprint import SCHEMA_VERSION, Fingerprint, Unread
from envdoctor.probes.registry import PROBES

_HINT = "write it again with `envdoctor fingerprint VENV -o FILE`"


def dump(fingerprint: Fingerprint) -> str:
    """Return the fingerprint as JSON text, sections by type name."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "envdoctor", "version": fingerprint.tool_version},
        "target": fingerprint.target,
        "taken_at": fingerprint.taken_at,
        "sections": {type(section).__name__: encode(section) for section in fingerprint.sections},
        "unread": encode(fingerprint.unread),
    }
    return json.dumps(document, indent=1, sort_keys=False) + "\n"


def load(text: str, name: str) -> Fingerprint:
    """Read a fingerprint's JSON text; `name` stands in messages.

    Raises FingerprintError for anything that is not a fingerprint of this schema, with the path of the mistake.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FingerprintError(f"{name} is not JSON: {error}", _HINT) from error
    if not isinstance(document, dict) or "schema_version" not in document:
        raise FingerprintError(f"{name} is not a fingerprint: it has no schema_version", _HINT)
    if document["schema_version"] != SCHEMA_VERSION:
        raise FingerprintError(
            f"{name} is a fingerprint of schema {document['schema_version']!r}; this version reads {SCHEMA_VERSION}",
            _HINT,
        )
    try:
        return _build(document)
    except CodecError as error:
        raise FingerprintError(f"{name}: {error}", _HINT) from error
    except RecursionError as error:
        raise FingerprintError(f"{name} is nested too deeply", _HINT) from error


def _build(document: dict[str, Any]) -> Fingerprint:
    kinds = {kind.__name__: kind for kind in PROBES}
    stated = document.get("sections")
    if not isinstance(stated, dict):
        raise CodecError("sections", "expected a table")
    unknown = sorted(set(stated) - set(kinds))
    if unknown:
        raise CodecError(f"sections.{unknown[0]}", f"unknown section; known here: {', '.join(kinds)}")
    sections = {name: decode(kinds[name], data, f"sections.{name}") for name, data in stated.items()}
    tool = document.get("tool")
    return Fingerprint(
        target=decode(str, document.get("target"), "target"),
        taken_at=decode(str, document.get("taken_at"), "taken_at"),
        tool_version=decode(str, tool.get("version") if isinstance(tool, dict) else None, "tool.version"),
        sections=tuple(sections[name] for name in kinds if name in sections),
        unread=decode(tuple[Unread, ...], document.get("unread", []), "unread"),
    )
