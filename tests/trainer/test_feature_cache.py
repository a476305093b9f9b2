"""The feature cache: the same loss bit for bit, whole shards only, nothing damaged read, its bound kept."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer.__main__ import main
from trainer.data import feature_cache
from trainer.data.feature_cache import CacheSpec, FeatureReader, FeatureWriter, require_room, sweep
from trainer.errors import ConfigError
from trainer.target.files import target_digest, whole_digest
from trainer.target.model import Target
from trainer.writing import folder_bytes, write_whole

ROOT = Path(__file__).resolve().parents[2]
# 384 rows of the embedded corpus in batches of 128 rows: four batches an epoch, three epochs.
RUN = [
    "--profile", "cpu-smoke", "--steps", "12", "--quiet", "--set", "run.evaluate=0", "--set", "run.save_every=6",
    "--set", "run.log_every=1", "--set", "data.tokens=6144", "--set", "drafter.anchors=4",
]  # fmt: skip

WEIGHTS = ("drafter.safetensors", "moments.safetensors")


def losses(output: Path) -> list[float]:
    told = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in told if line["event"] == "step"]


def spec(folder: Path, **other: object) -> CacheSpec:
    told = {"folder": folder, "about": {"target": "one"}, "width": 4, "dtype": torch.float32, "needed": 320}
    return CacheSpec(**{**told, "limit": 1000, **other})  # type: ignore[arg-type]


def rows(count: int) -> dict[int, torch.Tensor]:
    drawn = torch.Generator().manual_seed(1)
    return {row: torch.randn(row + 2, 4, generator=drawn) for row in range(count)}


def written(folder: Path, count: int = 3, shard: int = 1 << 20) -> CacheSpec:
    made = spec(folder)
    made.place.mkdir(parents=True)
    writer = FeatureWriter(made, shard)
    for row, features in rows(count).items():
        writer.add(row, features)
    writer.flush()
    return made


@pytest.fixture(scope="module")
def plain(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output of the run without a cache."""
    output = tmp_path_factory.mktemp("plain") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("ENVDOCTOR_GATE", "off")
        patch.setenv("ENVDOCTOR_GATE_REASON", "trainer tests")
        patch.setenv("ENVDOCTOR_GATE_LOG", str(output.parent / "gate.log"))
        assert main([*RUN, "--output", str(output)]) == 0
    return output


