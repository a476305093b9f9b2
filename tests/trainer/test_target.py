"""The target's features against transformers' own hidden states, and what kinds of target are refused."""

# ruff: noqa: E501 - tables of whole messages

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GemmaConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3ForCausalLM,
)

from trainer.__main__ import main
from trainer.assemble import assemble
from trainer.data.corpus import conversations
from trainer.decoding.generate import Generator
from trainer.errors import ConfigError, TargetModelError
from trainer.settings.config import build
from trainer.settings.presets import preset
from trainer.target.files import stop_tokens
from trainer.target.loading import weights_index
from trainer.target.model import Target, choose_layer_ids, published_layer_ids, read_config
from trainer.target.shared_weights import load_shared

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("layers", "count", "chosen"),
    [(36, 5, (1, 9, 17, 25, 33)), (64, 5, (1, 16, 31, 46, 61)), (36, 1, (18,)), (6, 3, (1, 2, 3))],
)
def test_published_layers(layers: int, count: int, chosen: tuple[int, ...]) -> None:
    assert published_layer_ids(layers, count) == chosen


def test_layers_that_do_not_fit_the_target() -> None:
    with pytest.raises(ConfigError) as caught:
        choose_layer_ids((0, 4), 5, 4)
    assert caught.value.message == "target.layer_ids: [0, 4] of a target with 4 layers"
    with pytest.raises(ConfigError, match="of a target with 4 layers"):
        choose_layer_ids((), 3, 4)


def test_features_are_the_hidden_states_of_the_selected_layers(target_folder: Path) -> None:
    ids = torch.randint(6, 60, (2, 40), generator=torch.Generator().manual_seed(1))
    target = Target.load(target_folder, (0, 2), CPU, torch.float32)
    features = target.features(ids)
    states = (
        Qwen3ForCausalLM.from_pretrained(target_folder).model(input_ids=ids, output_hidden_states=True).hidden_states
    )
    assert torch.equal(features, torch.cat([states[1], states[3]], dim=-1))
    assert len(target.layers) == 3
    # Outside of a recording the same layers leave no trace.
    target.model(input_ids=ids)
    assert torch.equal(features, target.features(ids))
    assert not any(parameter.requires_grad for parameter in target.model.parameters())


