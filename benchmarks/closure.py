"""The law of closure at length: thousands of states of two faults each, failures by kind.

    python benchmarks/closure.py --states 3000 --seed 1 [--folder DIR] [--workers N]

Each state is a real venv in which two things happened (tests/closure/faults.py). What `envdoctor check` prints is
obeyed in a shell, and it is checked again; tests/closure/law.py says what may not happen.
"""

import argparse
import collections
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.closure.crew import judge_all  # noqa: E402 - after the path that leads to it
from tests.closure.law import Outcome  # noqa: E402 - the same
from tests.closure.states import pairs, singles  # noqa: E402 - the same


def main() -> None:
    """Judge the states, print each that breaks the law, and count by kind."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--states", type=int, default=3000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument(
        "--folder", type=Path, default=None, help="where the venvs are made (default: a temporary one)"
    )
    options.add_argument("--workers", type=int, default=0)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        # The fresh combinations first: `make test` obeys the single faults at every change.
        one = ["", *singles()]
        states = [*pairs(max(0, chosen.states - len(one)), chosen.seed), *one][: chosen.states]
        _report(states, Path(folder), chosen.workers)


def _report(states: list[str], folder: Path, workers: int) -> None:
    started, count, excluded = time.monotonic(), 0, 0
    kinds: collections.Counter[str] = collections.Counter()
    for outcome in judge_all(states, folder, workers):
        count += 1
        excluded += not outcome.made
        for failure in outcome.failures:
            kinds[failure.partition(":")[0]] += 1
        if outcome.failures:
            _show(outcome)
        if count % 100 == 0:
            print(
                f"... {count} of {len(states)} states, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True
            )
    bad = sum(kinds.values())
    seconds = time.monotonic() - started
    print(f"{count - excluded} states, {bad} failures, {seconds:.0f} s; {excluded} more exclude each other")
    for kind, number in kinds.most_common():
        print(f"  {number:5d}  {kind}")
    sys.exit(bool(bad))


def _show(outcome: Outcome) -> None:
    print(f"== {outcome.state}")
    for line in outcome.failures:
        print(f"   !! {line}")
    for line in outcome.trace:
        print(f"      {line}")


if __name__ == "__main__":
    main()
