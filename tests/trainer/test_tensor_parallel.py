"""A target that several processes hold together: its features, whole runs with it, and what is refused."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from tests.factories.make_port import make_port
from trainer.__main__ import main
from trainer.errors import TrainerError
from trainer.target.tensor_parallel import members, split_plan

ROOT = Path(__file__).resolve().parents[2]
SIZES = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "qwen3": ("Qwen3", {"head_dim": 8, "tie_word_embeddings": True}),
    "qwen3_moe": (
        "Qwen3Moe", {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    ),
    "phi3": ("Phi3", {"pad_token_id": 0}),
}  # fmt: skip


def made(place: Path, kind: str, **sizes: object) -> Path:
    """Write a random target of a kind, drawn wide enough for its layers to matter."""
    name, own = KINDS[kind]
    config = getattr(transformers, f"{name}Config")(**{**SIZES, **own, **sizes, "initializer_range": 0.3})
    torch.manual_seed(0)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.normal_(1.0, 0.3)
    model.save_pretrained(place / kind)
    return place / kind


def together(count: int, place: Path, *words: object) -> None:
    """Run the worker in so many processes, which share everything but their rank."""
    with ExitStack() as stack:
        # A store for each run: the one before may not be gone yet.
        ports = [str(stack.enter_context(make_port())) for _ in range(4)]
        told = [str(count), str(place), ",".join(ports), *(str(word) for word in words)]
        command = [sys.executable, "-m", "tests.trainer.tensor_parallel_worker", *told]
        subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    said = [(place / f"stderr-{rank}").read_text() for rank in range(count)]
    assert json.loads((place / "codes.json").read_text()) == [0] * count, said


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Return, for each kind of target, what each of two ranks found."""
    place = tmp_path_factory.mktemp("targets")
    folders = [made(place, kind) for kind in KINDS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(place / "hf"))
        together(2, place, "features", *folders)
    return {
        folder.name: [json.loads((folder / f"found-{rank}.json").read_text()) for rank in range(2)]
        for folder in folders
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_split_target_has_the_features_of_the_whole_one(compared: dict[str, list[dict[str, Any]]], kind: str) -> None:
    assert len(compared[kind]) == 2
    for rank, found in enumerate(compared[kind]):
        assert found["place"] == rank % 2
        assert found["far"].pop("embedding") == found["far"].pop("head") == 0
        assert {name: far for name, far in found["far"].items() if far > 2e-5 * max(found["size"], 1)} == {}
        assert found["exchanged"]
        assert found["breaks"] == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_holds_its_share_and_no_more(compared: dict[str, list[dict[str, Any]]], kind: str) -> None:
    assert len(compared[kind]) == 2
    for found in compared[kind]:
        assert found["foretold"] == found["bytes"]
        assert found["bytes"][1] < 0.75 * found["bytes"][0]


@pytest.fixture(scope="module")
def trained(cache: Path, target_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the runs of four processes: whole targets, split ones; from a cache, resumed."""
    place = tmp_path_factory.mktemp("runs")
    rows = [
        {"input_ids": [(7 * row + step) % 50 + 5 for step in range(size)], "loss_mask": [0] * 4 + [1] * (size - 4)}
        for row, size in enumerate([20, 22, 24, 26, 30, 40, 50, 60] * 5)
    ]
    (place / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    flags = [
        "--profile", "cpu-smoke", "--target", str(target_folder), "--data", str(place / "rows.jsonl"), "--quiet",
        "--runtime", "data-parallel", "--drafters", "4", "--steps", "8", "--set", "run.save_every=4",
        "--set", "run.log_every=1", "--set", "run.evaluate=2", "--set", "run.evaluate_tokens=6",
        "--set", "data.tokens=128", "--set", "data.pack=true", "--set", "data.prefetch=1",
    ]  # fmt: skip
    (place / "flags.json").write_text(json.dumps(flags))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "XDG_CACHE_HOME": str(cache),
            "ENVDOCTOR_GATE": "off",
            "ENVDOCTOR_GATE_REASON": "trainer tests",
            "ENVDOCTOR_GATE_LOG": str(place / "gate.log"),
            "HF_HOME": str(place / "hf"),
        }.items():
            patch.setenv(name, value)
        together(4, place, "runs", place)
    return place


def lines(output: Path, event: str) -> list[dict[str, Any]]:
    told = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line for line in told if line["event"] == event]


def losses(output: Path) -> list[float]:
    return [line["loss"] for line in lines(output, "step")]


def weights(output: Path) -> dict[str, torch.Tensor]:
    place = output / "checkpoints" / "step-000008"
    return {**load_file(place / "drafter.safetensors"), **load_file(place / "moments.safetensors")}


def test_a_run_with_split_targets_learns_what_one_with_whole_targets_does(trained: Path) -> None:
    assert losses(trained / "split") == pytest.approx(losses(trained / "whole"), rel=1e-4)
    whole, split = weights(trained / "whole"), weights(trained / "split")
    assert whole.keys() == split.keys()
    for name, each in whole.items():
        torch.testing.assert_close(split[name], each, rtol=2e-2, atol=1e-4)
    # The work counted is that of the whole target: each device does its share for every batch of the group.
    counted = [[line["flops"] for line in lines(trained / name, "step")] for name in ("whole", "split")]
    assert counted[0] == counted[1]


def test_a_run_with_split_targets_resumes_to_the_same_bits(trained: Path) -> None:
    one, other = weights(trained / "split"), weights(trained / "resumed")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_those_who_hold_a_target_evaluate_it_together(trained: Path) -> None:
    whole, split = (lines(trained / name, "evaluation") for name in ("whole", "split"))
    assert len(whole) == len(split) == 3
    for one, other in zip(whole, split, strict=True):
        assert other["identical"] == other["prompts"] == 2
        assert other["acceptance_length"] == one["acceptance_length"]
    for name in ("drafter", "best"):
        one, other = ({each.name for each in (trained / run / name).iterdir()} for run in ("whole", "split"))
        assert one == other


def test_cached_features_go_with_split_targets(trained: Path) -> None:
    assert losses(trained / "cached") == pytest.approx(losses(trained / "split"), rel=1e-5)
    made, read = ([line["flops"] for line in lines(trained / name, "step")] for name in ("split", "cached"))
    # 12 batches see every row once, 4 a step; what is prefetched comes too early for the features of the epoch before.
    assert made[:3] == read[:3]
    assert made[-1] > read[-1]


def refused(argv: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the error and the hint of a run that is refused."""
    assert main(argv) == 2
    said = capsys.readouterr().err.splitlines()
    return [line for line in said if line.startswith(("error: ", "hint: "))]


CONFIGS = [
    (
        ["--drafters", "2", "--set", "target.tensor_parallel=2"],
        "in the processes runtime each target is on one device", "use --runtime data-parallel --drafters 2",
    ),
    (
        ["--set", "target.tensor_parallel=2"],
        "in the inline runtime each target is on one device", "use --runtime data-parallel --drafters 2",
    ),
    (
        ["--runtime", "threads", "--drafters", "3", "--set", "target.tensor_parallel=2"],
        "in the threads runtime each target is on one device", "use --runtime data-parallel --drafters 4",
    ),
    (
        ["--runtime", "data-parallel", "--drafters", "3", "--set", "target.tensor_parallel=2"],
        "3 drafters are not groups of 2 devices",
        "use --drafters 4, or a target.tensor_parallel that divides 3",
    ),
    (
        ["--runtime", "data-parallel", "--drafters", "2", "--set", "target.tensor_parallel=0"],
        "0 devices", "use at least 1",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "problem", "cure"), CONFIGS)
def test_a_layout_that_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], problem: str, cure: str
) -> None:
    argv = ["--profile", "cpu-smoke", "--output", str(tmp_path / "run"), *flags]
    assert refused(argv, capsys) == [f"error: target.tensor_parallel: {problem}", f"hint: {cure}"]
    assert not (tmp_path / "run").exists()


