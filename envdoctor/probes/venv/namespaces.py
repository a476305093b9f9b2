"""Folders that several distributions share as a namespace package, known by the `__init__.py` they all bring."""

import os
from collections.abc import Sequence

from envdoctor.catalog.shared_paths import NAMESPACES
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.pattern import pattern

_MAXIMUM = 64 * 1024
_STRING = pattern(rb"(\"\"\"|''')(?:.|\n)*?\1")
# The two older kinds of namespace packages (packaging.python.org, "Packaging namespace packages").
_EXTENDS = pattern(
    rb"(?:try:|except (?:ImportError|ModuleNotFoundError):|pass|import pkgutil|import pkg_resources"
    rb"|from pkgutil import extend_path|__path__ ?= ?(?:pkgutil\.|__import__\(.pkgutil.\)\.)?extend_path\(.*\)"
    rb"|(?:__import__\(.pkg_resources.\)|pkg_resources)\.declare_namespace\(__name__\))"
)


def is_namespace(path: str, sizes: Sequence[int]) -> bool:
    """Tell whether an `__init__.py` on disk does nothing of its own, and nothing else is known of its other owners.

    `sizes` are what their RECORDs state. What is not empty and not on disk cannot be read: it is taken for a namespace
    where the folder is known to be one.
    """
    try:
        text = read_regular(path, _MAXIMUM)
    except OSError:
        return False
    if not extends_only(text):
        return False
    others = [size for size in sizes if size not in (0, len(text))]
    return not others or os.path.basename(os.path.dirname(path)) in NAMESPACES  # noqa: PTH119, PTH120 - string paths


def extends_only(text: bytes) -> bool:
    """Tell whether the source of a module is empty, or only comments, docstrings and an extension of `__path__`."""
    lines = (line.partition(b"#")[0].strip() for line in _STRING.sub(b"", text).splitlines())
    return all(_EXTENDS.fullmatch(line) for line in lines if line)
