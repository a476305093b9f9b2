"""Code that runs at every start of the interpreter: .pth imports, sitecustomize, usercustomize. Read, never run."""

import base64
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen, mutable
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.records import index
from envdoctor.probes.venv.search_path import MAXIMUM_PTHS, PathEntry, SearchPath, read_pth, standard_library
from envdoctor.probes.venv.startup_ends import End, end_of_line, end_of_module

_LONGEST = 20_000
_MAXIMUM = 1024 * 1024


@frozen
class Hook:
    """One file that runs code at start-up."""

    path: str
    lines: tuple[str, ...]
    """The import lines of a .pth file; empty for a customize module."""
    owner: str
    """Owning distribution, or empty."""
    origin: str
    """Why its folder is on sys.path."""
    end: End | None = None
    """Where it certainly ends every start, if it does."""
    published: bool = False
    """The file of that statement is as its owner's RECORD has it."""


@frozen
class StartupHooks:
    """All start-up hooks on sys.path."""

    hooks: tuple[Hook, ...]


def probe(reading: Reading) -> StartupHooks:
    """List .pth files with import lines in site folders, and the customize modules that a start finds."""
    return StartupHooks(hooks=tuple(_Looking(reading=reading, entries=reading.fact(SearchPath).entries).hooks()))


@mutable
class _Looking:
    reading: Reading
    entries: Sequence[PathEntry]
    left: int = MAXIMUM_PTHS
    """Bytes of .pth files that are still read."""

    def hooks(self) -> Iterator[Hook]:
        for entry in self.entries:
            if entry.origin not in ("standard library", "PYTHONPATH"):
                names = sorted(name for name in os.listdir(entry.path) if name.endswith(".pth"))  # noqa: PTH208 - names
                yield from filter(None, (self._pth(Path(entry.path, name), entry.origin) for name in names))
        for module in ("sitecustomize", *(["usercustomize"] if user_site(self.reading) else [])):
            yield from self._customize(module)

    def _pth(self, path: Path, origin: str) -> Hook | None:
        try:
            lines, size, _ = read_pth(path, standard_library(self.reading.fact(Interpreter)))
        except OSError:
            return None  # SearchPath says it
        if size > self.left:
            return None  # as above
        self.left -= size
        code = tuple(line for line in lines if line.startswith(("import ", "import\t")))
        ends = (end_of_line(line, str(path), self._folders(), self._standard) for line in code)
        # At an exception site.py leaves the rest of the file out.
        end = next((end for end in ends if end is not None), None)
        return self._hook(path, tuple(line[:_LONGEST] for line in code), origin, end) if code else None

    def _customize(self, module: str) -> Iterator[Hook]:
        """Yield the first of sys.path, which is the one that an import finds."""
        for entry in self.entries:
            for path in (Path(entry.path, module, "__init__.py"), Path(entry.path, f"{module}.py")):
                if path.is_file():
                    end = end_of_module(str(path), self._folders(), self._standard)
                    yield self._hook(path, (), entry.origin, end)
                    return

    def _hook(self, path: Path, lines: tuple[str, ...], origin: str, end: object) -> Hook:
        at = index(self.reading).owner_of(str(path))
        stops = end if isinstance(end, End) else None
        return Hook(
            path=str(path),
            lines=lines,
            owner="" if at is None else self.reading.fact(Distributions).items[at].name,
            origin=origin,
            end=stops,
            published=stops is not None and self._published(stops.path),
        )

    def _folders(self) -> list[str]:
        return [entry.path for entry in self.entries if entry.origin != "standard library"]

    def _standard(self, name: str) -> bool:
        if name in sys.stdlib_module_names:
            return True
        folders = (entry.path for entry in self.entries if entry.origin == "standard library")
        return any(os.path.exists(f"{folder}/{name}{end}") for folder in folders for end in ("", ".py"))  # noqa: PTH110

    def _published(self, path: str) -> bool:
        import hashlib  # noqa: PLC0415 - it loads OpenSSL, and few start-up hooks end a start

        at = index(self.reading).owner_of(path)
        if at is None:
            return False
        site = self.reading.fact(Distributions).items[at].site
        recorded = [row[1] for row in index(self.reading).rows[at] if f"{site}/{row[0]}" == path]
        digest = hashlib.sha256(read_regular(path, _MAXIMUM)).digest()
        return recorded == ["sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("=")]


def user_site(reading: Reading) -> bool:
    """Tell whether Python looks into the user site, and for usercustomize: site.ENABLE_USER_SITE."""
    return reading.fact(Interpreter).system_site_packages and not reading.host.environ.get("PYTHONNOUSERSITE")