def test_padding_on_the_right_does_not_reach_the_tokens(target_folder: Path) -> None:
    target = Target.load(target_folder, (0, 1, 2), CPU, torch.float32)
    ids = torch.randint(6, 60, (1, 24), generator=torch.Generator().manual_seed(2))
    padded = torch.cat([ids, torch.zeros(1, 8, dtype=ids.dtype)], dim=1)
    torch.testing.assert_close(target.features(padded)[:, :24], target.features(ids), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tied", [False, True])
def test_another_family_and_its_shared_weights(tmp_path: Path, *, tied: bool) -> None:
    config = LlamaConfig(
        vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=5, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=tied,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    ids = torch.randint(0, 50, (2, 16))
    states = model.model(input_ids=ids, output_hidden_states=True).hidden_states
    target = Target.load(tmp_path, (1, 3), CPU, torch.float32)
    torch.testing.assert_close(target.features(ids), torch.cat([states[2], states[4]], -1), rtol=1e-5, atol=1e-6)
    shared = load_shared(tmp_path, CPU, torch.float32)
    assert torch.equal(shared.embedding, model.get_input_embeddings().weight)
    assert torch.equal(shared.head, model.get_output_embeddings().weight)
    assert (shared.head is shared.embedding) == tied


@pytest.fixture
def composite(tmp_path: Path) -> Path:
    """Return the folder of a tiny model of text and vision, its text part under a prefix of its own."""
    text = {
        "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 2,
        "linear_key_head_dim": 16, "linear_value_head_dim": 16, "eos_token_id": 5,
    }  # fmt: skip
    vision = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 64}
    place = tmp_path / "composite"
    torch.manual_seed(0)
    Qwen3_5ForConditionalGeneration(Qwen3_5Config(text_config=text, vision_config=vision)).save_pretrained(place)
    return place


def test_the_text_part_of_a_composite_model(composite: Path) -> None:
    config = read_config(composite)
    assert (config.model_type, config.vocab_size, config.num_hidden_layers) == ("qwen3_5_text", 96, 4)
    whole = Qwen3_5ForConditionalGeneration.from_pretrained(composite).eval()
    target = Target.load(composite, (1, 2), CPU, torch.float32)
    assert target.config.num_hidden_layers == 4
    ids = torch.randint(6, 90, (2, 12), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        states = whole(input_ids=ids, output_hidden_states=True).hidden_states
    torch.testing.assert_close(target.features(ids), torch.cat([states[2], states[3]], -1), rtol=1e-5, atol=1e-6)
    shared = load_shared(composite, CPU, torch.float32)
    assert torch.equal(shared.embedding, whole.get_input_embeddings().weight)
    assert torch.equal(shared.head, whole.get_output_embeddings().weight)
    assert torch.equal(shared.embedding, target.shared.embedding)


def test_a_run_on_a_composite_model(composite: Path, target_folder: Path, cache: Path, tmp_path: Path) -> None:
    assert cache.is_dir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(target_folder / name, composite / name)
    output, data = tmp_path / "run", tmp_path / "chats.jsonl"
    data.write_text("".join(json.dumps({"conversations": talk}) + "\n" for talk in conversations(40, 1)))
    arguments = [
        "--profile", "cpu-smoke", "--target", str(composite), "--data", str(data), "--steps", "1", "--output", str(output),
        "--quiet",
    ]  # fmt: skip
    assert main([*arguments, "--set", "run.evaluate=1", "--set", "run.evaluate_tokens=4"]) == 0
    found = json.loads((output / "evaluation.json").read_text())
    assert (found["prompts"], found["identical"]) == (1, 1)


@pytest.mark.parametrize(
    ("config", "generation", "found"),
    [
        (2, None, (2,)), ([2, 3], '{"eos_token_id": [3, 5]}', (2, 3, 5)), (None, '{"eos_token_id": 5}', (5,)),
        (2, '{"top_p": 0.9}', (2,)), (None, None, ()), (2, '{"eos_token_id": null}', (2,)),
    ],
)  # fmt: skip
def test_a_text_ends_where_either_file_says(
    tmp_path: Path, config: object, generation: str | None, found: tuple[int, ...]
) -> None:
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(generation)
    assert stop_tokens(tmp_path, SimpleNamespace(eos_token_id=config)) == found


@pytest.mark.parametrize(
    ("content", "told", "hint"),
    [
        ("[", "cannot be read: Expecting value: line 1 column 2 (char 1)", "fetch the target's folder again"),
        ("[]", "cannot be read: 'list' object has no attribute 'get'", "fetch the target's folder again"),
        ('{"eos_token_id": "<end>"}', "eos_token_id is '<end>'", "give the number of a token, or a list of them"),
    ],
)
def test_a_generation_config_that_cannot_be_read(tmp_path: Path, content: str, told: str, hint: str) -> None:
    place = tmp_path / "generation_config.json"
    place.write_text(content)
    with pytest.raises(TargetModelError) as caught:
        stop_tokens(tmp_path, SimpleNamespace(eos_token_id=2))
    assert (caught.value.message, caught.value.hint) == (f"{place}: {told}", hint)


def test_what_generation_config_ends_texts_with_counts_everywhere(target_folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "target"
    shutil.copytree(target_folder, place)
    (place / "generation_config.json").write_text('{"eos_token_id": [7]}')
    end = read_config(place).eos_token_id
    data = tmp_path / "chats.jsonl"
    data.write_text("".join(json.dumps({"conversations": talk}) + "\n" for talk in conversations(20, 1)))
    told = {"target": {"path": str(place)}, "data": {"path": str(data)}, "drafter": {"vocabulary": 5}}
    config = build("cpu-smoke", [preset("cpu-smoke"), told])
    parts = assemble(config)
    assert parts.stop == (end, 7)
    # A reduced vocabulary has to be able to end a text.
    assert parts.kept is not None
    assert {end, 7} <= {*parts.kept.tolist()}
    assert Generator(config, 0.0, 4).stop == (end, 7)


UNSCALED = "choose a target without scaled embeddings or logits"


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("final_logit_softcapping", 30.0, True), ("logits_scaling", 8, True), ("scale_embedding", True, True),
        ("scale_embedding", False, False), ("logit_scale", 1.0, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("part", ["alone", "composite"])
def test_a_target_that_scales_its_logits_is_refused(
    target_folder: Path, composite: Path, tmp_path: Path, part: str, key: str, value: object, *, refused: bool
) -> None:
    place = composite
    if part == "alone":
        place = tmp_path / "alone"
        shutil.copytree(target_folder, place)
    config = json.loads((place / "config.json").read_text())
    (config if part == "alone" else config["text_config"])[key] = value
    (place / "config.json").write_text(json.dumps(config))
    if not refused:
        assert read_config(place).model_type in ("qwen3", "qwen3_5_text")
        return
    with pytest.raises(TargetModelError) as caught:
        read_config(place)
    kind = "qwen3" if part == "alone" else "qwen3_5_text"
    assert (caught.value.message, caught.value.hint) == (
        f"{place} is a {kind} with {key}: its logits are not hidden @ head", UNSCALED,
    )  # fmt: skip


GEMMA = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16,
}  # fmt: skip


def test_a_type_that_scales_its_embeddings_is_refused_by_its_config(tmp_path: Path) -> None:
    GemmaConfig(**GEMMA).save_pretrained(tmp_path)
    with pytest.raises(TargetModelError) as caught:
        read_config(tmp_path)
    assert (caught.value.message, caught.value.hint) == (
        f"{tmp_path} is a gemma, which scales its embeddings", UNSCALED,
    )  # fmt: skip


def test_an_embedding_that_is_no_plain_table_is_refused_in_both_places(tmp_path: Path) -> None:
    Gemma3ForCausalLM(Gemma3TextConfig(**GEMMA)).save_pretrained(tmp_path)
    for load in (
        lambda: load_shared(tmp_path, CPU, torch.float32),
        lambda: Target.load(tmp_path, (1,), CPU, torch.float32),
    ):
        with pytest.raises(TargetModelError) as caught:
            load()
        assert (caught.value.message, caught.value.hint) == (
            "Gemma3ForCausalLM: its embedding is a Gemma3TextScaledWordEmbedding, not a plain table", UNSCALED,
        )  # fmt: skip


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(TargetModelError) as caught:
        read_config(tmp_path)
    assert (caught.value.message, caught.value.hint) == (
        f"{tmp_path} holds no config.json", "give the folder of a local Hugging Face model",
    )  # fmt: skip


LOCAL_MODEL = "give the folder of a local Hugging Face model"
AGAIN = "fetch the target's folder again"


UP = "model.layers.1.mlp.up_proj.weight"
WEIGHTS: dict[str, tuple[Callable[[dict[str, torch.Tensor]], object], str, str]] = {
    "lacks": (lambda held: held.pop(UP), "{folder} lacks " + UP, AGAIN),
    "shape": (
        lambda held: held.update({UP: held[UP][:5].clone()}),
        "{folder}: " + UP + " is [5, 64], and config.json says [160, 64]", f"{AGAIN}: its files do not match",
    ),
    "nan": (
        lambda held: held[UP][3].fill_(float("inf")), "{folder}: " + UP + " has NaN or infinity", AGAIN,
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", WEIGHTS)
def test_a_target_that_is_not_as_its_files_say_is_refused(target_folder: Path, tmp_path: Path, fault: str) -> None:
    # transformers draws what is missing at random and goes on.
    folder = tmp_path / "target"
    shutil.copytree(target_folder, folder)
    held = {name: each.clone() for name, each in load_file(folder / "model.safetensors").items()}
    change, message, hint = WEIGHTS[fault]
    change(held)
    save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TargetModelError) as caught:
        Target.load(folder, (0, 1), CPU, torch.float32)
    assert (caught.value.message, caught.value.hint) == (message.format(folder=folder), hint)


def test_a_weights_file_that_is_not_what_its_index_says_is_refused(target_folder: Path, tmp_path: Path) -> None:
    Qwen3ForCausalLM.from_pretrained(target_folder).save_pretrained(tmp_path, max_shard_size="300KB")
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    assert weights_index(tmp_path) == index
    file = tmp_path / index[UP]
    # Copies: what load_file gives is mapped from the file, which is cut below.
    whole, held = file.read_bytes(), {name: each.clone() for name, each in load_file(file).items()}

    def refused() -> tuple[str, str]:
        with pytest.raises(TargetModelError) as caught:
            weights_index(tmp_path)
        return caught.value.message, caught.value.hint

    file.write_bytes(whole[: len(whole) // 2])
    words = "Error while deserializing header: incomplete metadata, file not fully covered"
    assert refused() == (f"{file} cannot be read: {words}", AGAIN)
    save_file({**held, UP: held[UP].to(torch.int8)}, file)
    assert refused() == (
        f"{file}: {UP} is I8: quantised weights are not read", "give the target in bf16, fp16 or fp32",
    )  # fmt: skip
    save_file({name: each for name, each in held.items() if name != UP}, file)
    assert refused() == (f"{file} lacks {UP}, which the index lists", AGAIN)


def _write(place: Path, text: str) -> None:
    place.write_text(text)


@pytest.mark.parametrize(
    ("spoil", "message", "hint"),
    [
        (lambda place: _write(place / "config.json", "{}"), "{place}/config.json names no model_type", LOCAL_MODEL),
        (lambda place: _write(place / "config.json", "[1]"), "{place}/config.json names no model_type", LOCAL_MODEL),
        (lambda place: _write(place / "config.json", "{"), f"{{place}}/config.json: transformers {transformers.__version__} cannot read it: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)", LOCAL_MODEL),
        (lambda place: (place / "model.safetensors").unlink(), "{place} holds no safetensors weights", "save the target with save_pretrained (safetensors)"),
        (lambda place: _write(place / "model.safetensors", "x"), "{place}/model.safetensors cannot be read: Error while deserializing header: header too small", AGAIN),
        (lambda place: _write(place / "model.safetensors.index.json", '{"weight_map": {"a": "b.safetensors"}}'), "{place} lacks b.safetensors, which model.safetensors.index.json lists", AGAIN),
        (lambda place: [(place / name).unlink() for name in ("tokenizer.json", "tokenizer_config.json")], "{place} holds no tokenizer", "save the target's tokenizer there with save_pretrained"),
        (lambda place: _write(place / "tokenizer.json", "{"), "{place}: its tokenizer cannot be read: ", AGAIN),
    ],
    ids=["empty", "list", "json", "no weights", "weights", "shard", "no tokenizer", "tokenizer"],
)  # fmt: skip
def test_a_folder_that_is_not_whole(
    target_folder: Path, tmp_path: Path, spoil: Callable[[Path], object], message: str, hint: str
) -> None:
    place = tmp_path / "target"
    shutil.copytree(target_folder, place)
    spoil(place)
    with pytest.raises(TargetModelError) as caught:
        assemble(build("cpu-smoke", [{"target": {"path": str(place)}}]))
    wanted = message.format(place=place)
    # What the tokenizers library says of half a file is its own.
    told = caught.value.message[: len(wanted)] if wanted.endswith(": ") else caught.value.message
    assert (told, caught.value.hint) == (wanted, hint)