def test_later_epochs_come_from_disk_with_the_same_loss_bit_for_bit(
    cache: Path, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    compute = Target.features
    monkeypatch.setattr(Target, "features", lambda self, ids, packed=None: made.append(1) or compute(self, ids, packed))
    kept = ["--set", f"cache.path={tmp_path / 'kept'}", "--set", "cache.size_gb=1"]
    assert main([*RUN, *kept, "--output", str(tmp_path / "one")]) == 0
    assert losses(tmp_path / "one") == losses(plain)
    first = len(made)
    made.clear()
    # A second run over the same rows finds all of them.
    assert main([*RUN, *kept, "--output", str(tmp_path / "two")]) == 0
    assert losses(tmp_path / "two") == losses(plain)
    assert (first < 12, len(made)) == (True, 0)
    (place,) = (tmp_path / "kept").iterdir()
    indexes = [json.loads(file.read_text()) for file in place.glob("*.json") if file.name != "about.json"]
    found = sorted(row for index in indexes for row, *_ in index["rows"])
    assert found == sorted(set(found))
    assert not list(place.glob("*.partial"))


@pytest.mark.parametrize(
    "runtime", [pytest.param("processes", marks=pytest.mark.giant), "threads", "data-parallel"], ids=str
)
def test_workers_share_a_cache_with_the_same_weights_bit_for_bit(cache: Path, tmp_path: Path, runtime: str) -> None:
    assert cache.is_dir()
    command = [*RUN, "--set", "run.save_every=12", "--steps", "6", "--drafters", "2", "--output"]
    topology = ["--targets", "1" if runtime == "data-parallel" else "2", "--runtime", runtime]
    kept = ["--set", f"cache.path={tmp_path / 'kept'}", "--set", "cache.size_gb=1", *topology]
    one = ["--drafters", "1", "--set", "optim.accumulate=2", "--set", "data.together=2"]
    assert main([*command, str(tmp_path / "one"), *one]) == 0
    first, second = ([*command, str(tmp_path / name), *kept] for name in ("first", "second"))
    assert trained(first) == 0
    (place,) = (tmp_path / "kept").iterdir()
    indexes = sorted(place.glob("*.json"))
    assert trained(second) == 0
    # All of it was there: nothing was written by the second run.
    assert sorted(place.glob("*.json")) == indexes
    wanted = {name: (tmp_path / "one" / "checkpoints" / "step-000006" / name).read_bytes() for name in WEIGHTS}
    for output in ("first", "second"):
        found = tmp_path / output / "checkpoints" / "step-000006"
        assert {name: (found / name).read_bytes() for name in WEIGHTS} == wanted
    # The target's work is counted only where it was done.
    assert useful(tmp_path / "second") < useful(tmp_path / "first")


def trained(flags: list[str]) -> int:
    """Run the trainer here; the workers of a launcher are forked by a process of their own."""
    if "threads" in flags:
        return main(flags)
    return subprocess.run([sys.executable, "-m", "tests.factories.forking", *flags], cwd=ROOT, check=False).returncode


def useful(output: Path) -> float:
    """Return the useful FLOPs that a run's log lines tell."""
    told = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return sum(line["flops"] for line in told if line["event"] == "step")


def test_a_run_that_does_not_fit_is_refused_before_it_starts(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    command = [*RUN, "--set", f"cache.path={kept}", "--output", str(tmp_path / "one")]
    assert main([*command, "--set", "cache.size_gb=0.001"]) == 2
    told = capsys.readouterr().err
    assert f"error: cache.size_gb: the features of this run's rows take 0.01 GB, and {kept} may hold 0.00 GB" in told
    assert "hint: raise cache.size_gb, remove the folders of other keys, or train without cache.path" in told
    assert main(command) == 2
    assert f"error: cache.size_gb: cache.path is {kept}, and the folder may hold nothing" in capsys.readouterr().err


def test_a_full_disk_and_other_keys_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "one.features").write_bytes(bytes(700))
    with pytest.raises(ConfigError, match=r"take 0.00 GB, beside 0.00 GB of other keys, and .* may hold 0.00 GB"):
        require_room(spec(tmp_path))
    free = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: free._replace(free=300))
    with pytest.raises(ConfigError, match=r"still takes 0.00 GB of features, and 0.00 GB are free on its file system"):
        require_room(spec(tmp_path, limit=2000))
    # What is there already needs no room.
    place = spec(tmp_path).place
    (place / "one.features").write_bytes(bytes(100))
    (place / "one.json").write_text("{}")
    assert "0.00 GB of them there" in require_room(spec(tmp_path, limit=2000))


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    made = written(tmp_path, shard=80)
    reader = FeatureReader(made)
    assert len(list(made.place.glob("*.features"))) == 2
    assert reader.holds([(row, row + 2) for row in range(3)])
    assert not reader.holds([(1, 4)])
    for row, features in rows(3).items():
        into = torch.zeros(2, 4)
        assert reader.read(row, into)
        assert torch.equal(into, features[:2])
    # Another worker's shard is found without a restart.
    later = FeatureWriter(made)
    later.add(9, torch.ones(2, 4))
    assert not reader.holds([(9, 2)])
    later.flush()
    assert reader.holds([(9, 2)])


