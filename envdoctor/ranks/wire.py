"""What ranks send each other: frames of JSON that are bounded, and that only a rank of the same job can have made.

A frame is its length (4 bytes), 32 bytes of BLAKE2b over its direction and its body with the job's key, and the body.
"""

import hashlib
from hmac import compare_digest
from typing import Any

from envdoctor.standards.bounded_json import loads

TO_RANK_0, TO_RANK = b"to rank 0", b"to a rank"
SMALL, LARGE = 64 * 1024, 4 * 1024 * 1024
"""Bytes of a body: of an answer or a greeting, and of a sheet."""
_HEAD = 36
_VALUES = 200_000


class ForeignError(ValueError):
    """Bytes that no rank of this job has sent."""


def frame(key: bytes, direction: bytes, value: Any) -> bytes:
    """Return the bytes of a value that JSON has."""
    import json  # noqa: PLC0415 - loaded by now

    body = json.dumps(value, separators=(",", ":")).encode()
    return len(body).to_bytes(4, "big") + _mac(key, direction, body) + body


class FrameReader:
    """Puts the frames of one connection together."""

    def __init__(self, key: bytes, direction: bytes) -> None:
        """Take the job's key and the direction in which frames come."""
        self._key, self._direction = key, direction
        self._held = bytearray()

    def feed(self, data: bytes, maximum: int = SMALL) -> list[dict[str, Any]]:
        """Return the frames that are whole with these bytes. Raises ForeignError for what is not of this job."""
        self._held += data
        found = []
        while len(self._held) >= 4:
            size = int.from_bytes(self._held[:4], "big")
            if size > maximum:
                raise ForeignError("too long")
            if len(self._held) < _HEAD + size:
                break
            mac, body = bytes(self._held[4:_HEAD]), bytes(self._held[_HEAD : _HEAD + size])
            del self._held[: _HEAD + size]
            if not compare_digest(mac, _mac(self._key, self._direction, body)):
                raise ForeignError("not of this job")
            found.append(_table(body))
        return found


def _mac(key: bytes, direction: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(body, key=key, person=direction, digest_size=32).digest()


def _table(body: bytes) -> dict[str, Any]:
    try:
        value = loads(body, _VALUES)
    except ValueError as error:
        raise ForeignError("not JSON") from error
    if not isinstance(value, dict):
        raise ForeignError("not a table")
    return value
