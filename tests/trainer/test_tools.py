"""The commands beside the run: the planner's arithmetic and figures, and responses by the target."""

import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging as transformers_logging

from trainer import plan, regenerate, warmup
from trainer.assemble import assemble
from trainer.data.corpus import conversation
from trainer.decoding.generate import Generator
from trainer.decoding.passes import Passes
from trainer.errors import DataError, OutputError
from trainer.planning.layouts import Measured, Weights, layouts, split_layouts
from trainer.planning.measure import weights
from trainer.runtime.cached import drafter_step_of
from trainer.runtime.steps import DrafterStep, OpenDoor
from trainer.settings.config import build
from trainer.settings.presets import preset
from trainer.step.optim import Optimizer
from trainer.target.files import target_digest, text_digest
from trainer.target.model import SharedWeights, Target
from trainer.writing import locked

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
SMOKE = ["--profile", "cpu-smoke"]


def measured(target: float, drafter: float, both: float = 50.0, alone: float = 16.0) -> Measured:
    return Measured(
        tokens=8192,
        target_seconds=target,
        drafter_seconds=drafter,
        target_gb=alone,
        both_gb=both,
        apart_gb=max(alone, both - alone),
        device_gb=140.0,
    )


def test_the_planner_prefers_both_halves_on_each_device() -> None:
    # The measured halves of two H200s at Qwen3-8B's size: 17.4 ktok/s on one, 28.8 split 1 + 1, 33.8 data parallel.
    ranked = layouts(measured(0.187, 0.284), 2)
    assert [each.flags for each in ranked] == [
        "--runtime data-parallel --drafters 2", "--runtime processes --targets 1 --drafters 1", "--runtime inline",
    ]  # fmt: skip
    assert [round(each.tokens_per_second, -2) for each in ranked] == [33700, 28800, 17400]


def test_a_target_that_fits_only_alone_is_split_in_the_halves_proportion() -> None:
    ranked = layouts(measured(0.2, 0.3, both=150.0), 5)
    assert ranked[0].flags == "--runtime processes --targets 2 --drafters 3"
    assert ranked[0].tokens_per_second == pytest.approx(8192 * 10)
    assert [each.fits for each in ranked] == [True] * 4 + [False] * 2
    assert not any(each.fits for each in layouts(measured(0.2, 0.3, both=300.0, alone=200.0), 4))


