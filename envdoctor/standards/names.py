"""Distribution names in their normal form, without packaging: its import costs a tenth of a whole check."""

from envdoctor.model.pattern import pattern

_SEPARATORS = pattern(r"[-_.]+")


def normalized(name: str) -> str:
    """Return the name as PEP 503 writes it: lower case, runs of "-", "_" and "." as one "-"."""
    return _SEPARATORS.sub("-", name).lower()
