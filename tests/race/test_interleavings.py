"""The race itself, forced: without the gate it breaks every time, behind it never."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.compile.state import flag_is_thread_local

ROOT = Path(__file__).resolve().parents[2]
NESTED = "RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized function."
STUCK = ["the FX tracing flag is stuck on", "nn.Module.__call__ is still a tracer's wrapper"]
BROKEN = {"call_during_trace": [], "overlapping_traces": STUCK}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[list[str], list[str]]]:
    """Return the errors and the damage of each interleaving, without the gate and behind it."""
    wanted = [f"{name}-{mode}" for name in BROKEN for mode in ("none", "gate")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "tests/race/interleave.py", *wanted], cwd=ROOT, text=True, check=False,
        capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["name"] for one in told] == wanted, done.stderr
    return {one["name"]: ([error[: len(NESTED)] for error in one["errors"]], one["damage"]) for one in told}


@pytest.mark.skipif(flag_is_thread_local(), reason="this torch keeps its tracing flag per thread")
@pytest.mark.parametrize("name", BROKEN)
def test_without_the_gate_the_interleaving_breaks(outcomes: dict[str, tuple[list[str], list[str]]], name: str) -> None:
    errors, damage = outcomes[f"{name}-none"]
    assert errors[-1:] == [NESTED]
    assert damage == BROKEN[name]


@pytest.mark.parametrize("name", BROKEN)
def test_behind_the_gate_the_same_steps_are_sound(outcomes: dict[str, tuple[list[str], list[str]]], name: str) -> None:
    assert outcomes[f"{name}-gate"] == ([], [])
