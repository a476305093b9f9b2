"""A disk that fills while a run writes: one clear error, nothing lost, and the run goes on once there is room.

The disks are real: a small tmpfs for each test, shrunk to what is in use when the next write is due.
"""

# ruff: noqa: E501 - tables of whole messages

import ast
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.factories.small_disk import leave, roomy, small_disk
from trainer import errors
from trainer.__main__ import main
from trainer.curves import main as curves
from trainer.data import feature_cache
from trainer.data.feature_cache import CacheSpec, FeatureReader, FeatureWriter
from trainer.errors import OutputError
from trainer.records.metrics import Journal
from trainer.writing import Lines

FULL = "No space left on device"
STEPS = 6
RUN = [
    "--profile", "cpu-smoke", "--steps", str(STEPS), "--quiet", "--set", "run.save_every=2", "--set", "run.log_every=1",
    "--set", "run.evaluate=2", "--set", "run.evaluate_tokens=8", "--set", "data.buckets=[64]",
    "--set", "data.tokens=512", "--set", "drafter.layers=1", "--set", "drafter.anchors=4",
]  # fmt: skip


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a small file system."""
    try:
        mounted = small_disk(tmp_path / "disk")
        place = mounted.__enter__()
    except OSError as error:
        pytest.skip(str(error))
    yield place
    mounted.__exit__(None, None, None)


@pytest.fixture(scope="module")
def straight(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output of a run with room enough."""
    output = tmp_path_factory.mktemp("straight") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("ENVDOCTOR_GATE", "off")
        patch.setenv("ENVDOCTOR_GATE_REASON", "trainer tests")
        patch.setenv("ENVDOCTOR_GATE_LOG", str(output.parent / "gate.log"))
        assert main([*RUN, "--output", str(output)]) == 0
    return output


def result(output: Path) -> dict[str, bytes]:
    """Return what a run leaves: its last state and its export."""
    place = output / "checkpoints" / f"step-{STEPS:06d}"
    files = [place / "drafter.safetensors", place / "moments.safetensors", *sorted((output / "drafter").iterdir())]
    return {file.name: file.read_bytes() for file in files}