def test_the_plan_command_measures_and_names_a_layout(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*SMOKE, "--set", "drafter.anchors=4", "--set", "data.tokens=128", "--set", "run.evaluate=0"]
    transformers_logging.enable_progress_bar()
    assert plan.main([*command, "--drafters", "2", "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == (
        "warning: envdoctor gate: mode off for profile cpu-smoke, because: trainer tests\n"
        "loading the target, then a few steps of each half\n"
    )
    told = json.loads(shown.out)
    assert (told["devices"], told["measured"]["tokens"]) == (2, 128)
    assert told["layouts"][0]["flags"] in {
        "--runtime data-parallel --drafters 2", "--runtime processes --targets 1 --drafters 1",
    }  # fmt: skip
    assert all(each["tokens_per_second"] > 0 for each in told["layouts"])


def test_the_planner_splits_a_target_that_no_device_holds() -> None:
    # 70 billion parameters in bf16 over cards of 80 GB.
    found = Weights(
        target_gb=141.0,
        shares=((2, 72.0), (4, 37.0), (8, 20.0)),
        unsplit="",
        drafter_gb=30.0,
        shared_gb=4.0,
        end_gb=152.0,
        device_gb=79.0,
    )
    assert [(each.flags, each.fits, each.weights_gb) for each in split_layouts(found, 8)] == [
        ("--runtime data-parallel --drafters 8 --set target.tensor_parallel=4", True, 67.0),
        ("--runtime data-parallel --drafters 8 --set target.tensor_parallel=8", True, 50.0),
        ("--runtime data-parallel --drafters 8 --set target.tensor_parallel=2", False, 102.0),
        ("--runtime processes --targets 4 --drafters 4", False, 152.0),
    ]
    # Five devices: a group of four, and one that is left out.
    assert split_layouts(found, 5)[0].flags == "--runtime data-parallel --drafters 4 --set target.tensor_parallel=4"
    assert not any(each.fits for each in split_layouts(found, 2))
    assert split_layouts(found, 1) == []


def test_the_plan_command_lists_layouts_for_a_target_that_the_machine_does_not_hold(
    tmp_path: Path, target_folder: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 126 layers of 16,384 channels with this vocabulary: 1.5 TB in fp32, of which there is the config alone.
    place = tmp_path / "giant"
    shutil.copytree(target_folder, place)
    config = json.loads((place / "config.json").read_text())
    config |= {
        "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128,
        "num_key_value_heads": 8, "head_dim": 128, "layer_types": ["full_attention"] * 126,
    }  # fmt: skip
    (place / "config.json").write_text(json.dumps(config))
    command = [
        *SMOKE, "--target", str(place), "--runtime", "data-parallel", "--drafters", "8", "--set", "run.evaluate=0",
    ]  # fmt: skip
    command += ["--set", "drafter.intermediate=64", "--set", "drafter.heads=2", "--set", "drafter.key_value_heads=2"]
    assert plan.main(command) == 2
    said = capsys.readouterr().out.splitlines()
    assert [line.split("device  ")[1] for line in said if "GB a device" in line] == [
        "--runtime data-parallel --drafters 8 --set target.tensor_parallel=2  (does not fit)",
        "--runtime data-parallel --drafters 8 --set target.tensor_parallel=4  (does not fit)",
        "--runtime data-parallel --drafters 8 --set target.tensor_parallel=8  (does not fit)",
        "--runtime processes --targets 4 --drafters 4  (does not fit)",
    ]
    assert said[0] == "target: 1,606.6 GB of weights; drafter: 13.5 GB with its optimizer"
    assert said[1:3] == [
        "processes: beside each drafter 0.0 GB of embedding and head",
        "processes: 1,610.0 GB on rank 0 at the end, with the whole target",
    ]
    assert said[-1] == "no layout fits"


OPTIONS: dict[str, dict[str, dict[str, object]]] = {
    "plain": {},
    "a vocabulary": {"drafter": {"vocabulary": 48}},
    "the target in fp8": {"target": {"fp8": True}, "loss": {"kind": "kl"}},
    "the drafter in fp8": {"drafter": {"fp8": True}, "run": {"compile": "on", "backend": "eager"}},
    "no evaluation": {"run": {"evaluate": 0}},
}


def storages(*roots: object) -> dict[int, int]:
    """Return address -> bytes of all memory that tensors hold which these objects lead to."""
    found: dict[int, int] = {}
    seen: set[int] = set()
    left = list(roots)
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, type | ModuleType | CodeType):
            continue
        seen.add(id(each))
        if isinstance(each, torch.Tensor):
            held = each.untyped_storage()
            found[held.data_ptr()] = held.nbytes()
        # Of a function what it encloses, not the module it stands in.
        left += [each.__closure__, each.__defaults__] if isinstance(each, FunctionType) else gc.get_referents(each)
    return found


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_the_planner_foretells_what_each_worker_holds(
    cache: Path,
    target_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    tied: bool,  # noqa: FBT001 - a parameter of the test
    dtype: torch.dtype,
) -> None:
    assert cache.is_dir()
    for module in ("trainer.assemble", "trainer.planning.measure"):
        monkeypatch.setattr(f"{module}.working_dtype", lambda _device: dtype)
    for module in ("trainer.target.model", "trainer.runtime.steps"):
        monkeypatch.setattr(f"{module}.require_fp8", lambda _device, _key: None)
    monkeypatch.setattr("trainer.fp8.FEWEST", 1)
    folder = tmp_path / "target"
    shutil.copytree(target_folder, folder)
    config = json.loads((folder / "config.json").read_text()) | {"tie_word_embeddings": tied}
    Qwen3ForCausalLM(Qwen3Config(**config)).save_pretrained(folder)
    parts = assemble(build("cpu-smoke", [preset("cpu-smoke"), {"target": {"path": str(folder)}}, OPTIONS[option]]))
    told = weights(parts, CPU, 1, 1.0)

    def trained(shared: SharedWeights) -> tuple[DrafterStep, Optimizer]:
        step = drafter_step_of(parts, CPU, shared, OpenDoor())
        optimizer = Optimizer(step.parameters, parts.config.optim, 1)
        optimizer.step(0, 1.0)
        return step, optimizer

    def size(*roots: object) -> int:
        # The list of kept tokens is the host's.
        return sum(size for place, size in storages(*roots).items() if place not in storages(parts.kept))

    target = parts.load_target(CPU)
    # Moments have a count of their steps, and a decoding has nothing.
    near = pytest.approx
    assert size(target) == near(told.target_gb * 1e9, abs=64)
    together = size(target, *trained(target.shared))
    assert together == near((told.target_gb + told.drafter_gb) * 1e9, abs=64)
    apart = trained(parts.load_shared(CPU))
    assert size(*apart) == near((told.drafter_gb + told.shared_gb) * 1e9, abs=64)
    masters = apart[0].parameters.masters()
    decodes = [parts.drafter(CPU)] if parts.config.run.evaluate else []
    assert size(target, masters, decodes) == near(told.end_gb * 1e9, abs=64)


def talks(place: Path, count: int) -> Path:
    rows = [
        {"conversations": [
            {"from": "human", "value": conversation(["river", "clock"])[0]["content"]},
            {"from": "gpt", "value": "what another model said"},
            {"from": "human", "value": conversation(["stone", "lantern", "river"][: 2 + line % 2])[0]["content"]},
            {"from": "gpt", "value": "and said again"},
        ]}
        for line in range(count)
    ]  # fmt: skip
    place.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def test_responses_are_the_targets_own_and_a_stopped_run_goes_on(
    cache: Path,
    target_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, out = talks(tmp_path / "talks.jsonl", 4), tmp_path / "made" / "own.jsonl"
    command = [
        *SMOKE, "--target", str(target_folder), "--data", str(data), "--out", str(out), "--max-tokens", "64",
        "--batch", "2",
    ]  # fmt: skip
    assert regenerate.main(command) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    # A row a turn: the second one's prompt holds what the target said in the first.
    assert [(row["origin"], row["last"]) for row in rows] == [
        (f"{data}:{line}", last) for line in range(1, 5) for last in (False, True)
    ]
    for one, two in zip(rows[::2], rows[1::2], strict=True):
        assert two["conversation"][:2] == one["conversation"]
        assert "what another model said" not in json.dumps(two)
        said = [token for token, wanted in zip(one["input_ids"], one["loss_mask"], strict=True) if wanted]
        assert one["input_ids"][-len(said) :] == said
    whole = out.read_text()
    # A kill in the middle of a write: half a conversation and half a line.
    out.write_text(whole[: whole.index(f'"{data}:3"') + 400])
    assert regenerate.main(command) == 0
    assert out.read_text() == whole
    # A row is known by what it says, wherever its file lies and whatever it is called.
    moved = tmp_path / "moved.jsonl"
    data.rename(moved)
    monkeypatch.chdir(tmp_path)
    command = ["./moved.jsonl" if word == str(data) else word for word in command]
    assert regenerate.main(command) == 0
    assert out.read_text() == whole
    capsys.readouterr()

    def interrupted(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Generator, "respond", interrupted)
    out.unlink()
    assert regenerate.main(command) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted; whole rows were kept: the same command goes on"


def test_files_of_one_name_are_told_apart_and_settings_are_kept(
    cache: Path, target_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cache.is_dir()
    places = [tmp_path / name for name in ("one", "two")]
    for place in places:
        place.mkdir()
        talks(place / "talks.jsonl", 1)
    out = tmp_path / "own.jsonl"
    data = [word for place in places for word in ("--data", str(place))]
    command = [*SMOKE, "--target", str(target_folder), "--out", str(out), "--max-tokens", "4", *data]

    def refused(*flags: str) -> list[str]:
        before = out.read_bytes()
        assert regenerate.main([*command, *flags]) == 2
        assert out.read_bytes() == before
        return capsys.readouterr().err.splitlines()[-2:]

    assert regenerate.main(command) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["origin"] for row in rows] == [f"{place}/talks.jsonl:1" for place in places]
    # A row less, as a killed run leaves it, and the end of another: it goes on from there.
    whole = out.read_text()
    out.write_text(whole.splitlines(keepends=True)[0] + '{"origin": "')
    assert refused("--data", str(places[0])) == [
        f"error: --data: {places[0]}/talks.jsonl is given twice", "hint: give each file once",
    ]  # fmt: skip
    assert regenerate.main(command) == 0
    assert out.read_text() == whole
    # With anything else the rows of two would be one file.
    out.write_text(whole + '{"origin": "')
    assert refused("--temperature", "0.5") == [
        f"error: --temperature: 0.5, and the rows of {out} were made with 0.0",
        "hint: give --temperature as it was to go on, or another --out",
    ]
    assert refused("--max-tokens", "5")[0] == f"error: --max-tokens: 5, and the rows of {out} were made with 4"
    assert refused("--set", "run.seed=3")[0] == f"error: run.seed: 3, and the rows of {out} were made with 0"
    assert refused("--set", "target.template_arguments=['a=1']")[0] == (
        f"error: target.template_arguments: a=1, and the rows of {out} were made with none"
    )
    tuned, moved = tmp_path / "tuned", tmp_path / "moved"
    for copy in (tuned, moved):
        shutil.copytree(target_folder, copy)
    config = json.loads((tuned / "config.json").read_text())
    (tuned / "config.json").write_text(json.dumps({**config, "rope_theta": 5.0}))
    assert refused("--target", str(tuned))[0] == (
        f"error: --target: {tuned} ({target_digest(tuned)}), and the rows of {out} were made with {target_folder}"
        f" ({target_digest(target_folder)})"
    )
    assert regenerate.main([*command, "--target", str(moved)]) == 0
    with locked(out.with_name(".own.jsonl.lock"), "", ""):
        assert refused() == [
            f"error: --out {out}: another process writes there (process {os.getpid()} on {socket.gethostname()})",
            "hint: wait until it has ended, or give another file",
        ]  # fmt: skip
    # What decides how the target's tokens are read, and where its text ends.
    (moved / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    assert refused("--target", str(moved))[0] == (
        f"error: the target's tokenizer: {moved} ({text_digest(moved)}), and the rows of {out} were made with"
        f" {target_folder} ({text_digest(target_folder)})"
    )
    settings = tmp_path / "own.jsonl.settings.json"
    kept = json.loads(settings.read_text())
    for broken in ([], {**kept, "--target": []}, {**kept, "--target": [1, 2]}, {**kept, "run.seed": "0"}):
        settings.write_text(json.dumps(broken))
        assert refused() == [
            f"error: --out {out}: has rows, and {settings} does not say what made them", "hint: give another file",
        ]  # fmt: skip


def no_room(*_: object, **__: object) -> None:
    torch.empty(1 << 50)  # 4 PB, which no machine has: what a CPU says of it is torch's own


def test_responses_without_room_keep_what_is_written(
    cache: Path,
    target_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cache.is_dir()
    data, out = talks(tmp_path / "talks.jsonl", 2), tmp_path / "own.jsonl"
    command = [*SMOKE, "--target", str(target_folder), "--data", str(data), "--out", str(out), "--max-tokens", "8"]
    full = "can't allocate memory: you tried to allocate 4503599627370496 bytes. Error code 12 (Cannot allocate memory)"
    with monkeypatch.context() as patch:
        patch.setattr(Target, "load", no_room)
        assert regenerate.main(command) == 2
        assert capsys.readouterr().err.splitlines()[-2:] == [
            f"error: loading {target_folder}: {full}", "hint: free the device, or choose another with --device",
        ]  # fmt: skip
    score, passes = Passes.score, [0]

    def later(*arguments: Any) -> torch.Tensor:
        passes[0] += 1
        if passes[0] > 12:
            no_room()
        return score(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Passes, "score", later)
        assert regenerate.main([*command, "--batch", "1"]) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: 1 responses side by side: {full}",
        "hint: lower --batch or --max-tokens; what is written stays, and the command goes on from there",
    ]
    assert [json.loads(line)["origin"] for line in out.read_text().splitlines()] == [f"{data}:1"]
    assert regenerate.main(command) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["origin"], row["last"]) for row in rows] == [(f"{data}:1", True), (f"{data}:2", True)]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--max-tokens", "0"], "error: --max-tokens: 0"),
        (["--temperature", "-1"], "error: --temperature: -1.0"),
        ([], "error: --target and --data: both are needed"),
    ],
)
def test_regenerate_refuses_what_it_cannot_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], told: str
) -> None:
    assert regenerate.main([*SMOKE, "--out", str(tmp_path / "own.jsonl"), *flags]) == 2
    assert told in capsys.readouterr().err.splitlines()


