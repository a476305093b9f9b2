"""Time `check` of this envdoctor beside another release's, as whole processes in turn.

    python benchmarks/check_against_release.py OLD/bin/envdoctor NEW/bin/envdoctor VENV [VENV ...] [--pairs 15]
        [--gate PROFILE]

Each executable gets a cache folder of its own and two runs that fill it; then old and new run in turn, and every second
pair begins with the new one. Prints each pair, and for each venv the medians, and the median ratio within a pair:
on a machine that does other work the ratios hold where the seconds do not.

With --gate, VENV's own Python calls `gate.require(PROFILE)` of the two checkouts in whose venvs the executables are
(CHECKOUT/.venv/bin/envdoctor), in place of `check`, whose runs fill the memos.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GATE = "import sys; sys.path.insert(0, {root!r}); from envdoctor import gate; gate.require({profile!r})"


def run(executable: str, venv: str, cache: Path, gate: str = "") -> tuple[float, float]:
    """Return (processor seconds, seconds by the clock) of one check or gate. Exits where it could not be done."""
    command = [executable, "check", venv]
    if gate:
        root = str(Path(executable).parent.parent.parent)
        command = [f"{venv}/bin/python", "-c", GATE.format(root=root, profile=gate)]
    # A check starts from bytecode; a variable that forbids it would have both compile themselves in every run.
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ENVDOCTOR_"))}
    environ["XDG_CACHE_HOME"] = str(cache)
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env=environ, cwd=cache.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit(f"error: `{' '.join(command)}` ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - started


def compare(old: str, new: str, venv: str, pairs: int, folder: Path, gate: str) -> None:
    """Print the pairs of one venv and what they come to."""
    caches = {old: folder / "old", new: folder / "new"}
    for executable in (old, new):
        for _ in range(2):
            run(executable, venv, caches[executable])
        if gate:
            run(executable, venv, caches[executable], gate)
    figures: dict[str, list[tuple[float, float]]] = {old: [], new: []}
    print(f"{Path(venv).name}\n  pair   old cpu   new cpu  old wall  new wall")
    for number in range(pairs):
        for executable in (old, new) if number % 2 else (new, old):
            figures[executable].append(run(executable, venv, caches[executable], gate))
        (old_cpu, old_wall), (new_cpu, new_wall) = figures[old][-1], figures[new][-1]
        print(f"  {number + 1:4} {old_cpu:9.3f} {new_cpu:9.3f} {old_wall:9.3f} {new_wall:9.3f}")
    for at, name in enumerate(("processor", "clock")):
        before, after = ([pair[at] for pair in figures[executable]] for executable in (old, new))
        ratios = [second / first for first, second in zip(before, after, strict=True)]
        print(
            f"  {name:9}  old {statistics.median(before):.3f} s (least {min(before):.3f}), "
            f"new {statistics.median(after):.3f} s (least {min(after):.3f}), "
            f"ratio within a pair {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )


def main() -> None:
    """Compare on every venv that was named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", help="the other release's `envdoctor`")
    parser.add_argument("new", help="this release's `envdoctor`")
    parser.add_argument("venvs", nargs="+", metavar="VENV")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--gate", metavar="PROFILE", default="", help="time the gate, not `check`")
    asked = parser.parse_args()
    asked.old, asked.new, *asked.venvs = (str(Path(path).absolute()) for path in (asked.old, asked.new, *asked.venvs))
    for executable in (asked.old, asked.new):
        version = subprocess.run([executable, "--version"], capture_output=True, text=True, check=True)
        print(f"{'old' if executable == asked.old else 'new'}: {version.stdout.strip()}")
    with tempfile.TemporaryDirectory() as folder:
        for venv in asked.venvs:
            compare(asked.old, asked.new, venv, asked.pairs, Path(folder), asked.gate)


if __name__ == "__main__":
    main()
