"""The built-in target: a tiny Qwen3 taught the toy language, saved as any other local model folder.

It exists so that a run needs no download: the trainer reads it back the way it reads a real target.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from trainer.data.chat import Encoder
from trainer.data.conversation import Conversation
from trainer.data.corpus import MARKS, TEMPLATE, conversations, vocabulary
from trainer.data.rows import RowList
from trainer.writing import writing

CONVERSATIONS = 384
STEPS = 260
ROWS = 16
LENGTH = 64
RATE = 3e-3
_ROOM = "make room, or set XDG_CACHE_HOME to a folder that can be written"
_SIZES = {
    "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 256,
}  # fmt: skip


def digest() -> str:
    """Return the identity of the toy target: language, sizes and training."""
    told = json.dumps([vocabulary(), TEMPLATE, _SIZES, CONVERSATIONS, STEPS, ROWS, LENGTH, RATE, 1])
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def folder(cache: Path) -> Path:
    """Return the folder of the toy target under `cache`, teaching it first when it is not there yet."""
    place = cache / f"toy-target-{digest()}"
    with writing(cache, _ROOM):
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / "toy-target.lock").open("w")
    with lock as held:
        # One worker of a run teaches it; the others wait and find it.
        fcntl.flock(held, fcntl.LOCK_EX)
        if not place.is_dir():
            _teach_into(place)
    return place


def _teach_into(place: Path) -> None:
    with writing(place, _ROOM, SafetensorError), ExitStack() as stack:
        made = Path(tempfile.mkdtemp(prefix="toy-target-", dir=place.parent))
        stack.callback(shutil.rmtree, made, ignore_errors=True)
        _teach(made)
        made.rename(place)


def _teach(made: Path) -> None:
    _write_tokenizer(made)
    # One thread: on so small a model a second one mostly waits for the first, and on a busy host for minutes.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _taught(_tokenizer(made)).save_pretrained(made)
    finally:
        torch.set_num_threads(threads)


def rows(tokenizer: Any, seed: int) -> RowList:
    """Return the embedded corpus as rows."""
    encoder = Encoder(tokenizer)
    made = [
        row
        for line, talk in enumerate(conversations(CONVERSATIONS, seed), start=1)
        for row in encoder.encode(Conversation(messages=talk), f"embedded corpus:{line}")
    ]
    return RowList(rows=tuple(made), digest=f"embedded-{digest()}-{seed}-{encoder.digest}")


def _tokenizer(place: Path) -> Any:
    return AutoTokenizer.from_pretrained(place, local_files_only=True)


def _write_tokenizer(place: Path) -> None:
    words = vocabulary()
    marks = [
        {"id": i, "content": mark, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}
        for i, mark in enumerate(MARKS)
    ]  # fmt: skip
    model = {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}, "unk_token": "<unk>"}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": marks, "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None, "model": model,
    }  # fmt: skip
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "unk_token": "<unk>",
        "mask_token": "<mask>", "eos_token": "<end>", "chat_template": TEMPLATE, "clean_up_tokenization_spaces": False,
    }  # fmt: skip
    (place / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    (place / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def _taught(tokenizer: Any) -> Qwen3ForCausalLM:
    end = tokenizer.eos_token_id
    config = Qwen3Config(
        vocab_size=len(vocabulary()), pad_token_id=tokenizer.pad_token_id, eos_token_id=end, bos_token_id=None,
        rms_norm_eps=1e-6, tie_word_embeddings=False, **_SIZES,
    )  # fmt: skip
    held = rows(tokenizer, seed=0)
    ids = torch.full((len(held.rows), LENGTH), tokenizer.pad_token_id)
    for line, row in enumerate(held.rows):
        ids[line, : len(row.ids)] = torch.tensor(row.ids[:LENGTH])
    labels = ids.masked_fill(ids == tokenizer.pad_token_id, -100)
    # transformers draws initial weights from the global generator; this fork keeps the caller's as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(config)
    generator = torch.Generator().manual_seed(0)
    adam = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, RATE, total_steps=STEPS)
    for _ in range(STEPS):
        pick = torch.randint(0, len(ids), (ROWS,), generator=generator)
        loss = model(input_ids=ids[pick], labels=labels[pick], use_cache=False).loss
        loss.backward()
        adam.step()
        schedule.step()
        adam.zero_grad(set_to_none=True)
    return model.eval()


def cache_folder() -> Path:
    """Return where toy targets are kept: $XDG_CACHE_HOME or ~/.cache, under envdoctor/."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "envdoctor"
