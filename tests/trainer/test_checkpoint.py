"""Checkpoints appear whole or not at all, and say what is wrong with one that is damaged or foreign."""

# ruff: noqa: E501 - tables of whole messages

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.factories.small_disk import leave, small_disk
from trainer.errors import CheckpointError
from trainer.saved import checkpoint
from trainer.saved.checkpoint import Checkpoint

ROOT = Path(__file__).resolve().parents[2]


def made(step: int, fill: float = 0.0) -> Checkpoint:
    return Checkpoint(
        step=step, batches=2 * step, optimizer_steps=step, identity={"seed": 1, "buckets": [8, 16]},
        masters={"fc.weight": torch.full((3, 2), fill)}, moments={"exp_avg.fc.weight": torch.full((3, 2), fill + 1)},
    )  # fmt: skip


def test_what_was_saved_is_loaded_and_older_ones_go(tmp_path: Path) -> None:
    for step in (10, 20, 30, 40):
        checkpoint.save(tmp_path, made(step, step), keep=1)
    assert checkpoint.steps(tmp_path) == [30, 40]
    newest, older = checkpoint.find(tmp_path).load(), checkpoint.find(tmp_path, 30).load()
    assert (newest.step, newest.batches, newest.optimizer_steps) == (40, 80, 40)
    assert newest.identity == {"seed": 1, "buckets": [8, 16]}
    assert torch.equal(newest.masters["fc.weight"], torch.full((3, 2), 40.0))
    assert torch.equal(older.moments["exp_avg.fc.weight"], torch.full((3, 2), 31.0))


def test_an_old_checkpoint_that_cannot_be_removed_costs_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, elsewhere = tmp_path / "checkpoints", tmp_path / "large"
    checkpoint.save(root, made(10), keep=0)
    (root / "step-000010").rename(elsewhere)
    (root / "step-000010").symlink_to(elsewhere)
    checkpoint.save(root, made(20), keep=0)
    assert checkpoint.find(root).load().step == 20
    told = "an old checkpoint stays: Cannot call rmtree on a symbolic link"
    assert capsys.readouterr().err == f"{root / 'step-000010'}: {told}\n"
    assert sorted(file.name for file in elsewhere.iterdir()) == [
        "drafter.safetensors", "moments.safetensors", "state.json",
    ]  # fmt: skip


def test_a_folder_of_another_name_is_no_checkpoint(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, made(10), keep=0)
    for name in ("step-old", "step-7", "step-000020.bak", "step-", "other"):
        (tmp_path / name).mkdir()
    assert checkpoint.steps(tmp_path) == [10]
    checkpoint.save(tmp_path, made(1_000_000), keep=0)
    assert checkpoint.steps(tmp_path) == [1_000_000]
    assert (tmp_path / "step-old").is_dir()


def test_views_of_one_buffer_are_saved_each_by_itself(tmp_path: Path) -> None:
    flat = torch.arange(6.0)
    held = Checkpoint(
        step=1, batches=1, optimizer_steps=1, identity={}, masters={"a": flat[:2], "b": flat[2:]}, moments={}
    )
    checkpoint.save(tmp_path, held, keep=0)
    loaded = checkpoint.find(tmp_path).load()
    assert (loaded.masters["a"].tolist(), loaded.masters["b"].tolist()) == ([0.0, 1.0], [2.0, 3.0, 4.0, 5.0])


WRITER = """
import sys, torch
from pathlib import Path
from tests.factories.small_disk import leave, small_disk
from trainer.saved import checkpoint
step = 0
print("ready", flush=True)
while True:
    step += 1
    big = {f"layer{i}": torch.full((64, 1024), float(step)) for i in range(8)}
    held = checkpoint.Checkpoint(step=step, batches=step, optimizer_steps=step, identity={}, masters=big, moments=big)
    checkpoint.save(Path(sys.argv[1]), held, keep=1)
"""


