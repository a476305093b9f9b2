"""What a report costs beside the text of the same check: whole processes, one of each format in turn.

    .venv-test/bin/python benchmarks/formats.py VENV [ROUNDS]

Prints the median of each format's processor time over the text's in the same round.
"""

import os
import statistics
import subprocess
import sys

FORMATS = ("text", "json", "markdown", "sarif", "junit", "github", "html", "svg")


def main() -> None:
    """Run the rounds and print a line a format."""
    venv, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 15
    ratios: dict[str, list[float]] = {name: [] for name in FORMATS}
    sizes: dict[str, int] = {}
    for number in range(rounds + 1):
        seconds = {}
        for name in FORMATS:
            before = os.times()
            command = [sys.executable, "-m", "envdoctor", "check", venv, "--format", name]
            sizes[name] = len(subprocess.run(command, capture_output=True, check=False).stdout)
            after = os.times()
            seconds[name] = sum(after[2:4]) - sum(before[2:4])
        if number:  # the first one fills caches
            for name in FORMATS:
                ratios[name].append(seconds[name] / seconds["text"])
    print(f"{'format':10}{'times text':>12}{'bytes':>10}   (median of {rounds} rounds)")
    for name in FORMATS:
        print(f"{name:10}{statistics.median(ratios[name]):12.2f}{sizes[name]:10}")


if __name__ == "__main__":
    main()
