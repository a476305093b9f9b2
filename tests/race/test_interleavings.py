"""The race itself, forced: without the gate it breaks every time, behind it never."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.runtime.compile_state import flag_is_thread_local

ROOT = Path(__file__).resolve().parents[2]
NESTED = "RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized function."
STUCK = ["the FX tracing flag is stuck on", "nn.Module.__call__ is still a tracer's wrapper"]
BROKEN = {"call_during_trace": [], "overlapping_traces": STUCK}


def outcome(name: str, mode: str) -> tuple[list[str], list[str]]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "tests/race/interleave.py", name, mode], cwd=ROOT, text=True, check=False,
        capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return [error[: len(NESTED)] for error in told["errors"]], told["damage"]


@pytest.mark.skipif(flag_is_thread_local(), reason="this torch keeps its tracing flag per thread")
@pytest.mark.parametrize("name", BROKEN)
def test_without_the_gate_the_interleaving_breaks(name: str) -> None:
    errors, damage = outcome(name, "none")
    assert errors[-1:] == [NESTED]
    assert damage == BROKEN[name]


@pytest.mark.parametrize("name", BROKEN)
def test_behind_the_gate_the_same_steps_are_sound(name: str) -> None:
    assert outcome(name, "gate") == ([], [])
