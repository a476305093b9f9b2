"""pyenv's interpreters and the choice among them, as its README has it ("Understanding Python version selection")."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from envdoctor.model.frozen import frozen

_MAXIMUM = 64 * 1024


@frozen
class Pyenv:
    """One installation of pyenv, for a shell in one folder."""

    root: Path
    environment: Mapping[str, str]
    cwd: Path

    def shims(self, folder: str) -> bool:
        """Tell whether a folder on PATH is where its shims are."""
        return os.path.normpath(folder) == os.path.normpath(self.root / "shims")

    def installed(self, pattern: str) -> list[Path]:
        """Return the installed versions whose name matches, the newest first."""
        return newest_first(self.root / "versions", pattern)

    def selected(self, minor: str) -> list[Path]:
        """Return the prefixes that its shim of `python3.12` (minor "3.12") would start, in its order."""
        found: list[Path] = []
        for name in self._names():
            if name == minor:
                found += self.installed(f"{minor}.*")[:1]
            elif name.startswith(f"{minor}."):
                found.append(self.root / "versions" / name)
        return found

    def _names(self) -> list[str]:
        if told := self.environment.get("PYENV_VERSION"):
            return told.split(":")
        for file in self._files():
            try:
                lines = file.read_text(encoding="utf-8", errors="replace")[:_MAXIMUM].splitlines()
            except OSError:
                continue
            names = [line.split("#")[0].strip() for line in lines]
            return [name for line in names for name in line.split() if name]
        return []

    def _files(self) -> Iterator[Path]:
        for folder in (self.cwd, *self.cwd.parents):
            yield folder / ".python-version"
        yield self.root / "version"


def newest_first(folder: Path, pattern: str) -> list[Path]:
    """Return what is in a folder under a name that matches, by the numbers in the name."""

    def numbers(path: Path) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", path.name)]

    return sorted(folder.glob(pattern), key=numbers, reverse=True)
