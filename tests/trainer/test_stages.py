"""What a run does besides its steps: stages, evaluation while it trains, profiler, trackers, epochs, two nodes."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from tests.factories.make_port import make_port
from tests.trainer.test_run import lines, same, state
from trainer.__main__ import main
from trainer.assemble import assemble
from trainer.data.chat import mask_token
from trainer.data.corpus import conversations
from trainer.decoding.evaluate import Evaluation, SpeculativeDecoder
from trainer.device import Memory, read_memory
from trainer.errors import ConfigError
from trainer.records import tracking
from trainer.records.profiler import ProfilerWindow
from trainer.records.tracking import Tracker
from trainer.runtime import finalize, loop
from trainer.runtime.finalize import Finalizer
from trainer.settings.config import build
from trainer.settings.presets import preset

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    "--profile", "cpu-smoke", "--quiet", "--set", "drafter.anchors=4", "--set", "data.tokens=256", "--set",
    "drafter.layers=1", "--set", "run.evaluate=0", "--set", "run.log_every=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def first(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output of a run of four steps."""
    output = tmp_path_factory.mktemp("first") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("ENVDOCTOR_GATE", "off")
        patch.setenv("ENVDOCTOR_GATE_REASON", "trainer tests")
        patch.setenv("ENVDOCTOR_GATE_LOG", str(output.parent / "gate.log"))
        assert main([*TINY, "--steps", "4", "--output", str(output)]) == 0
    return output


def test_a_finished_run_goes_on_as_a_new_stage(first: Path, cache: Path, tmp_path: Path) -> None:
    # A rate of almost nothing: what the stage starts with is what it ends with.
    still = ["--set", "optim.learning_rate=1e-30", "--set", "optim.accumulate=2", "--steps", "2"]
    second = tmp_path / "second"
    assert main([*TINY, *still, "--set", f"run.extends={first}", "--output", str(second)]) == 0
    before, after = state(first, 4), state(second, 2)
    assert all(torch.equal(before[name], after[name]) for name in before if "exp_avg" not in name)
    assert any(not torch.equal(before[name], after[name]) for name in before if "exp_avg" in name)
    told = json.loads((second / "checkpoints" / "step-000002" / "state.json").read_text())
    (stage,) = told["identity"]["ancestry"]
    assert (stage["run"], stage["step"], stage["batches"]) == ("run", 4, 4)
    # Four batches were read before, two a step since; the moments go on.
    assert (told["step"], told["batches"], told["optimizer_steps"]) == (2, 8, 6)
    # It resumes as itself wherever its parent is, and a third stage knows both.
    assert main([*TINY, *still, "--set", "run.extends=gone", "--output", str(second), "--resume"]) == 0
    third = tmp_path / "third"
    assert main([*TINY, "--steps", "1", "--set", f"run.extends={second}", "--output", str(third)]) == 0
    told = json.loads((third / "checkpoints" / "step-000001" / "state.json").read_text())
    assert [stage["run"] for stage in told["identity"]["ancestry"]] == ["run", "second"]
    assert json.loads((third / "provenance.jsonl").read_text())["identity"]["ancestry"] == told["identity"]["ancestry"]


