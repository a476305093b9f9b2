"""Two ends of a bisection and the command line run on them, closed off from the user's caches and sources."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.factories.make_venv import Venv, make_venv
from tests.factories.run_envdoctor import COMMAND, Outcome, environment, run_envdoctor


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """A folder with the venvs `good` and `bad`."""

    root: Path
    good: Venv
    bad: Venv
    more: Mapping[str, str] = field(default_factory=dict)
    """Variables of the command, besides those that close it off."""

    @property
    def work(self) -> Path:
        """Where the bisection works: in the store of the bad end."""
        return self.root / ".envdoctor/bad/bisect"

    @property
    def settings(self) -> dict[str, str]:
        """Return what closes a command off."""
        return {
            "UV_CACHE_DIR": str(self.root / ".uv-cache"),
            "UV_OFFLINE": "1",
            "UV_NO_CONFIG": "1",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.root / "wheels"),
            **self.more,
        }

    def run(self, *words: str | Path) -> Outcome:
        """Run `envdoctor bisect`."""
        return run_envdoctor("bisect", *words, folder=self.root, extra=self.settings)

    def answer(self, *words: str | Path) -> dict[str, Any]:
        """Return the document of `envdoctor bisect`, which must have found something."""
        outcome = self.run("--json", *words)
        assert outcome.code == 0, outcome.err
        document: dict[str, Any] = json.loads(outcome.out)
        return document

    def killed_after(self, lines: int, *words: str | Path) -> int:
        """Run it, and kill it once its journal has that many lines; return its exit code."""
        with subprocess.Popen(
            [*COMMAND, "bisect", *map(str, words)],
            cwd=self.root,
            env=environment(self.root, self.settings),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            while process.poll() is None:
                if self._lines() >= lines:
                    process.send_signal(signal.SIGKILL)
                    break
            return process.wait()

    def _lines(self) -> int:
        try:
            return (self.work / "journal.jsonl").read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0


def make_ends(root: Path, good: Iterable[Path], bad: Iterable[Path]) -> Ends:
    """Make both venvs of these wheels; one uv cache links their files."""
    return Ends(root=root, good=make_venv(root / "good", *good), bad=make_venv(root / "bad", *bad))


def names(document: dict[str, Any]) -> list[list[str]]:
    """Return the names of the causes' changes."""
    return [[change["name"] for change in cause] for cause in document["causes"]]


PYTHON = os.path.realpath(sys.executable)
