"""Ctrl-C and SIGTERM in every phase of a run: a clean end with a word, and the same result afterwards, bit for bit."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer.__main__ import main

STEPS = 6
RUN = [
    "--profile", "cpu-smoke", "--steps", str(STEPS), "--set", "run.save_every=2", "--set", "run.log_every=1",
    "--set", "run.evaluate=2", "--set", "run.evaluate_tokens=8",
    "--set", "data.buckets=[64]", "--set", "data.tokens=128", "--set", "drafter.layers=1",
]  # fmt: skip
BEFORE = "interrupted before the first step; nothing was saved"
KEPT = "interrupted before the first step; the checkpoints before it stay"
STOPPING = "stopping after this step; a second signal ends the run without saving"


@pytest.fixture(scope="module")
def straight(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output of a run that nothing interrupted."""
    output = tmp_path_factory.mktemp("straight") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("ENVDOCTOR_GATE", "off")
        patch.setenv("ENVDOCTOR_GATE_REASON", "trainer tests")
        patch.setenv("ENVDOCTOR_GATE_LOG", str(output.parent / "gate.log"))
        assert main([*RUN, "--quiet", "--output", str(output)]) == 0
    return output


def result(output: Path) -> dict[str, bytes]:
    """Return what a run leaves: its last state and its export."""
    place = output / "checkpoints" / f"step-{STEPS:06d}"
    files = [place / "drafter.safetensors", place / "moments.safetensors", *sorted((output / "drafter").iterdir())]
    return {file.name: file.read_bytes() for file in files}


def interrupting(number: int, calls: int, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return `work` with a signal to this process when it is called for the `calls`th time."""
    left = [calls]

    def interrupted(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), number)
        return work(*arguments, **named)

    return interrupted


# Phase: what is called in it, which call of it is interrupted, the last words, and the checkpoints afterwards.
PHASES = {
    "reading the data": ("trainer.assemble._rows", 1, BEFORE, []),
    "loading the target": ("trainer.assemble.Target.load", 1, BEFORE, []),
    "compiling the target": ("trainer.runtime.inline.warm_target", 1, BEFORE, []),
    "compiling the drafter": ("trainer.runtime.inline.warm_drafter", 1, BEFORE, []),
    "measuring the device": ("trainer.runtime.session.matmul_rate", 1, BEFORE, []),
    "the first step": ("trainer.runtime.loop.Optimizer.step", 1, STOPPING, [2]),
    "a step": ("trainer.runtime.loop.Optimizer.step", 4, STOPPING, [2, 4, 5]),
    "writing a checkpoint": ("trainer.checkpoint._write", 1, STOPPING, [2, 3]),
    "exporting": ("trainer.finalize.export", 1, STOPPING, [2, 4, 6]),
    "evaluating": ("trainer.finalize.SpeculativeDecoder.speculative", 1, STOPPING, [2, 4, 6]),
}  # fmt: skip


@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_in_any_phase_ends_cleanly_and_the_run_goes_on_to_the_same_bits(
    cache: Path, straight: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], phase: str
) -> None:
    number, code = ((signal.SIGTERM, 143), (signal.SIGINT, 130))[list(PHASES).index(phase) % 2]
    assert cache.is_dir()
    where, calls, words, saved = PHASES[phase]
    output = tmp_path / "run"
    module, _, name = where.rpartition(".")
    with pytest.MonkeyPatch.context() as patch:
        owner = _resolve(module)
        # The warm-up's steps run here too; that they are eager changes nothing of how they are interrupted.
        patch.setattr("trainer.runtime.inline.compiles", lambda *_: True)
        patch.setattr(owner, name, interrupting(number, calls, getattr(owner, name)))
        assert main([*RUN, "--output", str(output)]) == code
    told = capfd.readouterr().err
    assert words in told
    assert "Traceback" not in told
    assert sorted(int(place.name[5:]) for place in output.glob("checkpoints/step-*")) == saved
    assert not list(output.glob("checkpoints/.*"))
    again = ["--resume"] if saved else []
    assert main([*RUN, "--quiet", "--output", str(output), *again]) == 0
    assert result(output) == result(straight)
    assert (output / "evaluation.json").is_file()


def _resolve(path: str) -> Any:
    import importlib  # noqa: PLC0415

    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


def test_a_resumed_run_that_is_interrupted_before_its_first_step_keeps_its_checkpoints(
    cache: Path, straight: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cache.is_dir()
    with pytest.MonkeyPatch.context() as patch:
        from trainer.runtime import session  # noqa: PLC0415

        patch.setattr(session, "matmul_rate", interrupting(signal.SIGTERM, 1, session.matmul_rate))
        assert main([*RUN, "--output", str(straight), "--resume"]) == 143
    assert capsys.readouterr().err.splitlines()[-1] == KEPT
    assert (straight / "checkpoints" / f"step-{STEPS:06d}").is_dir()


@pytest.mark.parametrize("runtime", ["threads", "processes", "data-parallel"])
def test_a_signal_before_the_first_step_ends_all_workers(cache: Path, tmp_path: Path, runtime: str) -> None:
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    targets = "1" if runtime == "data-parallel" else "2"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "trainer", *RUN, "--output", str(tmp_path / "run"), "--runtime", runtime,
            "--targets", targets, "--drafters", "2",
        ],
        cwd=Path(__file__).resolve().parents[2], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if line.startswith("loading torch"):
            process.send_signal(signal.SIGTERM)
            break
    _, rest = process.communicate(timeout=180)
    assert (process.returncode, rest.splitlines()[-1]) == (143, BEFORE)
    assert "Traceback" not in rest
    assert not list((tmp_path / "run").glob("checkpoints/*"))