def test_a_file_of_something_else_is_not_appended_to(
    target_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = talks(tmp_path / "talks.jsonl", 1)
    assert regenerate.main([*SMOKE, "--target", str(target_folder), "--data", str(data), "--out", str(data)]) == 2
    told = capsys.readouterr().err
    assert f"error: --out {data}: line 1 is not a row of this command\nhint: give another file\n" in told


OWN = b'{"origin": "a:1", "row": "1-1", "input_ids": [1], "loss_mask": [1], "conversation": [], "last": true}\n'


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{"a": 1}', 1), (b'{"a": 1}\n', 1), (b"[1,\n2]", 1), (b"text", 1), (b"\xff", 1), (b"[" * 100_000 + b"\n", 1),
        (b'{"origin": "a:1", "last": false}\n', 1), (b'{"origin": "a:1", "last": 1}\n', 1), (OWN[:40], 1),
        (OWN + b"a note", 2), (OWN + b'{"a": 1}', 2), (OWN + b'{"a": 1}\n', 2), (OWN.replace(b"true", b"1"), 1),
    ],
)  # fmt: skip
def test_a_file_with_anything_else_is_not_cut(tmp_path: Path, content: bytes, line: int) -> None:
    out = tmp_path / "mine.json"
    out.write_bytes(content)
    with pytest.raises(DataError) as caught:
        regenerate._held(out)
    assert (caught.value.message, caught.value.hint) == (
        f"--out {out}: line {line} is not a row of this command", "give another file",
    )  # fmt: skip
    assert out.read_bytes() == content


