"""Whether a Python file can be parsed at all."""

import sys

from envdoctor.facts.regular_file import read_regular

_MAXIMUM = 128 * 1024
"""Of one file; torch/__init__.py has 100 kB. 100 kB of `a;` take 64 MB."""
_MOST = 20


def unparsable(paths: list[str], minor: str) -> set[str]:
    """Return those of these Python files, of the first few, that no Python parses: a cut file, or one full of zeros.

    minor: the environment's Python, "3.12". Nothing is said of a newer one's files, which may be in a newer syntax than
    this Python knows, and nothing of large files.
    """
    if tuple(map(int, minor.split("."))) > sys.version_info[:2]:
        return set()
    import warnings  # noqa: PLC0415 - a healthy environment has no file to parse

    with warnings.catch_warnings():
        # Of an unknown escape, which the file's own Python says when it is imported.
        warnings.simplefilter("ignore")
        return {path for path in paths[:_MOST] if not _parses(path)}


def _parses(path: str) -> bool:
    import symtable  # noqa: PLC0415 - the compiler's first half: parses, and makes no Python object of each node

    try:
        symtable.symtable(read_regular(path, _MAXIMUM), path, "exec")  # type: ignore[arg-type]  # bytes too
    except (SyntaxError, ValueError):
        return False
    except (OSError, RecursionError, MemoryError):
        return True  # not known
    return True
