"""`envdoctor restore` beside a fresh `uv venv` and `uv pip sync` of the same lock: wall time, in one run, interleaved.

    python benchmarks/restore_speed.py PROFILE [--rounds N] [--incident] [--cold] [--folder DIR] [--python PYTHON]

The restore replaces the venv of the round before, as a user's does; with --incident that venv has first received the
CUDA 13 wheels that broke a CUDA 12 stack. Its phases are its own figures: "before verification" is the whole process
less the phase that hashes every file, which uv has no counterpart for.

Warm: the first, unmeasured round of each fills uv's cache and the page cache; uv then runs with --offline --no-deps
--require-hashes, which is as fast as it gets and does not verify installed files. Cold: each starts with an empty uv
cache of its own and fetches every wheel; who goes first alternates. DIR must lie on the file system of uv's cache, or
uv copies instead of linking.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

from envdoctor.documents import profile_store

# The CUDA 13 builds that torch 2.11.0 pins, which write the paths of their CUDA 12 siblings.
INCIDENT = (
    "nvidia-cudnn-cu13==9.19.0.56",
    "nvidia-cusparselt-cu13==0.8.0",
    "nvidia-nccl-cu13==2.28.9",
    "nvidia-nvshmem-cu13==3.4.5",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What is measured, and where."""

    folder: Path
    lock: Path
    profile: str
    python: str
    incident: bool
    cold: bool

    @property
    def interpreter(self) -> tuple[str, ...]:
        """The option that names the interpreter, for both."""
        return ("--python", self.python) if self.python else ()

    def environment(self, who: str) -> dict[str, str]:
        """Return the variables to run with; cold, an empty cache of its own."""
        environ = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
        if not self.cold:
            return environ
        cache = self.folder / f"cache-{who}"
        shutil.rmtree(cache, ignore_errors=True)
        return {**environ, "UV_CACHE_DIR": str(cache)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: seconds of both."""

    uv: float
    restore: float
    phases: dict[str, float]

    @property
    def before_verification(self) -> float:
        """Return the restore's wall time less the hashing."""
        return self.restore - self.phases["verify"]


def main() -> int:
    """Print a table and the two ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--incident", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--python", default="")
    options = parser.parse_args()
    file = profile_store.find(options.profile, Path.cwd())
    with tempfile.TemporaryDirectory(prefix="restore-speed-", dir=options.folder) as name:
        bench = Bench(
            folder=Path(name),
            lock=file.lock_path,
            profile=options.profile,
            python=options.python,
            incident=options.incident,
            cold=options.cold,
        )
        if not bench.cold:
            with_uv(bench, online=True)
            with_envdoctor(bench)
        rounds = [one_round(bench, number) for number in range(options.rounds)]
    show(bench, rounds)
    return 0


def one_round(bench: Bench, number: int) -> Round:
    """Make the venv with uv and restore over the other one; every other round the restore goes first."""
    if number % 2:
        restored, phases = with_envdoctor(bench)
        return Round(uv=with_uv(bench), restore=restored, phases=phases)
    plain = with_uv(bench)
    restored, phases = with_envdoctor(bench)
    return Round(uv=plain, restore=restored, phases=phases)


def with_uv(bench: Bench, *, online: bool = False) -> float:
    """Make a fresh venv with uv; return the seconds."""
    fresh = bench.folder / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    environ = bench.environment("uv")
    uv = find_uv_bin()
    sync = ("--require-hashes", "--python", fresh / "bin" / "python", "--index-strategy", "unsafe-best-match")
    offline = () if online or bench.cold else ("--offline",)
    began = time.monotonic()
    run(environ, uv, "venv", "--quiet", "--no-project", *bench.interpreter, fresh)
    run(environ, uv, "pip", "sync", "--quiet", *sync, *offline, bench.lock)
    return time.monotonic() - began


def with_envdoctor(bench: Bench) -> tuple[float, dict[str, float]]:
    """Restore over the venv of the round before; return the seconds, whole and by phase."""
    venv = bench.folder / "venv"
    if bench.incident and venv.exists():
        environ = dict(os.environ)
        run(environ, find_uv_bin(), "pip", "install", "--no-deps", "--python", venv / "bin" / "python", *INCIDENT)
    environ = bench.environment("envdoctor")
    command = ("restore", "--profile", bench.profile, "--venv", venv, "--yes", "--force", "--json")
    began = time.monotonic()
    told = run(environ, sys.executable, "-m", "envdoctor", *command, *bench.interpreter)
    seconds = time.monotonic() - began
    run(environ, sys.executable, "-m", "envdoctor", "prune", "--keep", "0", "--venv", venv, "--yes")
    return seconds, json.loads(told)["result"]["seconds"]


def run(environ: Mapping[str, str], *command: str | Path) -> str:
    """Run a command and return its stdout; a failure ends the benchmark with what it said."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=environ)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def show(bench: Bench, rounds: list[Round]) -> None:
    """Print medians."""
    baseline = statistics.median(one.uv for one in rounds)
    whole = statistics.median(one.restore for one in rounds)
    before = statistics.median(one.before_verification for one in rounds)
    what = ", ".join(
        (bench.profile, "cold" if bench.cold else "warm", *(["after the incident"] if bench.incident else []))
    )
    print(f"{what}, {len(rounds)} rounds, medians; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print(f"{'':44} seconds   ratio")
    print(f"{'uv venv + uv pip sync':44} {baseline:7.2f}    1.00")
    print(f"{'envdoctor restore, before verification':44} {before:7.2f}  {before / baseline:6.2f}")
    print(f"{'envdoctor restore, every file verified':44} {whole:7.2f}  {whole / baseline:6.2f}")
    named = [name for name in rounds[0].phases if name != "verify"]
    phases = {name: statistics.median(one.phases[name] for one in rounds) for name in [*named, "verify"]}
    rest = whole - sum(phases.values())
    print(
        f"\nof which: start and plan {rest:.2f}, " + ", ".join(f"{name} {value:.2f}" for name, value in phases.items())
    )
    print("each round: " + "; ".join(f"{one.uv:.2f}, {one.before_verification:.2f}" for one in rounds))


if __name__ == "__main__":
    sys.exit(main())