def test_a_damaged_row_is_made_again_and_said(tmp_path: Path) -> None:
    made = written(tmp_path)
    (shard,) = made.place.glob("*.features")
    data = bytearray(shard.read_bytes())
    data[40] ^= 1
    shard.unlink()
    shard.write_bytes(data)
    reader = FeatureReader(made)
    assert reader.read(0, torch.zeros(2, 4))
    assert not reader.read(1, torch.zeros(3, 4))
    assert not reader.holds([(1, 3)])
    assert reader.refused == [f"{shard}: row 1 does not match its sha256"]


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("no object", "list indices must be integers or slices, not str"),
        ("another row", "its rows are not those that were written"),
        ("a byte short", "has 143 bytes, 144 were written"),
        ("gone", "No such file or directory"),
    ],
)
def test_a_shard_with_a_wrong_index_does_not_count(tmp_path: Path, harm: str, told: str) -> None:
    made = written(tmp_path)
    (index,) = made.place.glob("*.json")
    shard = index.with_suffix(".features")
    if harm == "no object":
        index.write_text("[]")
    elif harm == "another row":
        index.write_text(index.read_text().replace("[0, 0", "[5, 0"))
    elif harm == "a byte short":
        shard.write_bytes(shard.read_bytes()[:-1])
    else:
        shard.unlink()
    reader = FeatureReader(made)
    assert not reader.entries
    assert len(reader.refused) == 1
    assert told in reader.refused[0]


def test_a_row_that_was_damaged_and_made_again_is_read_where_it_is_whole(tmp_path: Path) -> None:
    made = written(tmp_path)
    (shard,) = made.place.glob("*.features")
    shard.write_bytes(bytes(len(shard.read_bytes())))
    features = rows(3)
    for _ in range(2):
        again = FeatureWriter(made)
        for row in (0, 1):
            again.add(row, features[row])
        again.flush()
    # Whichever index is read first: the names of shards are drawn.
    reader = FeatureReader(made)
    for row in (0, 1):
        into = torch.empty(row + 2, 4)
        assert reader.read(row, into)
        assert torch.equal(into, features[row])
    assert not reader.read(2, torch.empty(4, 4))
    assert not reader.holds([(2, 4)])
    late = FeatureWriter(made)
    late.add(2, features[2])
    late.flush()
    assert reader.holds([(2, 4)])
    assert reader.read(2, torch.empty(4, 4))


def test_many_workers_may_start_on_one_cache_at_once(tmp_path: Path) -> None:
    made = spec(tmp_path)
    code = (
        "import sys, torch\nfrom pathlib import Path\n"
        "from trainer.data.feature_cache import CacheSpec, require_room\n"
        "made = CacheSpec(folder=Path(sys.argv[1]), about={'target': 'one'}, width=4, dtype=torch.float32, needed=320,"
        " limit=1 << 20)\n"
        "sys.stdin.readline()\n"
        "for _ in range(200):\n    (made.place / 'about.json').unlink(missing_ok=True)\n    require_room(made)\n"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for _ in range(3)
    ]  # fmt: skip
    made.place.mkdir()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    assert [(worker.communicate(timeout=300)[1], worker.returncode) for worker in workers] == [("", 0)] * 3
    assert sorted(path.name for path in made.place.iterdir()) == ["about.json"]


def test_what_another_run_removes_meanwhile_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = written(tmp_path)
    (made.place / "gone.features").symlink_to("nowhere")
    (tmp_path / "going").mkdir()
    scandir = os.scandir

    def removing(path: object) -> object:
        if Path(str(path)).name == "going":
            Path(str(path)).rmdir()
        return scandir(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", removing)
    assert folder_bytes(tmp_path) == sum(file.stat().st_size for file in made.place.iterdir() if file.is_file())


@pytest.mark.parametrize("failing", ["stat", "scandir"])
def test_a_folder_of_another_key_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    other = tmp_path / "other" / "one.features"
    other.parent.mkdir()
    other.write_bytes(bytes(10))
    place = other if failing == "stat" else other.parent
    work = getattr(os, failing)

    def refused(path: Any, *arguments: Any, **named: Any) -> Any:
        if Path(str(path)) == place:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
        return work(path, *arguments, **named)

    monkeypatch.setattr(os, failing, refused)
    with pytest.raises(ConfigError) as caught:
        require_room(spec(tmp_path))
    assert (caught.value.message, caught.value.hint) == (
        f"cache.path: {place}: Permission denied", "give a folder that can be made, read and written",
    )  # fmt: skip


def test_a_whole_file_is_on_the_disk_before_it_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "one.json"
    file.write_text("before")
    seen: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _descriptor: seen.append(file.read_text()))
    write_whole(file, "after")
    assert (seen, file.read_text()) == (["before"], "after")


