"""Remembers what was read out of installed packages' sources, for as long as no RECORD of the environment changes.

A package's text is what its RECORD says: a file edited in place is a fault of its own (damaged-distribution).
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from envdoctor.facts.context import Reading
from envdoctor.facts.memo_file import memo_path, read_own, write_memo
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.copy_place import place
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.search_path import SearchPath

Section = TypeVar("Section")
_FORM = 3
"""Raised whenever what is looked for changes: what was remembered before then counts for nothing."""
_MAXIMUM_MEMO = 1024 * 1024


@frozen
class State:
    """The interpreter's version, sys.path, and every distribution's folder and RECORD."""

    lines: tuple[str, ...]


def remembered(
    reading: Reading, name: str, kind: type[Section], make: Callable[[], Section], question: Sequence[str] = ()
) -> Section:
    """Return what was found in the same state for the same question; else what `make` finds, which is then written."""
    of_copy = place(reading)
    key = of_copy.key(json.dumps([*reading.material(State, _state).lines, *question]))
    memo = memo_path(name, Path(key) if of_copy.folder else reading.target.prefix, reading.host)
    try:
        document = json.loads(of_copy.here(read_own(memo, _MAXIMUM_MEMO).decode()))
        if document["key"] == key:
            return decode(kind, document["found"])  # type: ignore[no-any-return]
    except (OSError, ValueError, TypeError, KeyError, RecursionError, CodecError):
        # Whatever is wrong with it, looking again gives the right answer and writes a new one.
        pass
    found = make()
    try:
        write_memo(memo, of_copy.away(json.dumps({"key": key, "found": encode(found)})).encode())
    except (OSError, UnicodeError):
        return found  # the next run looks again: nothing is lost but its time
    return found


def _state(reading: Reading) -> State:
    items, digests = reading.fact(Distributions).items, index(reading).digests
    lines = [str(_FORM), reading.fact(Interpreter).minor]
    lines += [entry.path for entry in reading.fact(SearchPath).entries]
    lines += [f"{item.site}/{item.folder} {digests.get(at, '')}" for at, item in enumerate(items)]
    return State(lines=tuple(lines))
