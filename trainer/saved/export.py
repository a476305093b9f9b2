"""The drafter as a Hugging Face folder with the published config keys and weight names.

Names and keys as serving engines read them: z-lab/dflash's DFlashDraftModel and SpecForge's
configs/qwen3-8b-dflash.json.
"""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from trainer.drafter.model import DrafterShape
from trainer.writing import whole, write_whole

MODELING = Path(__file__).parents[1] / "drafter" / "modeling_dflash.py"
"""The code that transformers loads the folder with; without it AutoModel makes a Qwen3Model without fc."""

_AGAIN = "make room, then run the same command with --resume: it exports from the last checkpoint"


def published_config(
    shape: DrafterShape,
    *,
    block: int,
    mask_token: int,
    layer_ids: tuple[int, ...],
    target: object,
    dtype: torch.dtype,
    kept: torch.Tensor | None = None,
) -> dict[str, object]:
    """Return config.json's content for a drafter of a target with this config; `kept` is its reduced vocabulary."""
    reduced = {} if kept is None else {"draft_vocab_size": len(kept)}
    return {
        "architectures": ["DFlashDraftModel"],
        "auto_map": {"AutoModel": "modeling_dflash.DFlashDraftModel"},
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "block_size": block,
        "bos_token_id": getattr(target, "bos_token_id", None),
        "dflash_config": {"mask_token_id": mask_token, "target_layer_ids": list(layer_ids)},
        "dtype": str(dtype).removeprefix("torch."),
        "eos_token_id": getattr(target, "eos_token_id", None),
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate,
        "layer_types": [
            "sliding_attention" if layer in shape.sliding else "full_attention" for layer in range(shape.layers)
        ],
        "max_position_embeddings": getattr(target, "max_position_embeddings", 40960),
        "max_window_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.key_value_heads,
        "num_target_layers": getattr(target, "num_hidden_layers", None),
        "rms_norm_eps": shape.epsilon,
        "rope_scaling": None,
        "rope_theta": shape.rope_theta,
        "sliding_window": shape.window or None,
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": bool(shape.sliding),
        "vocab_size": getattr(target, "vocab_size", None),
        **reduced,
    }


def vocabulary_tensors(kept: torch.Tensor | None, head: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return what the folder of a drafter with a reduced vocabulary holds besides, as engines read it.

    lm_head.weight [V', H] are the kept rows of the target's head [V, H]; d2t int64 [V'] is the target's token minus the
    drafter's; t2d bool [V] says which tokens are kept (the form of EAGLE-3, speculators and vLLM).
    """
    if kept is None:
        return {}
    known = torch.zeros(len(head), dtype=torch.bool)
    known[kept] = True
    rows = head.detach()[kept.to(head.device)].cpu()
    return {"lm_head.weight": rows, "d2t": kept - torch.arange(len(kept)), "t2d": known}


def export(place: Path, weights: dict[str, torch.Tensor], config: dict[str, object], dtype: torch.dtype) -> None:
    """Write model.safetensors, the model's code and config.json under `place`, each in one step: half is never there.

    The weights come first, so that a config.json whose weights are missing is never there either. Raises OutputError
    when the disk does not take them; what was there before stays.
    """
    plain = {
        name: tensor.detach().to("cpu", dtype if tensor.is_floating_point() else tensor.dtype, copy=True).contiguous()
        for name, tensor in weights.items()
    }
    described = json.dumps(config, indent=2, sort_keys=True) + "\n"
    with whole(place / "model.safetensors", _AGAIN, SafetensorError) as partial:
        save_file(plain, partial, metadata={"format": "pt"})
    with whole(place / MODELING.name, _AGAIN) as partial:
        partial.write_bytes(MODELING.read_bytes())
    write_whole(place / "config.json", described, _AGAIN)
