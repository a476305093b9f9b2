"""sys.path as this interpreter would build it, without starting it."""

import os
from dataclasses import dataclass
from pathlib import Path

from envdoctor.probes.context import Reading
from envdoctor.probes.host import Host
from envdoctor.probes.interpreter import Interpreter

_MAXIMUM_PTH = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PathEntry:
    """One folder of sys.path and why it is there."""

    path: str
    origin: str
    """PYTHONPATH, standard library, site-packages, user site, base site-packages, or the .pth file that adds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPath:
    """Folders in the order Python looks through them; the script's own folder, which comes first, is not known here."""

    entries: tuple[PathEntry, ...]

    @property
    def site_dirs(self) -> tuple[PathEntry, ...]:
        """Return the entries that can hold distributions: all but the standard library."""
        return tuple(entry for entry in self.entries if entry.origin != "standard library")


def probe(reading: Reading) -> SearchPath:
    """Follow site.py: PYTHONPATH, standard library, venv, user site (not in an isolated venv), base, .pth folders."""
    python = reading.fact(Interpreter)
    environ = reading.host.environ
    entries: list[PathEntry] = []
    for item in environ.get("PYTHONPATH", "").split(os.pathsep) if environ.get("PYTHONPATH") else []:
        # An empty element means the current folder, as it does for every PATH-like variable.
        _add(entries, reading.host.cwd / item, "PYTHONPATH")
    base = Path(python.home).parent if python.home else reading.target.prefix
    standard = base / "lib" / python.folder
    _add(entries, standard, "standard library")
    _add(entries, standard / "lib-dynload", "standard library")
    own = (_prefix_sites(reading.target.prefix, python), "site-packages")
    user = (_user_sites(reading.host, python), "user site")
    # site.py adds a venv's own folder before the user's, an ordinary interpreter's after it.
    for folders, origin in (own, user) if python.is_venv else (user, own):
        _add_sites(entries, folders, origin)
    if python.is_venv and python.system_site_packages:
        _add_sites(entries, _prefix_sites(base, python), "base site-packages")
    return SearchPath(entries=tuple(entries))


def _user_sites(host: Host, python: Interpreter) -> list[Path]:
    if not python.system_site_packages or host.environ.get("PYTHONNOUSERSITE"):
        return []
    base = Path(host.environ.get("PYTHONUSERBASE") or host.home / ".local")
    return [base / "lib" / python.folder / "site-packages"]


def _prefix_sites(prefix: Path, python: Interpreter) -> list[Path]:
    places = [prefix / folder / python.folder / "site-packages" for folder in ("lib", "lib64")]
    # Debian's system Python reads dist-packages instead; a venv never does.
    debian = [
        prefix / "local" / "lib" / python.folder / "dist-packages",
        prefix / "lib" / "python3" / "dist-packages",
    ]
    return [*places, *(debian if str(prefix) == "/usr" else [])]


def _add(entries: list[PathEntry], folder: Path, origin: str) -> bool:
    if not folder.is_dir() or any(_same(folder, Path(entry.path)) for entry in entries):
        return False
    entries.append(PathEntry(path=str(folder), origin=origin))
    return True


def _same(one: Path, other: Path) -> bool:
    return one == other or one.samefile(other)


def _add_sites(entries: list[PathEntry], folders: list[Path], origin: str) -> None:
    for folder in folders:
        if not _add(entries, folder, origin):
            continue
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names only, and fast
            if name.endswith(".pth") and not name.startswith("."):
                for line in pth_lines(folder / name):
                    if not line.startswith(("import ", "import\t", "#")):
                        _add(entries, folder / line, name)


def pth_lines(path: Path) -> list[str]:
    """Return the non-empty lines of a .pth file, as text; a file that is no regular file or not readable has none."""
    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            text = file.read(_MAXIMUM_PTH).decode("utf-8", "replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip() and "\0" not in line]
