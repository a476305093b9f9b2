"""Paths that several distributions write: whose bytes they hold, and would hold if only some had changed."""

import hashlib

from envdoctor.facts.regular_file import open_regular
from envdoctor.standards.recorded import hash_field
from envdoctor.trial.side import Side, owners


class ContestedPaths:
    """Tells by the sha256 of the files at both ends; each is read once, and only if it is asked for."""

    def __init__(self, good: Side, bad: Side) -> None:
        """Keep the ends."""
        self._good, self._bad = good, bad
        self._known: dict[str, str] = {}

    def found(self, path: str, stated: str) -> Side | None:
        """Return the end at which a path has what a RECORD states; None for neither."""
        sides = (side for side in (self._bad, self._good) if path in side.tree.entries)
        return next((side for side in sides if stated and self._hash(side, path) == stated.rstrip("=")), None)

    def losers(self, path: str) -> list[str]:
        """Return the owners whose bytes a path had at the good end and has no longer; all if none is known."""
        claims = self._good.claims.get(path, {})
        lost = [name for name, stated in claims.items() if self._holds(self._good, path, stated)]
        lost = [name for name in lost if not self._holds(self._bad, path, claims[name])]
        return sorted(lost) or owners((self._good, self._bad), path)

    def clear(self, path: str) -> bool:
        """Tell whether what each owner writes at either end is at one of them."""
        stated = [text for side in (self._good, self._bad) for text in side.claims.get(path, {}).values()]
        return all(self.found(path, text) is not None for text in stated)

    def mixed(self, path: str, sides: dict[str, Side]) -> Side | None:
        """Return where the path's bytes are, when each owner is as at that end; None for no file.

        The last one to write it at the bad end wins, as far as it is there, then the last one at the good end.
        """
        there = [side.claims[path][name] for name, side in sides.items() if name in side.claims.get(path, {})]
        for last in (self._bad, self._good):
            if any(self._holds(last, path, stated) for stated in there):
                return last
        return None

    def _holds(self, side: Side, path: str, stated: str) -> bool:
        return path in side.tree.entries and bool(stated) and self._hash(side, path) == stated.rstrip("=")

    def _hash(self, side: Side, path: str) -> str:
        whole = f"{side.tree.root}/{path}"
        if whole not in self._known:
            with open_regular(whole) as file:
                self._known[whole] = hash_field(hashlib.file_digest(file, "sha256").digest())
        return self._known[whole]