def test_a_drafter_says_the_same_tokens_in_every_stage(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cache.is_dir()
    run = tmp_path / "run"
    place = run / "checkpoints" / "step-000001" / "state.json"
    command = [*TINY, "--set", "drafter.vocabulary=40", "--steps", "1"]
    stage = [*command, "--set", f"run.extends={run}", "--output"]
    other = ["--set", "run.seed=5"]
    assert main([*command, "--output", str(run)]) == 0
    told = json.loads(place.read_text())
    # The embedded corpus of another seed says others most often.
    settings = {"drafter": {"vocabulary": 40}, "run": {"seed": 5, "evaluate": 0}}
    parts = assemble(build("cpu-smoke", [preset("cpu-smoke"), settings]))
    assert parts.kept is not None
    assert parts.kept.tolist() != told["kept"]
    assert main([*stage, str(tmp_path / "next"), *other]) == 0
    after = json.loads((tmp_path / "next" / "checkpoints" / "step-000001" / "state.json").read_text())
    assert after["kept"] == told["kept"]
    assert after["identity"]["rows"] != told["identity"]["rows"]
    held = load_file(tmp_path / "next" / "drafter" / "model.safetensors")
    assert (held["d2t"] + torch.arange(40)).tolist() == told["kept"]
    # What is kept decides, also where the run resumes.
    assert main([*command, "--output", str(run), "--resume", "--set", "drafter.vocabulary=39"]) == 2
    digest = told["identity"]["vocabulary"]
    assert f"{place.parents[1]} belongs to another run: vocabulary: saved '{digest}', now" in capsys.readouterr().err
    place.write_text(json.dumps(told | {"kept": parts.kept.tolist()}))
    assert main([*command, "--output", str(run), "--resume"]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: {place}: kept not as a checkpoint has it",
        f"hint: remove {place.parent} to resume from the one before",
    ]
    # 0.4.0 kept none: its rows tell them again, and no others do.
    place.write_text(json.dumps({name: value for name, value in told.items() if name != "kept"}))
    assert main([*stage, str(tmp_path / "early"), *other]) == 2
    first, last = capsys.readouterr().err.splitlines()[-2:]
    assert first.startswith(f"error: run.extends: {run} has another drafter or target: vocabulary: there ")
    assert last == (
        "hint: give these settings as they were there; steps, optim.*, loss.*, rows and workers may differ;"
        " 0.4.0 kept no list of the drafter's tokens: extend it over its own rows first, then that stage"
    )
    assert main([*stage, str(tmp_path / "own"), "--set", "run.evaluate=1", "--set", "run.evaluate_tokens=2"]) == 0
    after = json.loads((tmp_path / "own" / "checkpoints" / "step-000001" / "state.json").read_text())
    assert after["kept"] == told["kept"]


def test_a_run_starts_from_published_weights_and_resumes_without_them(
    first: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published, run = tmp_path / "published", tmp_path / "run"
    shutil.copytree(first / "drafter", published)
    command = [*TINY, "--steps", "2", "--set", "run.save_every=1", "--set", "optim.learning_rate=1e-30"]
    command += ["--output", str(run)]
    named = ["--set", f"drafter.weights={published}"]
    assert main([*command, *named]) == 0
    wanted, found = load_file(published / "model.safetensors"), load_file(run / "drafter" / "model.safetensors")
    assert same(wanted, found)
    told = json.loads((run / "checkpoints" / "step-000002" / "state.json").read_text())["identity"]
    # A checkpoint has all that the run goes on from: the folder may be empty or gone, or not be named.
    (published / "model.safetensors").unlink()
    for flags in (named, named, []):
        shutil.rmtree(run / "checkpoints" / "step-000002")
        assert main([*command, *flags, "--resume"]) == 0
        assert json.loads((run / "checkpoints" / "step-000002" / "state.json").read_text())["identity"] == told
        shutil.rmtree(published, ignore_errors=True)
    # Other weights are those of another run.
    capsys.readouterr()
    shutil.copytree(first / "drafter", published)
    (published / "more.safetensors").write_bytes(b"x")
    assert main([*command, *named, "--resume"]) == 2
    assert f"belongs to another run: weights_from: saved '{told['weights_from']}', now " in capsys.readouterr().err


def test_a_stage_of_another_drafter_is_refused(
    first: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*TINY, "--steps", "1", "--output", str(tmp_path / "run")]
    assert main([*command, "--set", f"run.extends={first}", "--set", "drafter.block=4"]) == 2
    told = capsys.readouterr().err
    assert f"error: run.extends: {first} has another drafter or target: block: there 8, now 4" in told
    assert "hint: give these settings as they were there; steps, optim.*, loss.*, rows and workers may differ" in told
    assert main([*command, "--set", f"run.extends={tmp_path}"]) == 2
    told = capsys.readouterr().err
    assert f"error: run.extends: {tmp_path}/checkpoints: no checkpoint" in told
    assert "hint: give the --output folder of a run that has saved a checkpoint" in told


def test_epochs_are_as_many_steps_as_it_takes(cache: Path) -> None:
    told = {"data": {"tokens": 6144, "buckets": [48]}, "run": {"epochs": 2, "evaluate": 0}, "optim": {"accumulate": 2}}
    # 384 rows in batches of 128 rows: three batches an epoch, six in all, two a step.
    assert assemble(build("cpu-smoke", [preset("cpu-smoke"), told])).config.run.steps == 3


def test_the_best_drafter_so_far_stays_until_a_better_one_comes(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cache.is_dir()
    lengths = iter((2.0, 1.0, 1.5, 1.0, 1.9, 1.0, 1.8, 1.0, 2.5, 1.0))

    def evaluated(*_: object, temperature: float, **__: object) -> Evaluation:
        return Evaluation(
            prompts=1, identical=1, tokens=9, cycles=4, acceptance_length=next(lengths), interval=(1.0, 3.0),
            by_position=(), by_prompt=((4, 4),), temperature=temperature,
        )  # fmt: skip

    monkeypatch.setattr("trainer.runtime.finalize.evaluate", evaluated)
    output, best = tmp_path / "run", tmp_path / "run" / "best"
    command = [
        *TINY, "--steps", "3", "--output", str(output), "--set", "run.evaluate=1", "--set", "run.evaluate_every=1",
        "--set", "run.save_every=1", "--set", "data.tokens=64",
    ]  # fmt: skip

    def kept() -> tuple[int, float]:
        told = json.loads((best / "best.json").read_text())
        return told["step"], told["acceptance_length"]

    assert main(command) == 0
    # Once a step: after the last one it is the closing evaluation.
    assert [(line["step"], line["acceptance_length"]) for line in lines(output, "evaluation") if "step" in line] == [
        (1, 2.0), (2, 1.5), (3, 1.9),
    ]  # fmt: skip
    assert kept() == (1, 2.0)
    weights = (best / "model.safetensors").read_bytes()
    assert weights != (output / "drafter" / "model.safetensors").read_bytes()
    # The run that goes on knows it: a worse one leaves it, a better one takes its place.
    for left in ((1, 2.0), (3, 2.5)):
        shutil.rmtree(output / "checkpoints" / "step-000003")
        assert main([*command, "--resume"]) == 0
        assert kept() == left
    assert (best / "model.safetensors").read_bytes() == (output / "drafter" / "model.safetensors").read_bytes()
    # That of another run is neither kept for this one's nor written over.
    told = json.loads((best / "best.json").read_text())
    (best / "best.json").write_text(json.dumps(told | {"identity": "another"}))
    capsys.readouterr()
    assert main([*command, "--resume"]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: {best}: the best drafter of another run", "hint: move it away: another one is kept there",
    ]  # fmt: skip
    shutil.rmtree(output / "checkpoints")
    assert main(command) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: --output {output}: holds best/ of an earlier run", f"hint: remove {best}, or give another folder",
    ]  # fmt: skip
    assert (best / "model.safetensors").is_file()


def test_what_is_learnt_and_evaluated_on_is_said(
    cache: Path,
    target_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cache.is_dir()
    command = [word for word in TINY if word != "--quiet"]
    command += ["--steps", "1", "--set", "run.evaluate=2", "--set", "run.evaluate_tokens=4"]
    with monkeypatch.context() as patch:
        patch.setattr(loop, "QUIET_SECONDS", 0)
        patch.setattr(finalize, "QUIET_SECONDS", 0)
        assert main([*command, "--output", str(tmp_path / "toy")]) == 0
    told = capsys.readouterr()
    # What takes long is not silent.
    assert re.search(r"^the first step took \d+ s; a line every 2 steps$", told.err, re.MULTILINE)
    going = r"^the closing evaluation: decoding for \d+ s \(run.evaluate, run.evaluate_tokens\)$"
    assert re.search(going, told.err, re.MULTILINE)
    toy = "the toy target on the embedded corpus (no --target, no --data)"
    prompts = "2 of 384 rows, held out of training"
    assert f"training {toy}\nevaluations take their prompts from {prompts}\n" in told.err
    assert f"trained     {toy}" in told.out
    assert f"prompts     {prompts}" in told.out
    found = json.loads((tmp_path / "toy" / "evaluation.json").read_text())
    assert (found["held_out"], found["rows"]) == (2, prompts)
    # What a library for terminals might take for markup.
    data = tmp_path / "few[" / "red].jsonl"
    data.parent.mkdir()
    data.write_text("".join(json.dumps({"conversations": talk}) + "\n" for talk in conversations(3, 1)))
    chosen = ["--target", str(target_folder), "--data", str(data)]
    assert main([*command, *chosen, "--output", str(tmp_path / "few")]) == 0
    told = capsys.readouterr()
    assert f"training {target_folder} on 3 rows of {data}\n" in told.err
    assert "evaluations take their prompts from rows that are trained on: of 3 none can be held out\n" in told.err
    found = json.loads((tmp_path / "few" / "evaluation.json").read_text())
    assert (found["held_out"], found["rows"]) == (0, "rows that are trained on: of 3 none can be held out")


def test_evaluating_while_it_trains_exports_what_engines_read(cache: Path, tmp_path: Path) -> None:
    command = [
        *TINY, "--steps", "2", "--output", str(tmp_path), "--set", "run.evaluate=1", "--set", "run.evaluate_tokens=4",
        "--set", "run.evaluate_every=1", "--set", "data.tokens=64", "--set", "drafter.vocabulary=40",
        "--set", "loss.kind=kl", "--set", "loss.positions=dpace",
    ]  # fmt: skip
    assert main(command) == 0
    during = [line for line in lines(tmp_path, "evaluation") if "step" in line]
    assert [line["step"] for line in during] == [1, 2]
    for line in during:
        # Sampling with the same noise gives the target's own text too.
        assert (line["identical"], line["sampled"]["identical"], line["sampled"]["temperature"]) == (1, 1, 1.0)  # type: ignore[index]
        assert float(line["speedup"]) > 0  # type: ignore[arg-type]
    best = json.loads((tmp_path / "best" / "best.json").read_text())
    assert best["acceptance_length"] == max(line["acceptance_length"] for line in during)  # type: ignore[type-var]
    # The export has the mapping that engines read, and loads with its own code.
    held = load_file(tmp_path / "best" / "model.safetensors")
    config = json.loads((tmp_path / "best" / "config.json").read_text())
    assert config["draft_vocab_size"] == len(held["d2t"]) == len(held["lm_head.weight"]) == 40
    kept = torch.arange(40) + held["d2t"]
    assert torch.equal(kept, held["t2d"].nonzero().flatten())
    model = AutoModel.from_pretrained(tmp_path / "best", trust_remote_code=True)
    assert torch.equal(model.lm_head.weight, held["lm_head.weight"])
    assert torch.equal(model.d2t, held["d2t"])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"run": {"evaluate_every": 2, "evaluate": 0}},
            "run.evaluate_every: 2 does nothing: run.evaluate is 0, so nothing is evaluated",
        ),
        (
            {"run": {"evaluate_every": 2}, "topology": {"runtime": "threads"}},
            "run.evaluate_every: in the threads runtime no worker holds a drafter and a target",
        ),
        ({"run": {"profile": [3]}}, "run.profile: [3] is not a first and a last step"),
        ({"loss": {"kind": "mse"}}, "loss.kind: 'mse' is none of ce, kl"),
        (
            {"run": {"extends": "one"}, "drafter": {"weights": "other"}},
            "run.extends: its weights come from the earlier run, and drafter.weights names others",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, dict[str, object]], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build("cpu-smoke", [settings])
    assert caught.value.message == told


def test_a_vocabulary_larger_than_the_targets_is_refused(cache: Path) -> None:
    with pytest.raises(ConfigError, match=r"drafter.vocabulary: 100000 of the \d+ tokens of the target"):
        assemble(build("cpu-smoke", [preset("cpu-smoke"), {"drafter": {"vocabulary": 100_000}}]))


def test_event_files_need_their_package_and_take_every_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = build("cpu-smoke", [{"run": {"tensorboard": True}}])
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r"run.tensorboard: tensorboard is not installed"):
        Tracker(config, tmp_path)
    assert tracking._numbers("train", {"loss": 2.5, "by_position": [0.5, 1], "waits": {"features": 0.1}, "x": "y"}) == [
        ("train/loss", 2.5), ("train/by_position/1", 0.5), ("train/by_position/2", 1.0), ("train/waits/features", 0.1),
    ]  # fmt: skip


