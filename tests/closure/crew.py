"""Several workers at once, each a process with a folder of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Empty, Queue

from tests.closure.law import Outcome
from tests.closure.stock import make_stock
from tests.factories.run_envdoctor import ROOT


def judge_all(states: Sequence[str], folder: Path, workers: int = 0) -> Iterator[Outcome]:
    """Judge every state and yield the outcomes as they come; the order is the workers'."""
    make_stock(folder / "stock")
    shares = _shares(states, workers or min(4, os.cpu_count() or 1))
    lines: Queue[str] = Queue()
    with ThreadPoolExecutor(len(shares)) as crew:
        # Each is listened to by a thread of its own: one whose pipe is full would stand still.
        working = [crew.submit(_work, folder, number, part, lines) for number, part in enumerate(shares)]
        for _ in states:
            yield _next(lines, working)
        for worker in working:
            worker.result()


def _next(lines: "Queue[str]", working: Sequence["Future[None]"]) -> Outcome:
    while True:
        try:
            return Outcome(**json.loads(lines.get(timeout=1)))
        except Empty:
            if all(worker.done() for worker in working) and lines.empty():
                raise RuntimeError("a worker ended before its work was done") from None


def _work(folder: Path, number: int, states: Sequence[str], lines: "Queue[str]") -> None:
    with _hire(folder, number, states) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            lines.put(line)


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
