"""The export's tensors as the serving engines load them: every parameter is filled, by tensors of its sizes.

What a loader does, read from its file (facts; none of its code is here):

SGLang    sgl-project/sglang 003b23d7, python/sglang/srt/models/dflash.py, class DFlashDraftModel
vLLM      vllm-project/vllm 036a00d1, vllm/model_executor/models/qwen3_dflash.py, class DFlashQwen3ForCausalLM

Both hold q, k and v of a layer in one parameter, and gate and up. vLLM puts "model." before every name but the head's
and the vocabulary's, refuses a name it does not know, leaves t2d out and reads d2t as draft_id_to_target_id, a target's
token minus the drafter's. SGLang leaves names out that it does not know: a head and a reduced vocabulary are not read.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import Qwen3Config

from trainer.drafter.model import Drafter, DrafterShape
from trainer.saved.export import export, published_config, vocabulary_tensors

SHAPE = DrafterShape(
    hidden=32, layers=3, heads=4, key_value_heads=2, head_dim=16, intermediate=48, features=3, rope_theta=5e5
)
VOCABULARY = 100
KEPT = torch.tensor([1, 4, 7, 50, 99])
TARGET = Qwen3Config(vocab_size=VOCABULARY, num_hidden_layers=9)
STACKED = {
    "q_proj": ("qkv_proj", 0), "k_proj": ("qkv_proj", 1), "v_proj": ("qkv_proj", 2),
    "gate_proj": ("gate_up_proj", 0), "up_proj": ("gate_up_proj", 1),
}  # fmt: skip
"""Part -> the parameter that holds it, and its place there: both engines' stacked mappings."""
SIZES: dict[str, dict[str, Any]] = {
    "full": {"shape": SHAPE}, "sliding": {"shape": replace(SHAPE, sliding=(0, 2), window=6)},
    "reduced vocabulary": {"shape": SHAPE, "kept": KEPT},
}  # fmt: skip


def parameters(config: dict[str, Any]) -> dict[str, list[tuple[int, ...]]]:
    """Return the parameters that both classes make of a config, each with the sizes of what is loaded into it."""
    hidden, size, middle = config["hidden_size"], config["head_dim"], config["intermediate_size"]
    wide, narrow = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    features = len(config["dflash_config"]["target_layer_ids"]) * hidden
    layer = {
        "input_layernorm": [(hidden,)], "post_attention_layernorm": [(hidden,)], "self_attn.q_norm": [(size,)],
        "self_attn.k_norm": [(size,)], "self_attn.qkv_proj": [(wide, hidden), (narrow, hidden), (narrow, hidden)],
        "self_attn.o_proj": [(hidden, wide)], "mlp.gate_up_proj": [(middle, hidden)] * 2,
        "mlp.down_proj": [(hidden, middle)],
    }  # fmt: skip
    layers = {
        f"layers.{number}.{part}": sizes
        for number in range(config["num_hidden_layers"])
        for part, sizes in layer.items()
    }
    made = {**layers, "norm": [(hidden,)], "hidden_norm": [(hidden,)], "fc": [(hidden, features)]}
    return {f"{name}.weight": sizes for name, sizes in made.items()}


def sglang(config: dict[str, Any]) -> tuple[dict[str, list[tuple[int, ...]]], Callable[[str], str | None]]:
    """Return SGLang's parameters, and the name it looks a tensor up by: None for one it leaves out."""
    return parameters(config), lambda name: None if name.partition(".")[0] in {"lm_head", "d2t", "t2d"} else name


def vllm(config: dict[str, Any]) -> tuple[dict[str, list[tuple[int, ...]]], Callable[[str], str | None]]:
    """Return vLLM's, those of a vocabulary of the drafter's own included."""
    made = {f"model.{name}": sizes for name, sizes in parameters(config).items()}
    size = config.get("draft_vocab_size") or config["vocab_size"]
    if size != config["vocab_size"]:
        made |= {"lm_head.weight": [(size, config["hidden_size"])], "draft_id_to_target_id": [(size,)]}

    def asked(name: str) -> str | None:
        if "t2d" in name:
            return None
        if "d2t" in name:
            return name.replace("d2t", "draft_id_to_target_id")
        return name if "lm_head" in name else f"model.{name}"

    return made, asked


@pytest.mark.parametrize("engine", [sglang, vllm])
@pytest.mark.parametrize("kind", SIZES)
def test_every_parameter_is_filled_and_every_tensor_is_taken(tmp_path: Path, engine: Any, kind: str) -> None:
    config, weights, _ = exported(tmp_path, **SIZES[kind])
    wanted, name_of = engine(config)
    filled: dict[str, dict[int, tuple[int, ...]]] = {}
    for name, tensor in weights.items():
        asked = name_of(name)
        if asked is None:
            continue
        part = next((part for part in STACKED if f".{part}." in asked), None)
        to, place = STACKED[part] if part else ("", 0)
        filled.setdefault(asked.replace(part, to) if part else asked, {})[place] = tuple(tensor.shape)
    assert {name: [sizes[place] for place in sorted(sizes)] for name, sizes in filled.items()} == wanted


def exported(place: Path, shape: DrafterShape, kept: torch.Tensor | None = None) -> tuple[Any, Any, torch.Tensor]:
    """Return config and tensors of an export, and the target's head that it was made with."""
    model = Drafter(shape)
    model.reset(1)
    head = torch.randn(VOCABULARY, shape.hidden, generator=torch.Generator().manual_seed(2))
    described = published_config(
        shape, block=8, mask_token=99, layer_ids=(1, 3, 6), target=TARGET, dtype=torch.bfloat16, kept=kept
    )
    export(place, {**dict(model.named_parameters()), **vocabulary_tensors(kept, head)}, described, torch.bfloat16)
    return json.loads((place / "config.json").read_text()), load_file(place / "model.safetensors"), head


def test_vllm_puts_the_reduced_vocabularys_logits_where_the_targets_tokens_are(tmp_path: Path) -> None:
    config, weights, head = exported(tmp_path, SHAPE, KEPT)
    # vLLM: the drafter's token i is the target's i + d2t[i]; its parameter holds int64.
    assert weights["d2t"].dtype == torch.int64
    tokens = torch.arange(config["draft_vocab_size"]) + weights["d2t"]
    assert tokens.equal(KEPT)
    assert weights["lm_head.weight"].equal(head[tokens].bfloat16())
    assert weights["t2d"].nonzero()[:, 0].equal(KEPT)


def test_the_layers_windows_and_directions_are_those_that_both_engines_read(tmp_path: Path) -> None:
    """A full layer sees both ways, a sliding one is causal within `sliding_window`, the token itself included.

    vLLM takes a layer's direction from `is_causal` or `dflash_config.causal` first, so that neither may be there; it
    makes every layer slide for `dflash_config.use_swa`. SGLang takes `sliding_window` - 1 as what is seen to the left.
    """
    config, _, _ = exported(tmp_path, SIZES["sliding"]["shape"])
    assert config["layer_types"] == ["sliding_attention", "full_attention", "sliding_attention"]
    assert (config["sliding_window"], config["use_sliding_window"]) == (6, True)
    assert "is_causal" not in config
    assert set(config["dflash_config"]) == {"mask_token_id", "target_layer_ids"}
    assert Qwen3Config(**{name: config[name] for name in ("sliding_window", "use_sliding_window")}).sliding_window == 6