def test_the_profiler_records_its_window_alone(tmp_path: Path) -> None:
    window = ProfilerWindow((2, 3), tmp_path)
    for step, size in ((1, 3), (2, 4), (3, 5), (4, 6)):
        with window.step(step):
            torch.ones(size, size) @ torch.ones(size, size)
    window.close()
    assert "aten::mm" in (tmp_path / "profile" / "steps-2-3.txt").read_text()
    told = gzip.decompress((tmp_path / "profile" / "steps-2-3.json.gz").read_bytes()).decode()
    assert ["[4, 4]" in told, "[5, 5]" in told, "[3, 3]" in told, "[6, 6]" in told] == [True, True, False, False]


def test_a_window_that_spans_an_evaluation_ends_before_it(cache: Path, tmp_path: Path) -> None:
    assert cache.is_dir()
    command = [
        *TINY, "--steps", "4", "--set", "run.profile=[2,4]", "--set", "run.evaluate=1",
        "--set", "run.evaluate_tokens=4", "--set", "run.evaluate_every=3", "--output", str(tmp_path / "run"),
    ]  # fmt: skip
    assert main(command) == 0
    assert sorted(file.name for file in (tmp_path / "run" / "profile").iterdir()) == [
        "steps-2-3.json.gz", "steps-2-3.txt",
    ]  # fmt: skip


