"""What was found in a venv that was just built, remembered without the folder it was built in.

Every restore builds in another folder. Where each file is as its RECORD says, RECORDs and interpreter decide what is
found in the venv, wherever it lies: in what is written down, a sign stands for the folder.
"""

import json

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.records import index

# NUL is in no path.
_SIGN = json.dumps("\0venv\0")[1:-1]


@frozen
class Place:
    """The folder of a fresh copy; empty for any other venv, whose paths stay as they are."""

    folder: str = ""
    contents: str = ""
    """Digest of every RECORD row that the wheels brought."""

    def away(self, text: str) -> str:
        """Return a JSON text with the sign in place of the folder."""
        return text.replace(self._written, _SIGN) if self.folder else text

    def here(self, text: str) -> str:
        """Return a JSON text with the folder in place of the sign."""
        return text.replace(_SIGN, self._written) if self.folder else text

    def key(self, question: str) -> str:
        """Return what stands for a JSON text in a memo: for a copy a digest without the folder, else the text itself.

        A digest would load OpenSSL, which takes longer than comparing the text.
        """
        return _digest(self.away(question)) if self.folder else question

    def holds(self, path: str) -> bool:
        """Tell whether a path is in the copy."""
        return bool(self.folder) and (path == self.folder or path.startswith(f"{self.folder}/"))

    @property
    def _written(self) -> str:
        return json.dumps(self.folder)[1:-1]


def place(reading: Reading) -> Place:
    """Return the place of this reading's venv."""
    return reading.material(Place, _place)


def _place(reading: Reading) -> Place:
    if not reading.options.fresh:
        return Place()
    digests = sorted(index(reading).digests.values())
    return Place(folder=str(reading.target.prefix), contents=_digest("\n".join(digests)))


def _digest(text: str) -> str:
    import hashlib  # noqa: PLC0415 - only a restore has a fresh copy

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