def test_fp8_is_refused_for_a_split_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "--profile", "cpu-smoke", "--output", str(tmp_path / "run"), "--runtime", "data-parallel", "--drafters", "2",
        "--set", "target.tensor_parallel=2", "--set", "target.fp8=true",
    ]  # fmt: skip
    assert refused(argv, capsys) == [
        "error: target.fp8: the layers that target.tensor_parallel=2 splits are multiplied as they are",
        "hint: set target.fp8=false",
    ]


@pytest.mark.parametrize(
    ("sizes", "size", "problem", "cure"),
    [
        ({}, 4, "4 does not divide the target's 2 key-value heads", "use 1 or 2"),
        ({"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 8}, 2,
         "2 does not divide the target's 3 attention heads", "use 1"),
        ({"intermediate_size": 47}, 2, "2 does not divide the 47 channels of model.layers.0.mlp.gate_proj.weight",
         "use a number that divides them"),
    ],
)  # fmt: skip
def test_a_cut_through_a_head_or_a_channel_is_refused(
    tmp_path: Path, sizes: dict[str, object], size: int, problem: str, cure: str
) -> None:
    folder = made(tmp_path, "qwen3", **sizes)
    with pytest.raises(TrainerError) as caught:
        split_plan(folder, size)
    assert (caught.value.message, caught.value.hint) == (f"target.tensor_parallel: {problem}", cure)
    assert caught.value.exit_code == 2


def test_a_target_without_a_plan_is_refused(tmp_path: Path) -> None:
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=96)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    with pytest.raises(TrainerError) as caught:
        split_plan(tmp_path / "gpt2", 2)
    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == (
        f"target.tensor_parallel: {tmp_path / 'gpt2'} is a gpt2, and transformers {transformers.__version__} has no"
        " tensor-parallel plan for it",
        "use target.tensor_parallel=1 with a device that holds the target",
        2,
    )


def test_groups_are_neighbours() -> None:
    assert [list(each) for each in members(6, 2)] == [[0, 1], [2, 3], [4, 5]]
