"""1,000 simulated nodes: their answers read as they come from nodes, compared, and drawn.

    python3 benchmarks/fleet_nodes.py [--nodes 1000] [--venv VENV]

Each node's answer is the real one of a venv under another name. One in a hundred has another package, another variable,
or no answer, one in two hundred a damaged file. Times are of this process, by the clock and its processor.
"""

# ruff: noqa: E402 - the repository root comes onto sys.path first
import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from envdoctor.app.result import Result
from envdoctor.fleet.answer import MARK, NodeReport, answer_in
from envdoctor.fleet.matrix import beside_each_other
from envdoctor.gate_package.single_file import program
from envdoctor.report.commands import fleet_check
from envdoctor.report.formats import html
from envdoctor.report.formats.of_fleet import outline
from envdoctor.report.rendering import document_of
from envdoctor.report.style import Style


def answers(venv: Path, nodes: int) -> list[bytes]:
    """Return what so many nodes would send."""
    command = [sys.executable, "-I", "-S", "-c", "import sys; exec(sys.stdin.buffer.read())", "m", str(venv)]
    out = subprocess.run(command, input=program("fleet.node").encode(), capture_output=True, check=True).stdout
    told = json.loads(out.split(b"\n", 2)[2])
    package = next(fact for fact in told["sheet"]["facts"] if fact.startswith("package "))
    found = []
    for number in range(nodes):
        facts = dict(told["sheet"]["facts"])
        findings = list(told["findings"])
        if number % 100 == 3:
            facts[package] = "0.0.1 (another)"
        if number % 100 == 5:
            facts["variable NCCL_ALGO"] = "Tree"
        if number % 200 == 7:
            findings.append(
                {"code": "ED207", "severity": "error", "title": "a file is altered", "subject": "x", "commands": []}
            )
        sheet = {**told["sheet"], "facts": facts}
        text = json.dumps({**told, "host": f"n{number}", "sheet": sheet, "findings": findings})
        found.append(f"\n{MARK} m {len(text.encode())}\n{text}\n".encode() if number % 100 != 9 else b"")
    return found


def timed(name: str, work: Callable[[], Any]) -> Any:
    """Do some work and print what it took."""
    clock, processor = time.perf_counter(), time.process_time()
    done = work()
    took = time.perf_counter() - clock, time.process_time() - processor
    print(f"{name:<24} {took[0]:6.2f} s by the clock, {took[1]:6.2f} s of the processor")
    return done


def main() -> None:
    """Simulate, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--venv", type=Path, default=Path(sys.prefix))
    options = parser.parse_args()
    sent = answers(options.venv, options.nodes)
    print(f"{options.nodes} nodes, {sum(map(len, sent)) / 1e6:.1f} MB of answers")
    begun = time.perf_counter(), time.process_time()
    reports: list[NodeReport] = timed(
        "answers read", lambda: [answer_in(f"n{number}", "m", out) for number, out in enumerate(sent)]
    )
    view = timed("compared", lambda: beside_each_other("slurm", reports))
    result = Result(command="fleet check", data=view)
    document = timed("document", lambda: document_of(result))
    page = timed("page", lambda: html.render(outline(document), document))
    text = timed("text", lambda: fleet_check.text(view, Style()))
    total = time.perf_counter() - begun[0], time.process_time() - begun[1]
    print(f"{'all of it':<24} {total[0]:6.2f} s by the clock, {total[1]:6.2f} s of the processor")
    print(f"page {len(page) / 1e6:.1f} MB, text {text.count(chr(10))} lines: {fleet_check.conclusion(view)}")


if __name__ == "__main__":
    main()