def filling(disk: Path, calls: int, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return `work`, before whose `calls`th call the disk is shrunk to what is in use."""
    left = [calls]
    lock = threading.Lock()

    def full(*arguments: Any, **named: Any) -> Any:
        # Of several threads the one that counts to zero fills the disk, before another goes on.
        with lock:
            left[0] -= 1
            if left[0] == 0:
                leave(disk, 0)
        return work(*arguments, **named)

    return full


# Writer: what is called before the disk is full, on which call, what cannot be written, and how to go on.
WRITERS = {
    "provenance": ("trainer.saved.provenance.write", 1, "provenance.jsonl", "make room or give the folder back, then run the same command again"),
    "checkpoint": ("trainer.saved.checkpoint._write", 2, "checkpoints/step-000004", "make room or give the folder back, then go on with --resume from the checkpoint before it"),
    "export": ("trainer.runtime.finalize.export", 1, "drafter/model.safetensors", "make room, then run the same command with --resume: it exports from the last checkpoint"),
    "evaluation": ("trainer.runtime.finalize.write_whole", 1, "evaluation.json", "make room or give the folder back, then go on with --resume"),
}  # fmt: skip


@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_of_a_run_names_its_file_and_the_run_goes_on(
    cache: Path, straight: Path, disk: Path, capsys: pytest.CaptureFixture[str], writer: str
) -> None:
    assert cache.is_dir()
    where, calls, file, hint = WRITERS[writer]
    output = disk / "run"
    module, _, name = where.rpartition(".")
    owner = sys.modules[module]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, filling(disk, calls, getattr(owner, name)))
        assert main([*RUN, "--output", str(output)]) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("error", "hint"))]
    assert told[0].startswith(f"error: {output}/{file}: cannot be written: ")
    assert FULL in told[0]
    assert told[1:] == [f"hint: {hint}"]
    assert not [path for path in output.rglob("*partial*") if path.exists()]
    roomy(disk)
    # As the hint says.
    again = ["--resume"] if "--resume" in hint else []
    assert main([*RUN, "--output", str(output), *again]) == 0
    assert result(output) == result(straight)
    assert (output / "evaluation.json").is_file()


@pytest.mark.parametrize("runtime", ["inline", "threads"])
def test_a_cache_that_fills_stops_the_run_saved_and_its_rows_count(
    cache: Path, straight: Path, disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], runtime: str
) -> None:
    assert cache.is_dir()
    output = tmp_path / "run"
    topology = ["--runtime", runtime] + (["--targets", "2"] if runtime == "threads" else [])
    command = [
        *RUN, *topology, "--output", str(output), "--set", f"cache.path={disk / 'kept'}", "--set", "cache.size_gb=1",
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        # The twelfth row is of the second batch.
        patch.setattr(feature_cache._Shard, "add", filling(disk, 12, feature_cache._Shard.add))
        assert main(command) == 2
    (place,) = (disk / "kept").iterdir()
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("error", "hint"))]
    assert told == [
        f"error: {place}: features cannot be written: {FULL}",
        "hint: make room and go on with --resume: what was written counts. Or leave cache.path empty",
    ]
    # The steps that were done are saved, and the rows that were whole are in a shard.
    assert list(output.glob("checkpoints/step-*"))
    rows = [
        row
        for file in place.glob("*.json")
        if file.name != "about.json"
        for row in json.loads(file.read_text())["rows"]
    ]
    assert rows
    assert not list(place.glob("*.partial"))
    roomy(disk)
    assert main([*command, "--resume"]) == 0
    assert result(output) == result(straight)


def spec(folder: Path) -> CacheSpec:
    return CacheSpec(
        folder=folder, about={"target": "one"}, width=512, dtype=torch.float32, needed=1 << 20, limit=1 << 30
    )


def test_rows_before_the_disk_was_full_count_and_can_be_read(disk: Path) -> None:
    made = spec(disk)
    made.place.mkdir()
    drawn = torch.Generator().manual_seed(1)
    rows = {row: torch.randn(3, 512, generator=drawn) for row in range(40)}
    writer = FeatureWriter(made)
    leave(disk, 32)

    def add() -> None:
        for row, features in rows.items():
            writer.add(row, features)

    with pytest.raises(OutputError) as caught:
        add()
    assert caught.value.message == f"{made.place}: features cannot be written: {FULL}"
    reader = FeatureReader(made)
    # 32 pages hold 21 rows of 6 kB; the index took the room of some.
    assert sorted(reader.entries) == list(range(len(reader.entries)))
    assert 15 <= len(reader.entries) <= 21
    assert not reader.refused
    for row in reader.entries:
        into = torch.empty(3, 512)
        assert reader.read(row, into)
        assert torch.equal(into, rows[row])
    roomy(disk)
    writer.add(39, rows[39])
    writer.flush()
    assert reader.holds([(39, 3)])


@pytest.mark.parametrize("room", [0, 1])
def test_a_flush_that_finds_no_room_for_its_index_gives_up_its_last_rows(disk: Path, room: int) -> None:
    made = spec(disk)
    made.place.mkdir()
    writer = FeatureWriter(made)
    for row in range(20):
        writer.add(row, torch.full((3, 512), float(row)))
    leave(disk, room)
    if room:
        writer.flush()
    else:
        with pytest.raises(OutputError) as caught:
            writer.flush()
        assert caught.value.message == f"{made.place}: features cannot be written: {FULL}"
    reader = FeatureReader(made)
    assert sorted(reader.entries) == list(range(len(reader.entries)))
    assert len(reader.entries) == 20 if room else 15 <= len(reader.entries) < 20
    assert sorted(file.suffix for file in made.place.iterdir()) == [".features", ".json"]


def test_a_line_that_does_not_fit_leaves_none_of_its_bytes(disk: Path) -> None:
    lines = Lines(disk / "metrics.jsonl")
    lines.write("x" * 4000 + "\n")
    leave(disk, 0)
    # Its first bytes still fit in the page that is there.
    with pytest.raises(OutputError) as caught:
        lines.write("y" * 300 + "\n")
    assert (caught.value.message, caught.value.hint) == (
        f"{disk}/metrics.jsonl: cannot be written: {FULL}",
        "make room or give the folder back, then go on with --resume",
    )
    roomy(disk)
    lines.write("z\n")
    lines.close()
    assert lines.path.read_text() == "x" * 4000 + "\nz\n"


def test_a_line_that_a_killed_run_left_unfinished_does_not_spoil_the_next(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1}\n{"ste')
    with closing(Lines(file)) as lines:
        lines.write('{"step": 2}\n')
    assert file.read_text() == '{"step": 1}\n{"ste\n{"step": 2}\n'


def test_what_ended_a_run_is_told_although_the_journal_is_full(disk: Path) -> None:
    def ended() -> None:
        with Journal(disk / "metrics.jsonl"):
            leave(disk, 0)
            raise ValueError("the cause")

    with pytest.raises(ValueError, match="the cause"):
        ended()


def test_curves_that_do_not_fit_leave_the_page_before(
    disk: Path, straight: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = disk / "curves.html"
    page.write_text("the page before")
    leave(disk, 0)
    assert curves([str(straight), "-o", str(page)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"error: {page}: cannot be written: {FULL}", "hint: make room, or name another file",
    ]  # fmt: skip
    assert [path.name for path in disk.iterdir()] == ["curves.html"]
    assert page.read_text() == "the page before"


def test_tokenised_rows_that_do_not_fit_are_told(
    cache: Path, target_folder: Path, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert cache.is_dir()
    data = tmp_path / "rows.jsonl"
    row = {"input_ids": list(range(3, 60)), "loss_mask": [0] * 20 + [1] * 37}
    data.write_text(f"{json.dumps(row)}\n" * 400)
    monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
    (disk / "envdoctor" / "rows").mkdir(parents=True)
    leave(disk, 3)
    command = [*RUN, "--target", str(target_folder), "--data", str(data), "--output", str(tmp_path / "run")]
    assert main(command) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("error", "hint"))]
    assert told[0].startswith(f"error: {disk}/envdoctor/rows/")
    assert told[0].endswith(f".arrow: cannot be written: {FULL}")
    assert told[1:] == ["hint: make room, or set XDG_CACHE_HOME to a folder that can be written"]
    assert not list(disk.rglob("*partial*"))
    roomy(disk)
    assert main(command) == 0
    # Kept rows that were damaged since are made again, and that is said.
    (kept,) = (disk / "envdoctor" / "rows").glob("*.arrow")
    kept.write_bytes(kept.read_bytes()[:2000])
    assert main([*command, "--resume"]) == 0
    assert f"{kept}: cannot be read (" in capsys.readouterr().err


def test_event_files_that_do_not_fit_are_told(disk: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from trainer.records.tracking import Tracker  # noqa: PLC0415
    from trainer.settings.config import build  # noqa: PLC0415

    config = build("cpu-smoke", [{"run": {"tensorboard": True}}])

    def send() -> None:
        with Tracker(config, disk) as tracker:
            leave(disk, 0)
            for step in range(1000):
                tracker.send("train", step, {"loss": 1.0, "a name that takes room " * 20: 2.0})

    with pytest.raises(OutputError) as caught:
        send()
    assert (caught.value.message, caught.value.hint) == (
        f"{disk}/tensorboard: cannot be written: {FULL}",
        "make room or set run.tensorboard=false, then go on with --resume",
    )
    assert "Traceback" not in capfd.readouterr().err


def test_no_hint_goes_on_from_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    told = [
        node.value
        for file in Path(errors.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and ("with --resume" in node.value or "resume from the last" in node.value)
        and file.name != "errors.py"
    ]
    assert len(told) >= 8
    (tmp_path / "checkpoints").mkdir()
    assert [text for text in told if "resume" in errors.hint_for(OutputError("", text), tmp_path)] == []
    (tmp_path / "checkpoints" / "step-000002").mkdir()
    assert [text for text in told if text != errors.hint_for(OutputError("", text), tmp_path)] == []
