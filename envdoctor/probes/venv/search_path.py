"""sys.path as this interpreter would build it, without starting it."""

import os
import stat
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import field, frozen, mutable
from envdoctor.probes.venv.base_python import platform_library
from envdoctor.probes.venv.interpreter import Interpreter

_MAXIMUM_PTH = 256 * 1024
MAXIMUM_PTHS = 1024 * 1024
"""Bytes of all .pth files together."""


@frozen
class PathEntry:
    """One folder of sys.path and why it is there."""

    path: str
    origin: str
    """PYTHONPATH, standard library, site-packages, user site, base site-packages, or the .pth file that adds it."""
    pth: str = ""
    """Path of that .pth file, and the line in it, without blanks at its end and without a byte order mark."""
    line: str = ""


@frozen
class SearchPath:
    """Folders in the order Python looks through them; the script's own folder, which comes first, is not known here."""

    entries: tuple[PathEntry, ...]
    unreadable: tuple[str, ...] = ()
    """.pth files that could not be read, each with its reason: Python stops, or waits for ever, at some of them."""
    fatal: tuple[str, ...] = ()
    """.pth files at which this Python stops when it starts, since they are not text in UTF-8."""

    @property
    def site_dirs(self) -> tuple[PathEntry, ...]:
        """Return the entries that can hold distributions: all but the standard library."""
        return tuple(entry for entry in self.entries if entry.origin != "standard library")


def probe(reading: Reading) -> SearchPath:
    """Follow site.py: PYTHONPATH, standard library, venv, user site (not in an isolated venv), base, .pth folders."""
    python = reading.fact(Interpreter)
    environ = reading.host.environ
    base, standard = Path(python.base), standard_library(python)
    made = _Path(standard=standard, here=reading.target.here, there=reading.target.there)
    for item in environ.get("PYTHONPATH", "").split(os.pathsep) if environ.get("PYTHONPATH") else []:
        # An empty element means the current folder, as it does for every PATH-like variable.
        made.add(reading.host.cwd / item, "PYTHONPATH")
    made.add(standard, "standard library")
    made.add(standard / "lib-dynload", "standard library")
    # A build's sys.platlibdir comes first; a lib64 beside it is looked into by no build that does not name it.
    libraries = ("lib64", "lib") if standard.parent.name == "lib64" else ("lib",)
    own = (_prefix_sites(reading.target.prefix, python, libraries), "site-packages")
    user = (_user_sites(reading.host, python), "user site")
    # site.py adds a venv's own folder before the user's, an ordinary interpreter's after it.
    for folders, origin in (own, user) if python.is_venv else (user, own):
        made.add_sites(folders, origin)
    if python.is_venv and python.system_site_packages:
        made.add_sites(_prefix_sites(base, python, libraries), "base site-packages")
    return SearchPath(entries=tuple(made.entries), unreadable=tuple(made.unreadable), fatal=tuple(made.fatal))


def _user_sites(host: Host, python: Interpreter) -> list[Path]:
    if not python.system_site_packages or host.environ.get("PYTHONNOUSERSITE"):
        return []
    base = Path(host.environ.get("PYTHONUSERBASE") or host.home / ".local")
    return [base / "lib" / python.folder / "site-packages"]


def _prefix_sites(prefix: Path, python: Interpreter, libraries: tuple[str, ...]) -> list[Path]:
    places = [prefix / folder / python.folder / "site-packages" for folder in libraries]
    # Debian's system Python reads dist-packages instead; a venv never does.
    debian = [
        prefix / "local" / "lib" / python.folder / "dist-packages",
        prefix / "lib" / "python3" / "dist-packages",
    ]
    return [*places, *(debian if str(prefix) == "/usr" else [])]


@mutable
class _Path:
    """sys.path under construction."""

    standard: Path
    """The standard library's folder."""
    here: Callable[[Path], Path]
    """Where a folder that a .pth file names is found now."""
    there: Callable[[Path], Path]
    """Where a site folder is or will be: relative lines start from it."""
    entries: list[PathEntry] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    fatal: list[str] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    """Device and inode of each entry."""
    left: int = MAXIMUM_PTHS

    def add(self, folder: Path, origin: str, pth: str = "", line: str = "") -> bool:
        """Add a folder that exists and is not there yet; tell whether it was added."""
        try:
            status = folder.stat()
            # By what it is, whatever it is called: comparing each with each takes minutes for some thousand lines.
            if not stat.S_ISDIR(status.st_mode) or (status.st_dev, status.st_ino) in self.seen:
                return False
            # The environment's own packages are another matter: without them nothing can be told.
            if origin != "site-packages" and not os.access(folder, os.R_OK | os.X_OK):
                self.unreadable.append(f"{folder} ({origin}): Permission denied; Python passes over it")
                return False
        except (OSError, ValueError):
            return False  # a line of a .pth file that is not a path: Python finds nothing there either
        self.seen.add((status.st_dev, status.st_ino))
        self.entries.append(PathEntry(path=str(folder), origin=origin, pth=pth, line=line))
        return True

    def add_sites(self, folders: list[Path], origin: str) -> None:
        """Add site folders and what their .pth files name."""
        for folder in folders:
            if not self.add(folder, origin):
                continue
            for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names only, and fast
                if name.endswith(".pth") and not name.startswith("."):
                    self._add_lines(folder, name)

    def _add_lines(self, folder: Path, name: str) -> None:
        try:
            lines, size, is_text = read_pth(folder / name, self.standard)
            if size > self.left:
                self.unreadable.append(f"{folder / name}: not read, the .pth files have more than {MAXIMUM_PTHS} bytes")
                return
            self.left -= size
            if not is_text:
                self.fatal.append(str(folder / name))
        except OSError as error:
            self.unreadable.append(f"{folder / name}: {error.strerror or error}")
            return
        for line in lines:
            if not line.startswith(("import ", "import\t", "#")):
                # As site.py has it: `..` is taken off the text, whatever links there are.
                added = Path(os.path.abspath(self.there(folder) / line))  # noqa: PTH100
                self.add(self.here(added), name, str(folder / name), line)


def standard_library(python: Interpreter) -> Path:
    """Return the folder of this interpreter's standard library."""
    return platform_library(Path(python.base), python.folder)


def read_pth(path: Path, standard: Path) -> tuple[list[str], int, bool]:
    """Return the non-empty lines of a .pth file, its bytes, and whether all of it is text in UTF-8.

    standard: the standard library's folder. Its site.py takes a byte order mark off, or for a part of the first line.
    Raises OSError for what is no regular file or unreadable.
    """
    data = read_regular(path, _MAXIMUM_PTH)
    if data.startswith(BOM_UTF8) and b"utf-8-sig" in read_regular(standard / "site.py", _MAXIMUM_PTH):
        data = data.removeprefix(BOM_UTF8)
    text = data.decode("utf-8", "surrogateescape")
    is_text = not any("\udc80" <= sign <= "\udcff" for sign in text)
    return [line.rstrip() for line in text.splitlines() if line.strip() and "\0" not in line], len(data), is_text
