"""JSON (RFC 8259) that somebody else wrote: it decides neither how much memory it takes nor how deep a call goes."""

import json
from typing import Any

VALUES = 100_000
"""Values that a small document may have."""


def loads(data: bytes | str, values: int = VALUES) -> Any:
    """Return the value of a document of at most so many values; 64 to 300 bytes each, and the text itself.

    Raises ValueError for what is not JSON, has more values, or is nested more deeply than Python follows.
    """
    marks: tuple[Any, ...] = ("{", "[", ",") if isinstance(data, str) else (b"{", b"[", b",")
    # Every value but the first stands behind one of these; inside of strings they only make the count too high.
    if sum(data.count(mark) for mark in marks) > values:
        raise ValueError(f"more than {values} values")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
