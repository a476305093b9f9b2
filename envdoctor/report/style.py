"""How text is laid out on a terminal: width, colour, signs. The fast path prints through here, without a library."""

import re
import textwrap

from envdoctor.model.frozen import frozen

_SGR = {
    "error": "1;31",
    "warning": "1;33",
    "note": "1;36",
    "ok": "32",
    "unknown": "35",
    "not-applicable": "2",
    "strong": "1",
    "dim": "2",
    "command": "36",
}
_SIGNS = {"ok": "✓", "note": "i", "warning": "!", "error": "✗", "unknown": "?", "not-applicable": "–"}
_PLAIN_SIGNS = {"ok": "+", "note": "i", "warning": "!", "error": "x", "unknown": "?", "not-applicable": "-"}
# C0 and C1 controls, and the lone surrogates that stand for undecodable bytes of a file name.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@frozen
class Style:
    """The reader's terminal."""

    width: int = 100
    """Columns to wrap prose at. A command is never wrapped."""
    color: bool = False
    unicode: bool = True
    verbosity: int = 0
    """-1 quiet, 0 normal, 1 verbose."""

    def paint(self, kind: str, text: str) -> str:
        """Colour `text` as `kind` (a severity, "ok", "strong", "dim", "command"); unchanged without colour."""
        return f"\x1b[{_SGR[kind]}m{text}\x1b[0m" if self.color and text else text

    def sign(self, state: str) -> str:
        """Return the one-character sign of an area's state, readable without colour."""
        return (_SIGNS if self.unicode else _PLAIN_SIGNS)[state]

    def wrap(self, text: str, first: str, rest: str) -> list[str]:
        """Wrap prose at the width; `first` and `rest` are the indents. Paths and other long words stay whole."""
        return textwrap.wrap(
            printable(text),
            max(self.width, 40),
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]


def printable(text: str) -> str:
    r"""Return `text` with control characters written out (\x1b): names come from files that anybody may have made."""
    return _UNPRINTABLE.sub(lambda match: _escaped(ord(match[0])), text)


def _escaped(code: int) -> str:
    # os.fsdecode puts an undecodable byte B at U+DC00 + B; showing B is what a reader can act on.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\x{code:02x}"
