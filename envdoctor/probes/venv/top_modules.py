"""The top-level modules and packages of site folders, by their names and files alone."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_OF_STARTS = frozenset({"_virtualenv", "sitecustomize", "usercustomize"})


def modules_in(sites: Iterable[str]) -> Iterator[str]:
    """Yield the top-level modules and packages of site folders; what a tool or its user adds to every start is none."""
    for name, path in ((name, Path(site, name)) for site in sites for name in sorted(os.listdir(site))):  # noqa: PTH208
        stem, _, end = name.partition(".")
        is_file = end and name.endswith((".py", ".so"))
        if stem.isidentifier() and stem not in _OF_STARTS and (is_file or (path / "__init__.py").is_file()):
            yield stem
