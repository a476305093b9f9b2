"""Counts in sentences."""


def counted(number: int, noun: str, verb: str = "", plural_verb: str = "") -> str:
    """Return "1 file is" or "3 files are" for ("file", "is", "are"); regular nouns only."""
    words = f"{number} {noun}" if number == 1 else f"{number} {noun}s"
    chosen = verb if number == 1 else plural_verb
    return f"{words} {chosen}" if chosen else words


def size(count: int) -> str:
    """Return bytes as people read them: 7.6 GB."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit in ("bytes", "kB") else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
