"""Several workers at once, each a process with a folder of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.closure.law import Outcome
from tests.closure.stock import make_stock
from tests.factories.run_envdoctor import ROOT


def judge_all(states: Sequence[str], folder: Path, workers: int = 0) -> Iterator[Outcome]:
    """Judge every state and yield the outcomes as they come; the order is the workers'."""
    make_stock(folder / "stock")
    crew = [
        _hire(folder, number, part)
        for number, part in enumerate(_shares(states, workers or min(4, os.cpu_count() or 1)))
    ]
    for worker in crew:
        assert worker.stdout is not None
        for line in worker.stdout:
            yield Outcome(**json.loads(line))
        if worker.wait():
            raise RuntimeError(f"a worker ended with {worker.returncode}")


def _shares(states: Sequence[str], workers: int) -> list[Sequence[str]]:
    return [part for number in range(workers) if (part := states[number::workers])]


def _hire(folder: Path, number: int, states: Sequence[str]) -> "subprocess.Popen[str]":
    names = folder / f"states-{number}.txt"
    names.write_text("".join(f"{state}\n" for state in states))
    with names.open() as source:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.closure.worker", folder / str(number), folder / "stock" / "wheels"],
            stdin=source,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
