"""Python files that Debian's own packages installed, against the list that dpkg keeps of each of them."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.search_path import SearchPath

SITE = "/lib/python3/dist-packages"
"""Where dpkg puts them, below /usr; most come without a RECORD."""
METADATA = (".egg-info", ".dist-info")
_LISTS = "var/lib/dpkg/info"
_LONGEST_LIST, _LONGEST_FILE = 4 * 1024 * 1024, 512 * 1024 * 1024


@frozen
class SystemPackage:
    """One package of dpkg's that is not whole."""

    name: str
    missing: tuple[str, ...]
    """Absolute paths."""
    changed: tuple[str, ...]
    """Of other contents; looked at with `deep` only."""
    files: int


@frozen
class SystemPackages:
    """The packages that have files in a dist-packages folder on the search path."""

    on_path: bool
    """There is such a folder; dpkg's lists are read only then."""
    files: int
    """How many of their files were looked at."""
    damaged: tuple[SystemPackage, ...]
    unreadable: tuple[str, ...] = ()
    """Lists and files that could not be read, each with its reason."""
    metadata: tuple[str, ...] = ()
    """Names of the metadata folders that the lists name: the files of these distributions were looked at."""


def probe(reading: Reading) -> SystemPackages:
    """Look for every file that dpkg lists below dist-packages; where the options ask for it, hash them too."""
    site = f"{reading.host.root / 'usr'}{SITE}"
    if not any(_is(entry.path, site) for entry in reading.fact(SearchPath).entries):
        return SystemPackages(on_path=False, files=0, damaged=())
    unreadable: list[str] = []
    metadata: set[str] = set()
    found = [_look(reading, path, unreadable, metadata) for path in _lists(reading.host.root / _LISTS, unreadable)]
    return SystemPackages(
        on_path=True,
        files=sum(package.files for package in found),
        damaged=tuple(package for package in found if package.missing or package.changed),
        unreadable=tuple(unreadable),
        metadata=tuple(sorted(metadata)),
    )


def _is(path: str, site: str) -> bool:
    """Tell whether they are one folder: where /lib is a link to /usr/lib, it has two names."""
    return path.endswith(SITE) and os.path.realpath(path) == os.path.realpath(site)


def _lists(folder: Path, unreadable: list[str]) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names only, and fast
    except FileNotFoundError:
        return []  # an image without dpkg's lists: nothing tells what should be there
    except OSError as error:
        unreadable.append(f"{folder}: {error.strerror}")
        return []
    return [folder / name for name in names if name.startswith("python3-") and name.endswith(".md5sums")]


def _look(reading: Reading, path: Path, unreadable: list[str], metadata: set[str]) -> SystemPackage:
    missing, changed, files = [], [], 0
    for digest, name in _rows(path, unreadable):
        at = reading.host.root / name
        below = name.partition(f"{SITE}/")[2].partition("/")[0]
        if below.endswith(METADATA):
            metadata.add(below)
        try:
            at.lstat()
            same = not reading.options.deep or digest == _md5(at)
        except (FileNotFoundError, NotADirectoryError):
            missing.append(f"/{name}")
        except OSError as error:
            unreadable.append(f"/{name}: {error.strerror}")
            continue
        else:
            changed += [] if same else [f"/{name}"]
        files += 1
    # An architecture is part of the list's name where several may be installed: "python3-cairo:amd64.md5sums".
    name = path.name.removesuffix(".md5sums")
    return SystemPackage(name=name, missing=tuple(missing), changed=tuple(changed), files=files)


def _rows(path: Path, unreadable: list[str]) -> Iterator[tuple[str, str]]:
    try:
        text = read_regular(path, _LONGEST_LIST).decode("utf-8", "replace")
    except OSError as error:
        unreadable.append(f"{path}: {error.strerror}")
        return
    for row in text.splitlines():
        digest, _, name = row.partition("  ")
        if name.lstrip("/").startswith(f"usr{SITE}/") and ".." not in name.split("/") and name.isprintable():
            yield digest, name.lstrip("/")


def _md5(path: Path) -> str:
    return hashlib.md5(read_regular(path, _LONGEST_FILE), usedforsecurity=False).hexdigest()