def test_what_an_evaluation_takes_is_not_the_trainings_memory(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache.is_dir()
    # A device whose steps reach 100 bytes and whose evaluations reach 400; a reading starts a new high-water mark.
    peak = [100]

    def reading(_: object) -> Memory:
        found, peak[0] = peak[0], 100
        return Memory(now=100, peak=found)

    monkeypatch.setattr("trainer.runtime.loop.read_memory", reading)
    monkeypatch.setattr(Finalizer, "during", lambda *_: peak.__setitem__(0, 400))
    output = tmp_path / "run"
    command = [*TINY, "--steps", "6", "--set", "run.log_every=1", "--set", "run.evaluate_every=2"]
    command += ["--set", "run.evaluate=1", "--set", "run.evaluate_tokens=4", "--output", str(output)]
    assert main(command) == 0
    assert [line["memory_peak"] for line in lines(output, "step")] == [100] * 6


def test_the_first_reading_of_a_devices_memory_starts_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    # torch.cuda.reset_peak_memory_stats raises where nothing has started it: no GPU is there to show it.
    started = []

    def reset(_: object) -> None:
        assert started == [True]

    monkeypatch.setattr(torch.cuda, "init", lambda: started.append(True))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 1)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 2)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset)
    assert read_memory(torch.device("cuda", 0)) == Memory(now=1, peak=2)


