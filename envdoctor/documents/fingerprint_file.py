"""A fingerprint as one JSON document, and back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envdoctor.errors import FingerprintError
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.fingerprint import SCHEMA_VERSION, Fingerprint, Unread
from envdoctor.probes.registry import ON_REQUEST, PROBES
from envdoctor.standards.bounded_json import loads

# A stack of 100 distributions makes 100 KB, one with 10,000 damaged files 2 MB.
_MAXIMUM, _MAXIMUM_VALUES = 32 << 20, 1_000_000
_SECTIONS: dict[str, type] = {kind.__name__: kind for kind in (*PROBES, *ON_REQUEST)}


def document(facts: Fingerprint) -> dict[str, Any]:
    """Return plain values: each section under the name of its type, and the reason of each that could not be read."""
    from envdoctor.compare.identity import digest_of  # noqa: PLC0415 - a check reads documents and writes none

    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "envdoctor", "version": facts.tool_version},
        "target": facts.target,
        "taken_at": facts.taken_at,
        "digest": digest_of(facts),
        "sections": {type(section).__name__: encode(section) for section in facts.sections},
        "unread": {gap.section: gap.reason for gap in facts.unread},
    }


def read(file: str) -> Fingerprint:
    """Read a fingerprint file. Raises FingerprintError with the path of the mistake."""
    hint = "write it again: `envdoctor fingerprint VENV -o FILE`"
    try:
        # A pipe is fine (`--fingerprint <(ssh host envdoctor fingerprint)`), an endless one is not.
        with Path(file).open("rb") as stream:
            content = stream.read(_MAXIMUM + 1)
        if len(content) > _MAXIMUM:
            raise FingerprintError(f"{file} is larger than any fingerprint ({_MAXIMUM} bytes)", hint)
        return parse(loads(content, _MAXIMUM_VALUES))
    except OSError as error:
        raise FingerprintError(f"cannot read {file}: {error.strerror}", hint) from error
    except CodecError as error:
        raise FingerprintError(f"{file}: {error}", hint) from error
    except (ValueError, RecursionError) as error:
        raise FingerprintError(f"{file} is not a JSON document: {error}", hint) from error


def parse(data: Any) -> Fingerprint:
    """Return the fingerprint a document holds. Raises CodecError with the path of the first mistake.

    A section this version does not know is an error: its facts would silently be left out of the verdict.
    """
    root = _table(data, "")
    if (version := root.get("schema_version")) != SCHEMA_VERSION:
        raise CodecError("schema_version", f"this envdoctor reads {SCHEMA_VERSION}, the document says {version!r}")
    sections = _table(root.get("sections"), "sections")
    if strange := sorted(set(sections) - set(_SECTIONS)):
        raise CodecError(f"sections.{strange[0]}", "unknown section")
    unread = decode(Mapping[str, str], root.get("unread"), "unread")
    return Fingerprint(
        target=decode(str, root.get("target"), "target"),
        taken_at=decode(str, root.get("taken_at"), "taken_at"),
        tool_version=decode(str, _table(root.get("tool"), "tool").get("version"), "tool.version"),
        sections=tuple(decode(_SECTIONS[name], value, f"sections.{name}") for name, value in sections.items()),
        unread=tuple(Unread(section=name, reason=reason) for name, reason in unread.items()),
    )


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CodecError(where, "expected a table")
    return value
