"""The exported folder: published weight names and config keys, and the same outputs once loaded elsewhere."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, Qwen3Config

from trainer.drafter.mask import BlockShape, dense_mask
from trainer.drafter.model import Drafter, DrafterShape, Masks
from trainer.saved.export import export, published_config

ROOT = Path(__file__).resolve().parents[2]
SHAPE = DrafterShape(
    hidden=32, layers=2, heads=4, key_value_heads=2, head_dim=8, intermediate=48, features=3, rope_theta=5e5
)
LAYER = (
    "input_layernorm", "mlp.down_proj", "mlp.gate_proj", "mlp.up_proj", "post_attention_layernorm", "self_attn.k_norm",
    "self_attn.k_proj", "self_attn.o_proj", "self_attn.q_norm", "self_attn.q_proj", "self_attn.v_proj",
)  # fmt: skip


def test_folder_has_the_published_names_and_keys(tmp_path: Path) -> None:
    model = Drafter(SHAPE)
    model.reset(1)
    target = Qwen3Config(
        vocab_size=100, num_hidden_layers=9, max_position_embeddings=512, eos_token_id=7, bos_token_id=None
    )
    described = published_config(
        SHAPE, block=16, mask_token=99, layer_ids=(1, 3, 6), target=target, dtype=torch.bfloat16
    )
    export(tmp_path, dict(model.named_parameters()), described, torch.bfloat16)
    weights = load_file(tmp_path / "model.safetensors")
    layers = [f"layers.{i}.{part}.weight" for i in range(2) for part in LAYER]
    assert sorted(weights) == ["fc.weight", "hidden_norm.weight", *layers, "norm.weight"]
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    assert torch.equal(weights["fc.weight"], model.fc.weight.to(torch.bfloat16))
    assert json.loads((tmp_path / "config.json").read_text()) == {
        "architectures": ["DFlashDraftModel"], "auto_map": {"AutoModel": "modeling_dflash.DFlashDraftModel"},
        "model_type": "qwen3", "attention_bias": False, "attention_dropout": 0.0,
        "block_size": 16, "bos_token_id": None, "dflash_config": {"mask_token_id": 99, "target_layer_ids": [1, 3, 6]},
        "dtype": "bfloat16", "eos_token_id": 7, "head_dim": 8, "hidden_act": "silu", "hidden_size": 32,
        "initializer_range": 0.02, "intermediate_size": 48, "layer_types": ["full_attention"] * 2,
        "max_position_embeddings": 512, "max_window_layers": 2, "num_attention_heads": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "num_target_layers": 9, "rms_norm_eps": 1e-06, "rope_scaling": None,
        "rope_theta": 500000.0, "sliding_window": None, "tie_word_embeddings": False, "use_cache": True,
        "use_sliding_window": False, "vocab_size": 100,
    }  # fmt: skip


LOADER = """
import sys, torch
from transformers import AutoModel
place, inputs, out = sys.argv[1:]
model, told = AutoModel.from_pretrained(place, trust_remote_code=True, output_loading_info=True, dtype=torch.float32)
assert not told["missing_keys"] and not told["unexpected_keys"], told
with torch.no_grad():
    torch.save(model(**torch.load(inputs)), out)
print(type(model).__name__)
"""


@pytest.mark.parametrize("sliding", [(), (0,)], ids=["full", "sliding"])
def test_automodel_loads_the_same_drafter(tmp_path: Path, sliding: tuple[int, ...]) -> None:
    shape = replace(SHAPE, sliding=sliding, window=6 if sliding else 0)
    model = Drafter(shape)
    model.reset(1, deviation=0.3)
    target = Qwen3Config(vocab_size=100, num_hidden_layers=9)
    described = published_config(shape, block=4, mask_token=99, layer_ids=(1, 3, 6), target=target, dtype=torch.float32)
    export(tmp_path / "drafter", dict(model.named_parameters()), described, torch.float32)
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(1, 10, 3 * 32, generator=generator)
    block = torch.randn(1, 4, 32, generator=generator)
    positions = torch.arange(14)[None]
    torch.save({"target_hidden": features, "noise_embedding": block, "position_ids": positions}, tmp_path / "inputs.pt")
    # In a process of its own, without this repository on its path: the folder must be enough.
    done = subprocess.run(
        [sys.executable, "-c", LOADER, tmp_path / "drafter", tmp_path / "inputs.pt", tmp_path / "out.pt"],
        cwd=tmp_path, env={**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "DFlashDraftModel\n", done.stderr
    anchors, one = torch.tensor([[10]]), BlockShape(context=10, blocks=1, width=4)
    masks = Masks(full=dense_mask(anchors, one), sliding=dense_mask(anchors, one, 6) if sliding else None)
    with torch.no_grad():
        wanted = model.eager(features, block, positions, masks)
    torch.testing.assert_close(torch.load(tmp_path / "out.pt"), wanted, rtol=1e-5, atol=1e-6)


EXPORTER = """
import sys, torch
from pathlib import Path
from trainer.saved.export import export
print("ready", flush=True)
fill = 0
while True:
    fill += 1
    weights = {f"layer{i}": torch.full((64, 1024), float(fill)) for i in range(8)}
    export(Path(sys.argv[1]), weights, {"fill": fill}, torch.float32)
"""


def test_stopped_at_any_moment_each_file_is_whole(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", EXPORTER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        seen = 0
        while seen < 20:
            time.sleep(0.01)
            writer.send_signal(signal.SIGSTOP)
            if (tmp_path / "config.json").exists():
                described = json.loads((tmp_path / "config.json").read_text())
                fills = {
                    float(value)
                    for tensor in load_file(tmp_path / "model.safetensors").values()
                    for value in tensor.unique()
                }
                # The weights are those of the config, or the next ones that it has not followed yet.
                assert fills in ({described["fill"]}, {described["fill"] + 1})
                seen += 1
            writer.send_signal(signal.SIGCONT)
        writer.kill()


def test_transformers_reads_the_config_back(tmp_path: Path) -> None:
    target = Qwen3Config(vocab_size=100, num_hidden_layers=9)
    described = published_config(SHAPE, block=8, mask_token=5, layer_ids=(1,), target=target, dtype=torch.float32)
    export(tmp_path, {}, described, torch.float32)
    config = AutoConfig.from_pretrained(tmp_path)
    assert (config.model_type, config.hidden_size, config.num_target_layers) == ("qwen3", 32, 9)
    assert config.dflash_config == {"mask_token_id": 5, "target_layer_ids": [1]}
    rope = getattr(config, "rope_parameters", None) or {"rope_theta": config.rope_theta}
    assert rope["rope_theta"] == 500000.0
