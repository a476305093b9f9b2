"""The plan of a restore with nothing cached beside uv's own dry run of the same lock: time, CPU time, connections.

    python benchmarks/cold_plan.py PROFILE --python PYTHON [--rounds N] [--folder DIR]

Both find every wheel of the lock on the configured indexes and download none; uv looks at one index page and one
METADATA for each, envdoctor at the page and at the wheel's table of contents, which says whether it may be installed
and how large it is unpacked. Each run has an empty uv cache of its own; who goes first alternates. Connections (TCP, to
a port other than DNS's) are counted in runs of their own, under strace, which slows both.
"""

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

from envdoctor.documents import profile_store

_CONNECT = re.compile(r"connect\(\d+, \{sa_family=AF_INET6?, sin6?_port=htons\((\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run took."""

    code: int
    wall: float
    cpu: float
    """User and system seconds, children included."""


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("--python", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    lock = profile_store.find(options.profile, Path.cwd()).lock_path
    with tempfile.TemporaryDirectory(prefix="cold-plan-", dir=options.folder) as name:
        folder = Path(name)
        uv = [find_uv_bin(), "pip", "install", "--dry-run", "--no-deps", "--no-build", "--require-hashes", "--quiet"]
        uv += ["--requirements", str(lock), "--python", options.python, "--target", str(folder / "empty")]
        restore = [sys.executable, "-m", "envdoctor", "restore", "--dry-run", "--profile", options.profile]
        restore += ["--venv", str(folder / "venv"), "--python", options.python]
        commands = {"uv": uv, "envdoctor": restore}
        rounds = [one_round(commands, folder, number) for number in range(options.rounds)]
        counted = {who: connections(command, folder) for who, command in commands.items()}
    load = os.getloadavg()[0]
    print(f"{options.profile}, nothing cached, {options.rounds} rounds, medians; load {load:.1f}\n")
    print(f"{'':40}{'uv':>9}{'envdoctor':>11}{'ratio':>8}")
    row("wall seconds", rounds, lambda run: run.wall)
    row("processor seconds", rounds, lambda run: run.cpu)
    ratio = counted["envdoctor"] / counted["uv"] if counted["uv"] else float("nan")
    print(f"{'connections':40}{counted['uv']:9}{counted['envdoctor']:11}{ratio:8.2f}")
    failed = {who: sum(run[who].code != 0 for run in rounds) for who in commands}
    print(f"{'runs that failed':40}{failed['uv']:9}{failed['envdoctor']:11}")
    told = (f"{run['uv'].wall:.2f} and {run['envdoctor'].wall:.2f}" for run in rounds)
    print(f"\neach round, wall seconds: {'; '.join(told)}")
    return 0


def one_round(commands: dict[str, list[str]], folder: Path, number: int) -> dict[str, Run]:
    """Run both once; every other round in the other order."""
    order = list(commands)[:: -1 if number % 2 else 1]
    return {who: timed(commands[who], folder) for who in order}


def timed(command: list[str], folder: Path) -> Run:
    """Run a command with an empty uv cache."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, env=environment(folder), capture_output=True, check=False)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(code=done.returncode, wall=wall, cpu=cpu)


def connections(command: list[str], folder: Path) -> int:
    """Return how many TCP connections a command opened, its children's included."""
    log = folder / "strace.txt"
    traced = ["strace", "-f", "-qq", "-e", "trace=connect", "-o", str(log), *command]
    subprocess.run(traced, env=environment(folder), capture_output=True, check=True)
    ports = [int(found[1]) for line in log.read_text().splitlines() if (found := _CONNECT.search(line))]
    # Port 0 and 53: a look at the route, and the resolver.
    return sum(port not in (0, 53) for port in ports)


def environment(folder: Path) -> dict[str, str]:
    """Return the variables to run with, and empty the cache that they name."""
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    return {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_CACHE_DIR": str(cache)}


def row(what: str, rounds: list[dict[str, Run]], value: Callable[[Run], float]) -> None:
    """Print the medians, and the median of the ratios within a round."""
    uv, ours = (statistics.median(value(one[who]) for one in rounds) for who in ("uv", "envdoctor"))
    ratio = statistics.median(value(one["envdoctor"]) / value(one["uv"]) for one in rounds)
    print(f"{what:40}{uv:9.2f}{ours:11.2f}{ratio:8.2f}")


if __name__ == "__main__":
    sys.exit(main())