def test_a_file_of_0_4_0_is_told_as_that(tmp_path: Path) -> None:
    out = tmp_path / "own.jsonl"
    out.write_bytes(OWN.replace(b' "row": "1-1",', b""))
    with pytest.raises(DataError) as caught:
        regenerate._held(out)
    assert (caught.value.message, caught.value.hint) == (
        f"--out {out}: line 1 was written by 0.4.0, which kept no digest of the conversation",
        "give another file; this one can be trained on as it is",
    )  # fmt: skip


@pytest.mark.parametrize("kept", range(0, len(OWN) + 1, 7))
def test_what_a_killed_run_left_behind_whole_rows_is_cut(tmp_path: Path, kept: int) -> None:
    out = tmp_path / "own.jsonl"
    half = OWN.replace(b"a:1", b"a:2").replace(b"true", b"false")
    out.write_bytes(OWN + half + half[:kept])
    assert regenerate._held(out) == ({"1-1"}, len(OWN))
    regenerate._cut(out, len(OWN))
    assert out.read_bytes() == OWN


def test_an_out_that_is_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        regenerate._held(tmp_path)
    assert caught.value.message == f"--out {tmp_path}: cannot be read: Is a directory"


def test_a_warm_up_loads_no_whole_target_where_the_run_splits_it(capsys: pytest.CaptureFixture[str]) -> None:
    command = [*SMOKE, "--runtime", "data-parallel", "--drafters", "2", "--set", "target.tensor_parallel=2"]
    assert warmup.main(command) == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "error: target.tensor_parallel: 2: a target is split by the run alone, not here",
        "hint: start the run: it compiles every bucket before its first step (run.warm)",
    ]


