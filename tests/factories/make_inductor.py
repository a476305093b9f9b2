"""Real inductor for tests: one process that has torch loaded and forks a child for every run."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_CHILD = Path(__file__).with_name("inductor_child.py")


class Inductor:
    """Compiles small functions in child processes and reports torch's own counters."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Wait until torch is loaded."""
        self._process = process
        self.torch_key: str = self._answer()["torch_key"]

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process that has torch loaded ended with {self._process.poll()}"
        return json.loads(line)

    def ask(self, cache: Path, *functions: str, **request: Any) -> None:
        """Start runs without waiting for them; `answers` returns what they counted."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"cache": str(cache), "functions": functions, **request}) + "\n")
        self._process.stdin.flush()

    def answers(self) -> list[dict[str, Any]]:
        """Return the counters of every process of the last request."""
        found: list[dict[str, Any]] = self._answer()
        return found

    def run(self, cache: Path, *functions: str, **request: Any) -> dict[str, Any]:
        """Compile the functions in one new process and return torch's counters of hits and misses, zeros left out."""
        self.ask(cache, *functions, **request)
        (counted,) = self.answers()
        return {name: number for name, number in counted.items() if name.endswith(("_hit", "_miss")) or name == "error"}


@contextmanager
def inductor() -> Iterator[Inductor]:
    """Start the process; it ends with the test."""
    process = subprocess.Popen([sys.executable, str(_CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Inductor(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        process.wait(60)
