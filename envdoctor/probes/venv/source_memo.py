"""Remembers what was read out of installed packages' sources, for as long as no RECORD of the environment changes.

A package's text is what its RECORD says: a file edited in place is a fault of its own (damaged-distribution).
"""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeVar

from envdoctor.facts.context import Reading
from envdoctor.facts.memo_file import memo_path, read_own, write_memo
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.search_path import SearchPath

Section = TypeVar("Section")
_FORM = 1
"""Raised whenever what is looked for changes: what was remembered before then counts for nothing."""
_MAXIMUM_MEMO = 1024 * 1024


@frozen
class State:
    """A digest of the interpreter's version, sys.path, and every distribution's folder and RECORD."""

    digest: str


def remembered(
    reading: Reading, name: str, kind: type[Section], make: Callable[[], Section], question: Sequence[str] = ()
) -> Section:
    """Return what was found in the same state for the same question; else what `make` finds, which is then written."""
    memo = memo_path(name, reading.target.prefix, reading.host)
    state = reading.material(State, _state).digest
    key = sha256("\n".join([state, *question]).encode()).hexdigest()
    try:
        document = json.loads(read_own(memo, _MAXIMUM_MEMO))
        if document["key"] == key:
            return decode(kind, document["found"])  # type: ignore[no-any-return]
    except (OSError, ValueError, TypeError, KeyError, RecursionError, CodecError):
        # Whatever is wrong with it, looking again gives the right answer and writes a new one.
        pass
    found = make()
    try:
        write_memo(memo, json.dumps({"key": key, "found": encode(found)}).encode())
    except (OSError, UnicodeError):
        return found  # the next run looks again: nothing is lost but its time
    return found


def _state(reading: Reading) -> State:
    items, digests = reading.fact(Distributions).items, index(reading).digests
    lines = [str(_FORM), reading.fact(Interpreter).minor]
    lines += [entry.path for entry in reading.fact(SearchPath).entries]
    lines += [f"{item.site}/{item.folder} {digests.get(at, '')}" for at, item in enumerate(items)]
    return State(digest=sha256("\n".join(lines).encode("utf-8", "replace")).hexdigest())