def test_half_a_shard_is_swept_once_its_writer_is_gone(tmp_path: Path) -> None:
    made = written(tmp_path)
    writer = FeatureWriter(made)
    writer.add(7, torch.ones(2, 4))
    sweep(made.place)
    assert len(list(made.place.glob("*.partial"))) == 1
    assert not FeatureReader(made).holds([(7, 2)])
    assert writer._open is not None
    # What the end of a process does, killed or not.
    writer._open._file.close()
    (made.place / "torn.features").write_bytes(b"a rename, and no index")
    sweep(made.place)
    assert sorted(file.suffix for file in made.place.iterdir()) == [".features", ".json"]


def test_what_another_run_sweeps_while_a_shard_is_closed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = spec(tmp_path)
    made.place.mkdir()
    writer = FeatureWriter(made)
    for row, features in rows(3).items():
        writer.add(row, features)
    swept = []

    def fsync(descriptor: int) -> None:
        swept.append(sorted(path.suffix for path in made.place.iterdir()))
        sweep(made.place)

    monkeypatch.setattr(feature_cache.os, "fsync", fsync)
    writer.flush()
    assert swept == [[".partial"], [".features", ".partial"]]
    assert sorted(FeatureReader(made).entries) == [0, 1, 2]


def test_a_byte_that_samples_miss_is_another_key_and_a_file_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one, other = tmp_path / "one", tmp_path / "other"
    for place in (one, other):
        place.mkdir()
        (place / "config.json").write_text("{}")
        with (place / "model.safetensors").open("wb") as file:
            file.truncate(32 << 20)
            # Between two of the 64 samples of 64 kB.
            file.seek(300_000)
            file.write(place.name.encode())
    assert target_digest(one) == target_digest(other)
    digest = whole_digest(one)
    assert digest != whole_digest(other)
    kept = tmp_path / "cache" / "envdoctor" / "targets"
    # Two files of each, and a lock for each: nobody waits for another's target.
    locks, names = (sorted(file.name for file in kept.glob(pattern)) for pattern in (".*.lock", "[!.]*"))
    assert [len(names), locks] == [4, [f".{name}.lock" for name in names]]
    wanted = hashlib.sha256((one / "model.safetensors").read_bytes()).hexdigest()
    assert wanted in {(kept / name).read_text() for name in names}
    # Known by its inode, size and times: it is not read again.
    with monkeypatch.context() as patch:
        patch.setattr("trainer.target.files._read_through", lambda file: pytest.fail(str(file)))
        assert whole_digest(one) == digest
    # What was kept damaged, and a file that was written again, are read; slowly, that is said.
    for name in names:
        (kept / name).write_text("x")
    monkeypatch.setattr("trainer.target.files.QUIET_SECONDS", -1.0)
    assert whole_digest(one) == digest
    assert (
        capsys.readouterr().err.splitlines()[1:]
        == [f"features: reading {one}/model.safetensors once for its sha256, 0.0 of 0.0 GB"] * 2
    )
    with (one / "model.safetensors").open("r+b") as file:
        file.seek(300_000)
        file.write(b"x")
    os.utime(one / "model.safetensors", ns=(0, 7))
    assert whole_digest(one) not in {digest, whole_digest(other)}
