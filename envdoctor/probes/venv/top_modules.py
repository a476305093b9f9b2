"""The top-level modules and packages of site folders, by their names and files alone."""

import os
from collections.abc import Iterable, Iterator

_OF_STARTS = frozenset({"_virtualenv", "sitecustomize", "usercustomize"})


def modules_in(sites: Iterable[str]) -> Iterator[str]:
    """Yield the top-level modules and packages of site folders; what a tool or its user adds to every start is none.

    What this user may not look into is passed over.
    """
    for name, path in ((name, f"{site}/{name}") for site in sites for name in _listed(site)):
        stem, _, end = name.partition(".")
        is_file = end and name.endswith((".py", ".so"))
        if stem.isidentifier() and stem not in _OF_STARTS and (is_file or os.path.isfile(f"{path}/__init__.py")):  # noqa: PTH113 - never raises
            yield stem


def _listed(site: str) -> list[str]:
    try:
        return sorted(os.listdir(site))  # noqa: PTH208 - names only
    except OSError:
        return []