@pytest.mark.parametrize("package", ["tensorboard", "wandb"])
def test_a_package_that_is_missing_is_told_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], package: str
) -> None:
    monkeypatch.setattr(tracking, "find_spec", lambda _name: None)
    monkeypatch.setattr("trainer.train.assemble", lambda _config: pytest.fail("something was loaded"))
    asked = ["--set", "run.tensorboard=true"] if package == "tensorboard" else ["--wandb", "mine"]
    assert main([*TINY, *asked, "--output", str(tmp_path / "run")]) == 2
    told = "run.tensorboard: tensorboard" if package == "tensorboard" else "run.wandb: mine, but wandb"
    assert f"error: {told} is not installed" in capsys.readouterr().err.splitlines()


def test_two_nodes_under_torchrun_train_the_bits_of_one(cache: Path, tmp_path: Path) -> None:
    command = [*TINY, "--steps", "2", "--runtime", "data-parallel", "--drafters", "2"]
    with make_port() as port:
        nodes = [
            subprocess.Popen(
                [
                    sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node),
                    "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(port), "-m", "trainer",
                    *command, "--output", str(tmp_path / "two"),
                ],
                cwd=ROOT, env={**os.environ, "XDG_CACHE_HOME": str(cache)}, text=True, stderr=subprocess.PIPE,
            )
            for node in range(2)
        ]  # fmt: skip
        told = [node.communicate(timeout=400)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], told
    one = ["--runtime", "inline", "--drafters", "1", "--set", "optim.accumulate=2", "--set", "data.together=2"]
    assert main([*TINY, "--steps", "2", *one, "--output", str(tmp_path / "one")]) == 0
    assert same(state(tmp_path / "one", 2), state(tmp_path / "two", 2))


