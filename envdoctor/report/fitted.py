"""Lines no longer than the terminal: a report's last step, where somebody reads it on one.

What is there to be copied stays whole: a command, what stands in backticks, a path or another long word.
"""

import re
from collections.abc import Iterator

from envdoctor.report.style import COMMAND_BEGINS, RESET

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_WORD = re.compile(rf"(\s+)|(?:{re.escape(COMMAND_BEGINS)}.*?{re.escape(RESET)}|`[^`]*`|[^\s`])+(?:`[^\s`]*)?|`[^\s`]*")
_LEAST = 40
# A painted command on a line of its own; behind a bar in a plan within a plan.
_WHOLE = re.compile(rf"[ |]*{re.escape(COMMAND_BEGINS)}")


def fitted(text: str, width: int, *, color: bool) -> str:
    """Return a text, written with colour, with its long lines broken at `width` columns; without colour if not `color`.

    A line goes on under its last column that begins in the left half, or two further than it began.
    """
    shown = "\n".join(line for long in text.split("\n") for line in _broken(long, max(width, _LEAST)))
    return shown if color else _COLOR.sub("", shown)


def columns(line: str) -> int:
    """Return how many columns a line takes."""
    return len(_COLOR.sub("", line))


def _broken(line: str, width: int) -> Iterator[str]:
    if columns(line) <= width or _WHOLE.match(line):
        yield line
        return
    hang, made, used, gap = _hang(_COLOR.sub("", line), width), "", 0, ""
    for match in _WORD.finditer(line):
        if match[1]:
            gap = match[1]
            continue
        word, length = match[0], columns(match[0])
        if used + len(gap) + length > width and made.strip():
            yield made
            made, used, gap = " " * hang, hang, ""
        made, used, gap = f"{made}{gap}{word}", used + len(gap) + length, ""
    yield made


def _hang(line: str, width: int) -> int:
    begun = len(line) - len(line.lstrip())
    starts = [match.end() for match in re.finditer(r"\S {2,}(?=\S)", line) if match.end() <= width / 2]
    return starts[-1] if starts else begun + 2
