"""Counts in sentences."""


def counted(number: int, noun: str, verb: str = "", plural_verb: str = "") -> str:
    """Return "1 file is" or "3 files are" for ("file", "is", "are"); regular nouns only."""
    words = f"{number} {noun}" if number == 1 else f"{number} {noun}s"
    chosen = verb if number == 1 else plural_verb
    return f"{words} {chosen}" if chosen else words
