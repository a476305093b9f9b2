"""The target's features against transformers' own hidden states, and what kinds of target are refused."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3ForCausalLM

from trainer.errors import ConfigError, TargetModelError
from trainer.shared_weights import load_shared
from trainer.target import Target, choose_layer_ids, published_layer_ids, read_config

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


def test_a_target_that_scales_its_logits_is_refused(target_folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "scaled"
    shutil.copytree(target_folder, place)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, "final_logit_softcapping": 30.0}))
    with pytest.raises(TargetModelError) as caught:
        read_config(place)
    assert caught.value.message == f"{place} is a qwen3 with final_logit_softcapping: its logits are not hidden @ head"


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(TargetModelError) as caught:
        read_config(tmp_path)
    assert (caught.value.message, caught.value.hint) == (
        f"{tmp_path} holds no config.json", "give the folder of a local Hugging Face model",
    )  # fmt: skip
