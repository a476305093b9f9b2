"""Whether a Python file can be parsed at all."""

from envdoctor.facts.regular_file import read_regular

_MAXIMUM = 1024 * 1024
_MOST = 20


def unparsable(paths: list[str]) -> set[str]:
    """Return those of these Python files that no Python parses, of the first few: a cut file, or one full of zeros."""
    return {path for path in paths[:_MOST] if not _parses(path)}


def _parses(path: str) -> bool:
    import ast  # noqa: PLC0415 - a healthy environment has no file to parse

    try:
        ast.parse(read_regular(path, _MAXIMUM))
    except (SyntaxError, ValueError):
        return False
    except (OSError, RecursionError, MemoryError):
        return True  # not known
    return True
