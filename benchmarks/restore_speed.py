"""`envdoctor restore` beside a fresh `uv venv` and `uv pip sync` of the same lock: wall time, in one run, interleaved.

    python benchmarks/restore_speed.py PROFILE [--rounds N] [--folder DIR] [--python PYTHON]

Warm: the first, unmeasured round of each fills uv's cache and the page cache. uv runs with --offline --no-deps
--require-hashes, which is as fast as it gets and does not verify installed files. The restore replaces the venv of the
round before, as a user's does; its phases are its own figures. "before verification" is the whole process less the
phase that hashes every file, which uv has no counterpart for. DIR must lie on the file system of uv's cache, or uv
copies instead of linking.
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
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

from envdoctor import profile_store


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
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--python", default="")
    options = parser.parse_args()
    file = profile_store.find(options.profile, Path.cwd())
    with tempfile.TemporaryDirectory(prefix="restore-speed-", dir=options.folder) as name:
        folder = Path(name)
        one_round(folder, file.lock_path, options.profile, options.python)
        rounds = [one_round(folder, file.lock_path, options.profile, options.python) for _ in range(options.rounds)]
    show(options.profile, rounds)
    return 0


def one_round(folder: Path, lock: Path, profile: str, python: str) -> Round:
    """Make the venv with uv, then restore over the other one."""
    interpreter = ("--python", python) if python else ()
    fresh = folder / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    uv = find_uv_bin()
    began = time.monotonic()
    run(uv, "venv", "--quiet", "--no-project", *interpreter, fresh)
    sync = ("--offline", "--require-hashes", "--python", fresh / "bin" / "python", "--index-strategy")
    run(uv, "pip", "sync", "--quiet", *sync, "unsafe-best-match", lock)
    between = time.monotonic()
    command = ("restore", "--profile", profile, "--venv", folder / "venv", "--yes", "--force", "--json")
    told = run(sys.executable, "-m", "envdoctor", *command, *interpreter)
    ended = time.monotonic()
    run(sys.executable, "-m", "envdoctor", "prune", "--keep", "0", "--venv", folder / "venv", "--yes")
    phases = json.loads(told)["result"]["seconds"]
    return Round(uv=between - began, restore=ended - between, phases=phases)


def run(*command: str | Path) -> str:
    """Run a command and return its stdout; a failure ends the benchmark with what it said."""
    environ = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=environ)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def show(profile: str, rounds: list[Round]) -> None:
    """Print medians."""
    baseline = statistics.median(one.uv for one in rounds)
    whole = statistics.median(one.restore for one in rounds)
    before = statistics.median(one.before_verification for one in rounds)
    print(f"{profile}, {len(rounds)} rounds, warm, medians; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
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


if __name__ == "__main__":
    sys.exit(main())
