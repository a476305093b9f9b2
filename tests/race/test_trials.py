"""A few cold trials behind the gate; benchmarks/race_trials.py runs hundreds, and as many without it."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_threads_behind_the_gate_meet_new_shapes_without_a_failure(tmp_path: Path) -> None:
    record = tmp_path / "trials.json"
    done = subprocess.run(
        [sys.executable, "benchmarks/race_trials.py", "--guarded", "2", "--unguarded", "0", "--steps", "30",
         "--workloads", "flex", "--out", str(record)],
        cwd=ROOT, text=True, check=False, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(record.read_text())["results"]["flex, gate"]
    assert {key: found[key] for key in ("trials", "bad", "steps", "errors", "damaged", "mismatches", "demoted")} == {
        "trials": 2, "bad": 0, "steps": 180, "errors": {}, "damaged": 0, "mismatches": 0, "demoted": 0,
    }  # fmt: skip
    # Three threads with shapes of their own, five lengths each: every new step ran alone, once.
    assert found["alone"] == 2 * 3 * 5
