"""Whole runs: a drafter is learnt, decoding stays the target's own, and no kind of interruption changes the result."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, Qwen3ForCausalLM

from trainer.__main__ import main
from trainer.assemble import assemble
from trainer.data.chat import Encoder
from trainer.data.corpus import conversation, conversations
from trainer.decoding.evaluate import SpeculativeDecoder
from trainer.device import Memory
from trainer.drafter.model import Drafter, DrafterShape
from trainer.records.metrics import Flatness
from trainer.runtime.finalize import Finalizer
from trainer.settings.config import build
from trainer.settings.presets import preset
from trainer.target.files import target_digest
from trainer.target.model import Target

ROOT = Path(__file__).resolve().parents[2]
STEPS = 24
SHORT = [
    "--profile",
    "cpu-smoke",
    "--steps",
    str(STEPS),
    "--quiet",
    "--set",
    "run.evaluate=0",
    "--set",
    "run.save_every=8",
]
CPU = torch.device("cpu")
FORKING = "tests.factories.forking"
"""The trainer with a launcher that forks its workers."""


def lines(output: Path, event: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["event"] == event]


def state(output: Path, step: int = STEPS) -> dict[str, torch.Tensor]:
    place = output / "checkpoints" / f"step-{step:06d}"
    return {**load_file(place / "drafter.safetensors"), **load_file(place / "moments.safetensors")}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="session")
def learnt(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output of the default run, run once."""
    output = tmp_path_factory.mktemp("learnt") / "run"
    done = subprocess.run(
        [sys.executable, "-m", "trainer", "--profile", "cpu-smoke", "--output", str(output)], cwd=ROOT, text=True,
        capture_output=True, check=False,
        env={
            **os.environ, "XDG_CACHE_HOME": str(cache), "ENVDOCTOR_GATE": "off",
            "ENVDOCTOR_GATE_REASON": "trainer tests", "ENVDOCTOR_GATE_LOG": str(output.parent / "gate.log"),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (output / "stdout").write_text(done.stdout)
    return output


@pytest.fixture(scope="session")
def straight(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output of a short run that nothing interrupted."""
    output = tmp_path_factory.mktemp("straight") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("ENVDOCTOR_GATE", "off")
        patch.setenv("ENVDOCTOR_GATE_REASON", "trainer tests")
        patch.setenv("ENVDOCTOR_GATE_LOG", str(output.parent / "gate.log"))
        assert main([*SHORT, "--output", str(output), "--set", "optim.accumulate=2", "--set", "data.together=2"]) == 0
    return output


def test_default_run_learns_and_decodes_the_targets_own_text(learnt: Path) -> None:
    steps = lines(learnt, "step")
    losses = [float(line["loss"]) for line in steps]  # type: ignore[arg-type]
    assert losses[-1] < 0.2 * losses[0]
    # Every ten steps, and at step 75, where a checkpoint is written: weights are looked at for NaN before.
    assert [line["step"] for line in steps] == sorted([*range(10, 151, 10), 75])
    (found,) = lines(learnt, "evaluation")
    assert float(found["acceptance_length"]) > 2.0  # type: ignore[arg-type]
    assert found["identical"] == found["prompts"] == 16
    assert json.loads((learnt / "evaluation.json").read_text())["by_position"] == found["by_position"]
    (end,) = lines(learnt, "end")
    assert end["verdict"] == [{"name": "steady compiles", "met": True, "text": "0 compilations after the warm-up"}]
    told = (learnt / "stdout").read_text()
    low, high = found["interval"]
    length = f"{found['acceptance_length']:.2f} ({low:.2f} to {high:.2f}, 95 %)"
    assert f"acceptance  {length} tokens a target pass; 16 of 16 texts identical to the target's own" in told
    assert len(found["by_prompt"]) == 16
    assert [line for line in told.splitlines() if line.split()[:1] == ["7"]]


def test_the_throughput_is_that_of_the_lines_between_the_first_and_the_last(learnt: Path) -> None:
    # The first holds what is done once, and the last step makes no features for a next one.
    steady: list[dict[str, float]] = lines(learnt, "step")[1:-1]  # type: ignore[assignment]
    seconds = sum(line["seconds"] for line in steady)
    rate = sum(line["tokens_per_second"] * line["seconds"] for line in steady) / seconds
    shown = re.search(r"^throughput +([0-9,]+) tok/s", (learnt / "stdout").read_text(), re.MULTILINE)
    assert shown is not None
    assert shown[1] == f"{rate:,.0f}"


def test_exported_drafter_speeds_up_transformers_own_greedy_text(learnt: Path, target_folder: Path) -> None:
    config = json.loads((learnt / "drafter" / "config.json").read_text())
    shape = DrafterShape(
        hidden=config["hidden_size"], layers=config["num_hidden_layers"], heads=config["num_attention_heads"],
        key_value_heads=config["num_key_value_heads"], head_dim=config["head_dim"],
        intermediate=config["intermediate_size"], features=len(config["dflash_config"]["target_layer_ids"]),
        epsilon=config["rms_norm_eps"], rope_theta=config["rope_theta"],
    )  # fmt: skip
    drafter = Drafter(shape)
    drafter.load_state_dict(load_file(learnt / "drafter" / "model.safetensors"))
    target = Target.load(target_folder, tuple(config["dflash_config"]["target_layer_ids"]), CPU, torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(target_folder)
    decoder = SpeculativeDecoder(
        target, drafter, block=config["block_size"], mask_token=config["dflash_config"]["mask_token_id"],
        stop=[tokenizer.eos_token_id],
    )  # fmt: skip
    oracle = Qwen3ForCausalLM.from_pretrained(target_folder)
    accepted: list[int] = []
    for names in (["river", "clock", "stone"], ["engine", "meadow", "lantern", "harbour"], ["orchard", "river"]):
        text = tokenizer.apply_chat_template(conversation(names)[:1], tokenize=False, add_generation_prompt=True)
        prompt = tokenizer(text, add_special_tokens=False).input_ids
        wanted = oracle.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), max_new_tokens=40, do_sample=False
        )
        decoded = decoder.speculative(prompt, 40)
        assert list(decoded.ids) == wanted[0, len(prompt) :].tolist()
        assert decoded.ids == decoder.plain(prompt, 40)
        accepted += decoded.accepted
    assert sum(accepted) / len(accepted) + 1 > 2.0


def start(output: Path, cache: Path, *more: str, module: str = "trainer") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *SHORT, "--output", str(output), "--set", "run.log_every=1", *more],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )  # fmt: skip


def wait_for_step(output: Path, step: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        journal = output / "metrics.jsonl"
        # The last line may be under way: a reader can see the first page of it.
        lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
        if any(json.loads(line).get("step", 0) >= step for line in lines if line.endswith("\n")):
            return
        time.sleep(0.01)
    raise AssertionError(f"step {step} was not reached: {process.communicate()[1]}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_resumes_to_the_same_bits(
    cache: Path, straight: Path, tmp_path: Path, number: signal.Signals
) -> None:
    output = tmp_path / "run"
    process = start(output, cache, "--set", "optim.accumulate=2", "--set", "data.together=2")
    wait_for_step(output, 9, process)
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode == (143 if number == signal.SIGTERM else -9)
    saved = sorted(path.name for path in (output / "checkpoints").glob("step-*"))
    # SIGTERM saves where it stops; after SIGKILL there is what was saved at step 8.
    assert saved[0] == "step-000008"
    assert len(saved) == (2 if number == signal.SIGTERM else 1)
    assert (
        main([*SHORT, "--output", str(output), "--set", "optim.accumulate=2", "--set", "data.together=2", "--resume"])
        == 0
    )
    assert same(state(output), state(straight))


def told_alike(output: Path, straight: Path, batches: dict[str, int]) -> None:
    """Require the steps that one worker told, and that each target's worker made so many batches."""
    wanted, found = lines(straight, "step"), lines(output, "step")
    assert [line["step"] for line in found] == [line["step"] for line in wanted]
    for key in ("loss", "accuracy", "run_length"):
        assert [line[key] for line in found] == pytest.approx([line[key] for line in wanted])
    told = [
        line for path in [output / "metrics.jsonl", *output.glob("workers/*")] for line in path.read_text().splitlines()
    ]
    workers = [json.loads(line) for line in told if '"worker": "target-' in line]
    assert sorted((line["worker"], line["batches"]) for line in workers) == sorted(batches.items())


def test_threads_train_the_bits_of_one_worker(cache: Path, straight: Path, tmp_path: Path) -> None:
    assert cache.is_dir()
    output = tmp_path / "threads"
    assert main([*SHORT, "--output", str(output), "--runtime", "threads", "--targets", "2", "--drafters", "2"]) == 0
    assert same(state(output), state(straight))
    told_alike(output, straight, {"target-0": STEPS, "target-1": STEPS})


@pytest.mark.giant
def test_three_drafters_train_the_bits_of_one_worker_too(cache: Path, tmp_path: Path) -> None:
    assert cache.is_dir()
    # Of three sums the order matters, of two it does not.
    shared = [*SHORT, "--steps", "6", "--set", "run.log_every=2", "--drafters", "3", "--output"]
    one = ["--drafters", "1", "--set", "optim.accumulate=3", "--set", "data.together=3"]
    assert main([*shared, str(tmp_path / "one"), *one]) == 0
    # Two targets take the batches of three drafters in turn.
    for runtime, targets in (("threads", 1), ("processes", 2), ("data-parallel", 1)):
        output = tmp_path / runtime
        assert main([*shared, str(output), "--targets", str(targets), "--runtime", runtime]) == 0
        assert same(state(output, 6), state(tmp_path / "one", 6))
    told_alike(tmp_path / "processes", tmp_path / "one", {"target-0": 9, "target-1": 9})


@pytest.mark.parametrize("runtime", ["inline", "threads"])
def test_a_launcher_of_several_processes_needs_their_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], runtime: str
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main([*SHORT, "--output", str(tmp_path / "run"), "--runtime", runtime]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "warning: envdoctor gate: mode off for profile cpu-smoke, because: trainer tests",
        f"error: topology.runtime: {runtime} is one process, and a launcher has started 2 (WORLD_SIZE)",
        "hint: start it without the launcher, or with --runtime processes or data-parallel",
    ]
    assert not (tmp_path / "run").exists()


def test_a_rank_that_no_launcher_gave_silences_nothing(
    target_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "bad.jsonl"
    data.write_text("not json\n")
    chosen = ["--target", str(target_folder), "--data", str(data)]
    said = []
    for environment in ({}, {"LOCAL_RANK": "1"}, {"RANK": "1", "LOCAL_RANK": "1"}):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert main([*SHORT, *chosen, "--output", str(tmp_path / "run")]) == 2
        said.append([line for line in capsys.readouterr().err.splitlines() if line.startswith(("error", "hint"))])
    assert said[0][0] == "error: bad.jsonl:1: not JSON: Expecting value at column 1"
    assert said == [said[0]] * 3


def test_compiled_threads_are_refused_where_torch_would_crash(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cache.is_dir()
    # What a CUDA build says of itself; no CUDA device is seen here in any case.
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    flags = ["--runtime", "threads", "--targets", "1", "--drafters", "2", "--compile", "on"]
    assert main([*SHORT, "--output", str(tmp_path / "run"), *flags]) == 2
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith(("error", "hint"))] == [
        f"error: topology.runtime: threads with compiled code, but this torch {torch.__version__} was built for CUDA"
        " and sees no CUDA device: it crashes when one thread traces while another computes",
        "hint: use --runtime processes or inline, --compile off, or a CPU build of torch",
    ]


def test_compiled_threads_train_like_one_eager_worker(cache: Path, straight: Path, tmp_path: Path) -> None:
    output = tmp_path / "threads"
    # In a process of its own: dynamo hides a warning of its tracing from users, but not from a filter of "error".
    process = start(
        output, cache, "--runtime", "threads", "--targets", "1", "--drafters", "2", "--compile", "on",
        "--set", "run.backend=aot_eager",
    )  # fmt: skip
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr
    found, wanted = state(output), state(straight)
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-3, atol=1e-5)
    # Every bucket was compiled in the warm-up, behind the gate, and nothing after it.
    assert {line["compilations"] for line in lines(output, "step")} == {0}
    assert lines(output, "end")[0]["verdict"] == [
        {"name": "steady compiles", "met": True, "text": "0 compilations after the warm-up"}
    ]


def test_sigterm_to_the_launcher_saves_and_ends_every_process(cache: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    process = start(output, cache, "--runtime", "processes", "--targets", "1", "--drafters", "2", module=FORKING)
    wait_for_step(output, 3, process)
    workers = children(process.pid)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=180)
    assert (process.returncode, stderr) == (143, GATE_LINE * 2)
    assert len(workers) == 3
    assert not any(alive(worker) for worker in workers)
    (end,) = lines(output, "end")
    assert end["interrupted"] is True
    assert (output / "checkpoints" / f"step-{end['step']:06d}" / "state.json").is_file()


GATE_LINE = "warning: envdoctor gate: mode off for profile cpu-smoke, because: trainer tests\n"


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_worker_ends_the_run_with_an_error(cache: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    process = start(output, cache, "--runtime", "processes", "--targets", "1", "--drafters", "1", module=FORKING)
    wait_for_step(output, 3, process)
    workers = children(process.pid)
    os.kill(workers[1], signal.SIGKILL)
    _, stderr = process.communicate(timeout=180)
    assert process.returncode == 137
    assert not any(alive(worker) for worker in workers)
    told = [line for line in stderr.splitlines() if line.startswith("error: ")]
    # The others may see that it is gone before the launcher does.
    others = [line for line in told if line != "error: rank 1 was killed by SIGKILL"]
    assert len(told) == len(others) + 1
    assert all(line.startswith("error: this worker could not go on with the others: ") for line in others)


@pytest.mark.parametrize(
    "runtime", [[], ["--runtime", "threads", "--targets", "2", "--drafters", "2"]], ids=["inline", "threads"]
)
def test_a_loss_that_is_no_number_stops_and_names_its_rows(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], runtime: list[str]
) -> None:
    assert cache.is_dir()
    output = tmp_path / "run"
    assert main([*SHORT, "--output", str(output), "--set", "optim.learning_rate=1e30", *runtime]) == 1
    said = capsys.readouterr().err.splitlines()
    errors = [line for line in said if line.startswith("error: ")]
    assert len(errors) == 1
    assert errors[0].startswith("error: step 2: the loss is nan in batch ")
    assert "positions: embedded corpus:" in errors[0]
    assert not (output / "checkpoints").exists()


def test_a_projects_own_profile_is_trained_on_and_its_expectations_count(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.is_dir()
    profile = (ROOT / "profiles/cpu-smoke.toml").read_text().replace('name = "cpu-smoke"', 'name = "mine"')
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/mine.toml").write_text(f"{profile}\n[expected]\ntokens_per_second = 1e12\n")
    monkeypatch.chdir(tmp_path)
    assert main(["--profile", "mine", *SHORT[2:], "--steps", "2", "--output", "run"]) == 0
    (end,) = lines(tmp_path / "run", "end")
    verdict = {line["name"]: line["met"] for line in end["verdict"]}  # type: ignore[attr-defined]
    assert verdict == {"steady compiles": True, "throughput": False}


@pytest.mark.parametrize("done", ["truncated", "dropped"])
def test_overlong_rows_are_told_at_the_start(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], done: str
) -> None:
    assert cache.is_dir()
    settings = ["data.buckets=[32]", "data.tokens=64", f"data.overlong={'drop' if done == 'dropped' else 'truncate'}"]
    arguments = ["--profile", "cpu-smoke", "--steps", "1", "--set", "run.evaluate=0", "--output", str(tmp_path / "run")]
    assert main([*arguments, *(word for setting in settings for word in ("--set", setting))]) == 0
    (start,) = lines(tmp_path / "run", "start")
    count = start[done]
    assert isinstance(count, int)
    assert 0 < count < 384
    assert {start["truncated"], start["dropped"]} == {count, 0}
    told = f"data.overlong: {count} of 384 rows are longer than the last bucket (32) and are {done}"
    assert told in capsys.readouterr().err.splitlines()


def test_output_and_resume_are_not_mixed_up(
    cache: Path, straight: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cache.is_dir()

    def said(*arguments: str) -> Iterator[str]:
        assert main([*SHORT, *arguments]) == 2
        return (line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning: "))

    root = straight / "checkpoints"
    assert list(said("--output", str(straight), "--set", "optim.accumulate=2", "--set", "data.together=2")) == [
        f"error: --output {straight}: holds checkpoints of an earlier run",
        "hint: go on with --resume, or give another folder",
    ]
    assert list(said("--output", str(tmp_path), "--resume")) == [
        f"error: {tmp_path}/checkpoints: no checkpoint",
        "hint: start without --resume, or give the --output of an earlier run",
    ]
    again = ("--output", str(straight), "--resume", "--set", "optim.accumulate=2", "--set", "data.together=2")
    assert list(said(*again, "--seed", "5"))[:1] == [
        f"error: {root} belongs to another run: rows: saved {rows(cache, 0)!r}, now {rows(cache, 5)!r};"
        " seed: saved 0, now 5"
    ]
    told = {"run": {"evaluate": 3}}
    held = assemble(build("cpu-smoke", [preset("cpu-smoke"), told])).identity()["held_out"]
    # Rows that were held out would be trained on, and rows that were left out would come back.
    assert list(said(*again, "--set", "run.evaluate=3", "--set", "data.overlong=drop"))[:1] == [
        f"error: {root} belongs to another run: held_out: saved 0, now {held!r}; overlong: saved 'truncate', now 'drop'"
    ]


def test_another_target_of_the_same_size_is_not_resumed_with(
    cache: Path,
    straight: Path,
    target_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert cache.is_dir()
    tuned = tmp_path / "tuned"
    shutil.copytree(target_folder, tuned)
    weights = load_file(tuned / "model.safetensors")
    weights["model.layers.1.mlp.up_proj.weight"] *= 1.5
    save_file(weights, tuned / "model.safetensors", metadata={"format": "pt"})
    monkeypatch.setattr("trainer.target.toy.folder", lambda _cache: tuned)
    settings = ["--set", "optim.accumulate=2", "--set", "data.together=2"]
    assert main([*SHORT, "--output", str(straight), "--resume", *settings]) == 2
    before, after = target_digest(target_folder), target_digest(tuned)
    assert capsys.readouterr().err.splitlines()[1] == (
        f"error: {straight}/checkpoints belongs to another run: target_files: saved {before!r}, now {after!r}"
    )


def test_a_stop_before_the_evaluation_leaves_the_export_and_no_evaluation(cache: Path, tmp_path: Path) -> None:
    assert cache.is_dir()
    parts = assemble(build("cpu-smoke", [preset("cpu-smoke")]))
    asked: list[bool] = []
    ending = Finalizer(parts=parts, output=tmp_path, stop=lambda: not asked.append(True) and len(asked) > 2)
    ending.trained(dict(parts.drafter(CPU).named_parameters()), parts.load_target(CPU))
    # Two of the eight prompts were decoded.
    assert (len(asked), ending.cut, ending.evaluation) == (3, True, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drafter"]


def test_the_second_signal_ends_the_process_where_it_stands() -> None:
    code = (
        "import time\nfrom trainer.runtime.shutdown import StopRequest\n"
        "with StopRequest() as stop:\n    stop()\n    print('ready', flush=True)\n"
        "    while not stop():\n        time.sleep(0.01)\n    print('asked', flush=True)\n    time.sleep(600)\n"
    )
    for second, wanted in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "asked\n"
        process.send_signal(second)
        assert process.communicate(timeout=30) == ("", "")
        assert process.returncode == wanted


def rows(cache: Path, seed: int) -> str:
    from trainer.target import toy  # noqa: PLC0415

    tokenizer = AutoTokenizer.from_pretrained(toy.folder(cache / "envdoctor"))
    return f"embedded-{toy.digest()}-{seed + 1}-{Encoder(tokenizer).digest}"


def test_a_run_over_files_with_a_local_target(cache: Path, target_folder: Path, tmp_path: Path) -> None:
    assert cache.is_dir()
    data = tmp_path / "chats.jsonl"
    data.write_text("\n".join(json.dumps({"conversations": talk}) for talk in conversations(40, 3)) + "\n")
    output = tmp_path / "run"
    arguments = [
        "--profile",
        "cpu-smoke",
        "--steps",
        "3",
        "--quiet",
        "--set",
        "run.evaluate=2",
        "--output",
        str(output),
    ]
    assert main([*arguments, "--target", str(target_folder), "--data", str(data)]) == 0
    (found,) = lines(output, "evaluation")
    assert (found["prompts"], found["identical"]) == (2, 2)


HOLDING = """
import os, socket, sys
from pathlib import Path
from trainer.writing import locked
os.getpid, socket.gethostname = lambda: 7, lambda: "there"
with locked(Path(sys.argv[1]), "", ""):
    print("held", flush=True)
    input()
"""


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_one_lives(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cache.is_dir()
    output = tmp_path / "run"
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(output / ".lock")], cwd=ROOT, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    with first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        for flags in ([], ["--resume"]):
            assert main([*SHORT, "--output", str(output), *flags]) == 2
            assert capsys.readouterr().err.splitlines()[-2:] == [
                f"error: --output {output}: another run writes there (process 7 on there)",
                "hint: wait until it has ended, or give another folder; if that host went down and its lock stayed on"
                f" the server, remove {output}/.lock",
            ]
        # Of a run of several processes rank 0 alone looks; the other one writes nothing either.
        flags = ["--runtime", "processes", "--targets", "1", "--drafters", "1"]
        ranks = start(output, cache, *flags, module=FORKING)
        _, said = ranks.communicate(timeout=180)
        assert ranks.returncode == 2
        assert [line for line in said.splitlines() if line.startswith("error: ")] == [
            f"error: rank 0: --output {output}: another run writes there (process 7 on there)"
        ]
        assert [path.name for path in output.iterdir()] == [".lock"]
        first.kill()
    # The lock went with the process: what is said now is about the checkpoints.
    assert main([*SHORT, "--output", str(output), "--resume"]) == 2
    assert "another run" not in capsys.readouterr().err


def test_growth_is_over_an_earlier_line_of_the_same_shapes() -> None:
    def growth(*lines: tuple[int, list[tuple[int, ...]]]) -> float:
        flat = Flatness()
        for peak, shapes in lines:
            flat.add(Memory(now=0, peak=peak), shapes)
        return flat.growth

    short, long = [(4, 64)], [(1, 256)]
    # The first line is the warm-up's; one line has nothing to be compared with.
    assert growth((900, short), (100, short)) == 0.0
    assert growth((100, short), (100, short), (125, short)) == 0.25
    # From the lowest line before, not from the one before or the first.
    assert growth((1, short), (120, short), (100, short), (110, short), (105, short)) == pytest.approx(0.1)
    assert growth((1, short), (200, short), (100, short)) == 0.0
    # Other buckets take other memory, and a set of shapes has no order.
    assert growth((1, short), (100, short), (300, long)) == 0.0
    assert growth((1, short), (100, [*short, *long]), (150, [*long, *short])) == 0.5