OBJECTIVES = {
    "kl": ["--set", "loss.kind=kl"],
    "dpace": ["--set", "loss.positions=dpace"],
    "vocabulary": ["--set", "drafter.vocabulary=48"],
    "all": ["--set", "loss.kind=kl", "--set", "loss.positions=dpace", "--set", "drafter.vocabulary=48"],
}
COUNTED = """
import json, sys
from trainer.__main__ import main
from trainer.runtime.warmup_workers import _counters
code = main(sys.argv[1:])
print(json.dumps(_counters()))
sys.exit(code)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a compile cache of the objectives' own: what they share is compiled once."""
    return tmp_path_factory.mktemp("kernels")


# Inductor's C++ for one objective after the other takes minutes.
@pytest.mark.giant
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_run_compiles_nothing_that_its_warm_up_has_not(
    cache: Path, kernels: Path, tmp_path: Path, objective: str
) -> None:
    small = ("drafter.layers=1", "drafter.anchors=4", "data.buckets=[64]", "data.tokens=64", "target.layer_ids=[0]")
    flags = [*SMOKE, "--compile", "on", *OBJECTIVES[objective], "--set", "run.evaluate=0"]
    flags += [word for each in small for word in ("--set", each)]

    def told(*command: str) -> Any:
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, text=True, capture_output=True, check=False,
            env={**os.environ, "XDG_CACHE_HOME": str(cache), "TORCHINDUCTOR_CACHE_DIR": str(kernels)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    (warmed,) = told("-m", "trainer.warmup", *flags)["processes"]
    assert (warmed["compiles"], warmed["second_round"]) == (True, 0)
    # The objective's kernel at least is new.
    assert warmed["counters"]["fxgraph_cache_miss"] > 0
    ran = told("-c", COUNTED, *flags, "--steps", "2", "--quiet", "--output", str(tmp_path / "run"))
    assert ran["fxgraph_cache_miss"] == ran["autograd_cache_miss"] == 0
    assert ran["fxgraph_cache_hit"] > 0
