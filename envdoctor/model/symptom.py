"""Error texts of other programs, and what envdoctor knows about them."""

from envdoctor.model.frozen import frozen


@frozen
class Symptom:
    """A text that a program prints when an environment is broken: one row of `catalog/symptoms/`."""

    text: str
    """As it is printed, one line."""
    anchors: tuple[str, ...]
    """What such a line contains, one of them at least; no two symptoms are told apart by case."""
    pattern: str = ""
    """Regular expression the line matches besides; its named groups are what `commands` name. Empty: none."""
    meaning: str
    """What the program found, one sentence."""
    causes: tuple[tuple[str, str], ...]
    """(code of the check that finds it, what happened); the code is empty for what no check looks at."""
    commands: tuple[str, ...] = ("envdoctor check",)
    """What finds out which cause it is; none where no command can."""


@frozen
class FoundSymptom:
    """A known text in what somebody asked about."""

    text: str
    """The symptom's own text."""
    seen: str
    """The words that were recognized."""
    line: int
    """Line of the first place, from 1."""
    times: int
    """How many lines have it; they are counted to 1000."""
    meaning: str
    causes: tuple[tuple[str, str, str], ...]
    """(code, name of the check, what happened); code and name are empty for what no check looks at."""
    commands: tuple[str, ...]


@frozen
class Recognized:
    """Every known text in what somebody asked about, in the order of their first places."""

    source: str
    """Path of the log; "-" for standard input; empty for words of the command line."""
    left_out: int
    """Bytes at the start of the log that were not read."""
    found: tuple[FoundSymptom, ...]