def test_a_tokenizer_without_a_spare_row_is_told_which_tokens_no_text_has(target_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(target_folder)
    tokenizer.mask_token = None
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|file_sep|>", "<|reserved_1|>"]})
    size = len(tokenizer)
    with pytest.raises(ConfigError) as caught:
        mask_token(-1, tokenizer, size)
    assert caught.value.message == f"drafter.mask_token: none in a vocabulary of {size}"
    wanted = f"set drafter.mask_token to a token that no text has; the tokenizer has {size - 1} (<|reserved_1|>)"
    assert caught.value.hint.startswith(wanted)
    assert f"{size - 2} (<|file_sep|>)" in caught.value.hint


def test_the_readmes_gate_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "trainer" / "README.md").read_text()
    code = text.split("```python\n")[1].split("```")[0].replace('"inductor"', '"aot_eager"')
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - the documented example
    # Two models and two shapes each: four steps alone, the repeated ones together.
    assert "alone=4, together=4" in capsys.readouterr().out


def test_an_evaluation_without_room_ends_a_run_that_is_saved(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cache.is_dir()
    command = [
        *TINY, "--steps", "4", "--output", str(tmp_path), "--set", "run.evaluate=1", "--set", "run.evaluate_tokens=4",
        "--set", "run.evaluate_every=1", "--set", "run.save_every=3",
    ]  # fmt: skip
    with monkeypatch.context() as patch:
        # More than any machine has: what a CPU says of it is torch's own.
        patch.setattr(SpeculativeDecoder, "plain_texts", lambda *_, **__: torch.empty(1 << 50))
        assert main(command) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "error: the evaluation after step 1: can't allocate memory: you tried to allocate 4503599627370496 bytes."
        " Error code 12 (Cannot allocate memory)",
        "hint: lower run.evaluate_positions (now 32768), then go on with --resume",
    ]
    assert [place.name for place in tmp_path.glob("checkpoints/step-*")] == ["step-000002"]
    assert main([*command, "--resume", "--set", "run.evaluate_positions=20"]) == 0
