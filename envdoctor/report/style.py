"""How text is laid out on a terminal: width, colour, signs. The fast path prints through here, without a library."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

from envdoctor.model.frozen import field, frozen
from envdoctor.model.pattern import pattern

if TYPE_CHECKING:  # `pattern` compiles when it is first used
    import re

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
COMMAND_BEGINS, RESET = f"\x1b[{_SGR['command']}m", "\x1b[0m"
_SIGNS = {"ok": "✓", "note": "i", "warning": "!", "error": "✗", "unknown": "?", "not-applicable": "–"}
_PLAIN_SIGNS = {"ok": "+", "note": "i", "warning": "!", "error": "x", "unknown": "?", "not-applicable": "-"}
# C0 and C1 controls, and the lone surrogates that stand for undecodable bytes of a file name.
# And the marks that turn the direction of text, behind which a name can read as another, or that separate lines.
_UNPRINTABLE = pattern("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_QUOTED = pattern("`[^`]*`")
# Where a shell takes a word as a program: first, behind another command, behind variables that are set for it.
_PROGRAM = pattern(r"(?P<before>(?:^|(?:&&|\|\||;) )(?:[A-Z_]+=(?:'[^']*'|[^\s'])* )*)(?P<name>uv|envdoctor|sudo) ")
_NOT_OURS = pattern(
    rf"\x1b\[(?:0|{'|'.join(sorted(set(_SGR.values())))})m|[\n\t]|([\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff])"
)


@frozen
class Style:
    """The reader's terminal."""

    width: int = 100
    """Columns to wrap prose at. A command is never wrapped."""
    color: bool = False
    unicode: bool = True
    verbosity: int = 0
    """-1 quiet, 0 normal, 1 verbose."""
    on_screen: bool = False
    """The width is that of a screen: lines that nothing wrapped are broken there. A file or a pipe gets them whole."""
    programs: Callable[[], Mapping[str, str]] = field(default=dict)
    """Gives program -> what to type in its place, where the reader's PATH does not have it; empty for nothing."""

    def paint(self, kind: str, text: str) -> str:
        """Colour `text` as `kind` (a severity, "ok", "strong", "dim", "command"); unchanged without colour.

        A command is written as the reader can type it.
        """
        text = typable(text, self.programs) if kind == "command" else text
        return f"\x1b[{_SGR[kind]}m{text}{RESET}" if self.color and text else text

    def sign(self, state: str) -> str:
        """Return the one-character sign of an area's state, readable without colour."""
        return (_SIGNS if self.unicode else _PLAIN_SIGNS)[state]

    def wrap(self, text: str, first: str, rest: str) -> list[str]:
        """Wrap prose at the width behind the indents `first` and `rest`.

        A path or another long word stays whole, and so does what stands in backticks.
        """
        shown, width = printable(text), max(self.width, 40)
        if len(first) + len(shown) <= width and shown == " ".join(shown.split()):
            return [(first + shown).rstrip()]
        import textwrap  # noqa: PLC0415 - a report without a finding wraps nothing

        # What stands in backticks is there to be copied: one word, whatever it holds. No control character is left.
        words = _QUOTED.sub(lambda match: match[0].replace(" ", "\0"), shown)
        lines = textwrap.wrap(
            words,
            width,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return [line.replace("\0", " ") for line in lines] or [first.rstrip()]


def typable(command: str, programs: Callable[[], Mapping[str, str]]) -> str:
    """Return a command with what to type in place of its programs, where PATH does not have them."""
    if _PROGRAM.search(command) is None:
        return command
    names = programs()

    def typed(match: "re.Match[str]") -> str:
        name = names.get(match["name"], match["name"])
        return f"{match['before']}{name} " if name else match["before"]

    return _PROGRAM.sub(typed, command)


def typable_prose(text: str, programs: Callable[[], Mapping[str, str]]) -> str:
    """Return a text in which the commands in backticks are typable."""
    return _QUOTED.sub(lambda match: f"`{typable(match[0][1:-1], programs)}`", text) if "`" in text else text


def printable(text: str) -> str:
    r"""Return `text` with control characters written out (\x1b): names come from files that anybody may have made."""
    return _UNPRINTABLE.sub(lambda match: _escaped(ord(match[0])), text)


def on_terminal(text: str) -> str:
    """Return a whole text with what this program did not mean written out: line breaks and its own colours stay."""
    if text.isprintable():
        return text
    return _NOT_OURS.sub(lambda match: _escaped(ord(match[1])) if match[1] else match[0], text)


def write_line(stream: TextIO | None, text: str) -> None:
    """Write a line to a stream that may be somebody's own: it may refuse signs, be closed, or be None.

    What its encoding has no sign for is written out; that nobody reads it is no reason to end what goes on.
    """
    if stream is None:
        return
    try:
        print(text, file=stream)
    except UnicodeEncodeError:
        print(text.encode("ascii", "backslashreplace").decode("ascii"), file=stream)
    except (OSError, ValueError):
        return


def _escaped(code: int) -> str:
    # os.fsdecode puts an undecodable byte B at U+DC00 + B; showing B is what a reader can act on.
    if code > 0xFF and not 0xDC80 <= code <= 0xDCFF:
        return f"\\u{code:04x}"
    return f"\\x{code & 0xFF:02x}"
