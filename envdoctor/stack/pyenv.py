"""pyenv's interpreters and the choice among them, as its README has it ("Understanding Python version selection")."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from envdoctor.facts.pyenv import chosen, installed
from envdoctor.model.frozen import frozen


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
        names, _ = chosen(self.root, self.environment, self.cwd)
        folders = [folder for name in names if (folder := installed(self.root / "versions", name))]
        return [folder for folder in folders if f"{folder.name}.".startswith(f"{minor}.")]


def newest_first(folder: Path, pattern: str) -> list[Path]:
    """Return what is in a folder under a name that matches, by the numbers in the name."""

    def numbers(path: Path) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", path.name)]

    return sorted(folder.glob(pattern), key=numbers, reverse=True)
