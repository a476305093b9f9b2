"""Many race trials, with and without the gate, each in a process of its own that has compiled nothing yet.

    python benchmarks/race_trials.py --guarded 200 --unguarded 20 --out race_trials.json

Trials are forked from a parent that has imported torch and used nothing of it, so that each starts cold without
paying for the import.
"""

# ruff: noqa: E402 - the repository root comes onto sys.path first

import argparse
import collections
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch
import torch._dynamo  # imported once, before the forks; nothing is compiled in this process

from benchmarks.race_workload import WORKERS, run_trial

LIMIT = 600
"""Seconds after which a trial counts as hung."""


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """A trial in a forked child: what it is, and where its fields will come from."""

    workload: str
    guarded: bool
    reader: int


def fork(workload: str, steps: int, *, guarded: bool) -> tuple[int, Running]:
    """Start one trial in a forked child; returns its process id."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        # What a broken trial prints (a segfault's last words, warnings) is not the record.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(LIMIT)
        trial = run_trial(workload, guarded=guarded, steps=steps)
        with os.fdopen(writer, "w") as out:
            json.dump({**dataclasses.asdict(trial), "bad": trial.bad}, out)
        os._exit(0)
    os.close(writer)
    return child, Running(workload, guarded, reader)


def collect(trial: Running, status: int) -> dict[str, Any]:
    """Return an ended trial's fields, or what killed it; a trial's fields fit into the pipe."""
    with os.fdopen(trial.reader) as read:
        told = read.read()
    if told:
        return dict(json.loads(told))
    code = os.waitstatus_to_exitcode(status)
    what = "hung" if code == -signal.SIGALRM else f"ended with {code}"
    return {
        "workload": trial.workload, "guarded": trial.guarded, "bad": True, "errors": [f"process {what}"], "steps": 0,
    }  # fmt: skip


def trials(workload: str, steps: int, count: int, jobs: int, *, guarded: bool) -> Iterator[dict[str, Any]]:
    """Yield the fields of `count` trials as they end, `jobs` of them running at a time."""
    running: dict[int, Running] = {}
    for place in range(count + jobs):
        if place >= jobs and running:
            child, status = os.wait()
            yield collect(running.pop(child), status)
        if place < count:
            child, trial = fork(workload, steps, guarded=guarded)
            running[child] = trial


def summarise(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return counts over trials of one kind."""
    kinds = collections.Counter(error for result in results for error in result["errors"])
    return {
        "trials": len(results), "bad": sum(result["bad"] for result in results),
        "steps": sum(result["steps"] for result in results), "errors": dict(kinds.most_common(6)),
        "damaged": sum(bool(result.get("damage")) for result in results),
        "mismatches": sum(result.get("mismatches", 0) for result in results),
        "alone": sum(result.get("alone", 0) for result in results),
        "demoted": sum(result.get("demoted", 0) for result in results),
    }  # fmt: skip


def main() -> None:
    """Run the trials and write the record as they come."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--guarded", type=int, default=200, help="trials of each workload behind the gate")
    parser.add_argument("--unguarded", type=int, default=20, help="trials of each workload without it")
    parser.add_argument("--steps", type=int, default=60, help="steps of each of the three threads")
    parser.add_argument("--jobs", type=int, default=1, help="trials at a time, each of three threads")
    parser.add_argument("--workloads", default=",".join(WORKERS))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    record: dict[str, Any] = {"torch": torch.__version__, "steps": arguments.steps, "results": {}}
    for workload in arguments.workloads.split(","):
        for guarded, count in ((False, arguments.unguarded), (True, arguments.guarded)):
            name, started, results = f"{workload}, {'gate' if guarded else 'no gate'}", time.monotonic(), []
            for result in trials(workload, arguments.steps, count, arguments.jobs, guarded=guarded):
                results.append(result)
                record["results"][name] = {**summarise(results), "seconds": round(time.monotonic() - started, 1)}
                if arguments.out:
                    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
            if results:
                print(name, json.dumps(record["results"][name]), flush=True)


if __name__ == "__main__":
    main()