def test_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 60
        seen = 0
        while seen < 6 and time.monotonic() < deadline:
            found = checkpoint.steps(tmp_path)
            if found and found[-1] > seen:
                # Stopped between any two instructions of the writer, the folder must be loadable.
                writer.send_signal(signal.SIGSTOP)
                loaded = checkpoint.find(tmp_path).load()
                assert all(torch.equal(value, torch.full_like(value, loaded.step)) for value in loaded.masters.values())
                seen = loaded.step
                writer.send_signal(signal.SIGCONT)
        writer.kill()
    assert seen >= 6
    (tmp_path / ".step-999999.partial").mkdir()
    last = checkpoint.find(tmp_path).step
    checkpoint.save(tmp_path, made(last + 1), keep=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step-{last + 1:06d}"]


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        checkpoint.find(tmp_path / "none")
    assert (caught.value.message, caught.value.hint) == (
        f"{tmp_path}/none: no checkpoint", "start without --resume, or give the --output of an earlier run",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda place: (place / "moments.safetensors").write_bytes(b"x" * 7), "moments.safetensors: 7 bytes, {size} bytes were written"),
        (lambda place: (place / "drafter.safetensors").unlink(), "drafter.safetensors: missing, {drafter} bytes were written"),
        (lambda place: (place / "state.json").write_text("{"), "state.json: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (lambda place: (place / "state.json").unlink(), "state.json: [Errno 2] No such file or directory: '{place}/state.json'"),
    ],
    ids=["short", "missing", "garbled", "stateless"],
)  # fmt: skip
def test_a_damaged_checkpoint_is_named(tmp_path: Path, damage: object, message: str) -> None:
    place = checkpoint.save(tmp_path, made(5), keep=0)
    size, drafter = ((place / f"{name}.safetensors").stat().st_size for name in ("moments", "drafter"))
    damage(place)  # type: ignore[operator]
    with pytest.raises(CheckpointError) as caught:
        checkpoint.find(tmp_path)
    assert caught.value.message == f"{place}/{message.format(size=size, drafter=drafter, place=place)}"
    assert caught.value.hint == f"remove {place} to resume from the one before"


@pytest.mark.parametrize("name", ["drafter.safetensors", "moments.safetensors"])
def test_damage_of_the_right_size_is_found_before_it_is_used(tmp_path: Path, name: str) -> None:
    place = checkpoint.save(tmp_path, made(5), keep=0)
    content = (place / name).read_bytes()
    (place / name).write_bytes(content[:-4] + b"\x00\x00\x20\x41")
    with pytest.raises(CheckpointError) as caught:
        checkpoint.find(tmp_path).load()
    assert (caught.value.message, caught.value.hint) == (
        f"{place}/{name}: its sha256 is not that of what was written",
        f"remove {place} to resume from the one before",
    )


def test_weights_that_are_not_finite_are_not_resumed_from(tmp_path: Path) -> None:
    place = checkpoint.save(tmp_path, made(5, float("nan")), keep=0)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.find(tmp_path).load()
    assert caught.value.message == f"{place}/drafter.safetensors: fc.weight holds NaN or infinite values"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "step, batches, optimizer_steps, identity, files not as a checkpoint has it"),
        ('{"schema": 2, "step": 5, "batches": 10, "optimizer_steps": 5, "identity": {}}', "files not as a checkpoint has it"),
        ('{"schema": 2, "step": 5, "batches": 10, "optimizer_steps": 5, "identity": {}, "files": {"drafter.safetensors": 3}}', "files not as a checkpoint has it"),
    ],
    ids=["list", "no files", "no digests"],
)  # fmt: skip
def test_a_state_of_another_form_is_named(tmp_path: Path, text: str, message: str) -> None:
    place = checkpoint.save(tmp_path, made(5), keep=0)
    (place / "state.json").write_text(text)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.find(tmp_path)
    assert caught.value.message == f"{place}/state.json: {message}"


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    try:
        with small_disk(tmp_path / "disk") as disk:
            checkpoint.save(disk / "run", made(5), keep=1)
            leave(disk, 2)
            with pytest.raises(CheckpointError) as caught:
                checkpoint.save(disk / "run", made(6), keep=1)
            assert caught.value.message.startswith(f"{disk}/run/step-000006: cannot be written: ")
            assert caught.value.hint == (
                "make room or give the folder back, then go on with --resume from the checkpoint before it"
            )
            assert [path.name for path in (disk / "run").iterdir()] == ["step-000005"]
            assert checkpoint.find(disk / "run").load().step == 5
    except OSError as error:
        pytest.skip(str(error))


def test_another_run_is_named_key_by_key(tmp_path: Path) -> None:
    saved = {"seed": 1, "buckets": [8, 16]}
    checkpoint.require_same(saved, {"seed": 1, "buckets": (8, 16)}, tmp_path)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.require_same(saved, {"seed": 2, "buckets": (8,), "steps": 5}, tmp_path)
    assert caught.value.message == (
        f"{tmp_path} belongs to another run: buckets: saved [8, 16], now [8]; seed: saved 1, now 2; steps: saved None, now 5"
    )
