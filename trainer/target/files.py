"""Files of a local model folder besides its weights, and what tells one folder from another."""

import functools
import hashlib
import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from trainer.errors import TargetModelError
from trainer.writing import QUIET_SECONDS, ROOM_TO_KEEP, kept_folder, one_at_a_time, say, write_whole

_SAMPLES = 64
_SAMPLE = 64 * 1024
_PART = 1 << 24
_SHA256 = re.compile("[0-9a-f]{64}")


@functools.cache
def target_digest(folder: Path) -> str:
    """Return a digest of config.json and of each safetensors file's size, header and 64 samples of its weights.

    A training run moves nearly every weight, so samples tell a fine-tuned model from its base in milliseconds where
    hashing 16 GB takes minutes. They are not proof that two folders are equal.
    """
    told = hashlib.sha256()
    config = folder / "config.json"
    if config.is_file():
        told.update(config.read_bytes())
    for file in sorted(folder.glob("*.safetensors")):
        size = file.stat().st_size
        told.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as weights:
            for place in range(_SAMPLES):
                weights.seek((size - _SAMPLE) * place // (_SAMPLES - 1) if size > _SAMPLE else 0, os.SEEK_SET)
                told.update(weights.read(_SAMPLE))
    return told.hexdigest()[:16]


_OF_TEXT = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.model", "*.tiktoken",
    "chat_template*", "additional_chat_templates/*", "generation_config.json",
)  # fmt: skip
"""Files that decide how a conversation becomes tokens, tokens become text, and where a text ends."""


def text_digest(folder: Path) -> str:
    """Return a digest of the tokenizer's files, the chat templates beside them and generation_config.json."""
    told = hashlib.sha256()
    for file in sorted({file for pattern in _OF_TEXT for file in folder.glob(pattern) if file.is_file()}):
        told.update(f"{file.relative_to(folder)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return told.hexdigest()[:16]


def whole_digest(folder: Path) -> str:
    """Return a digest of config.json and of every byte of the safetensors files.

    Each file is read once: its sha256 is kept in the user's cache under its device, inode, size and time of change.
    """
    told = hashlib.sha256()
    for file in [folder / "config.json", *sorted(folder.glob("*.safetensors"))]:
        if file.is_file():
            told.update(f"{file.name} {_kept(file)}\n".encode())
    return told.hexdigest()[:16]


def _kept(file: Path) -> str:
    state = _state(file)
    kept = kept_folder("targets") / hashlib.sha256(state.encode()).hexdigest()[:32]
    if found := _digest_in(kept):
        return found
    with one_at_a_time(kept.with_name(f".{kept.name}.lock"), f"reading {file} for its sha256"):
        if found := _digest_in(kept):
            return found
        digest = _read_through(file)
        # A file that was written meanwhile may have another content under this state.
        if _state(file) == state:
            write_whole(kept, digest, ROOM_TO_KEEP)
        return digest


def _digest_in(kept: Path) -> str:
    with suppress(OSError, ValueError):
        if _SHA256.fullmatch(found := kept.read_text(encoding="utf-8")):
            return found
    return ""


def _state(file: Path) -> str:
    found = file.stat()
    return f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _read_through(file: Path) -> str:
    told, size, done, spoke = hashlib.sha256(), file.stat().st_size, 0, time.monotonic()
    with file.open("rb", buffering=0) as weights:
        while part := weights.read(_PART):
            told.update(part)
            done += len(part)
            if time.monotonic() - spoke > QUIET_SECONDS:
                spoke = time.monotonic()
                say(f"features: reading {file} once for its sha256, {done / 1e9:,.1f} of {size / 1e9:,.1f} GB")
    return told.hexdigest()


def stop_tokens(folder: Path, config: Any) -> tuple[int, ...]:
    """Return the tokens that end the text of a target: of its config and of its generation_config.json.

    Many models name the end of a turn in the second alone. Raises TargetModelError for a file that cannot be read.
    """
    told = {folder / "config.json": config.eos_token_id}
    place = folder / "generation_config.json"
    if place.is_file():
        try:
            told[place] = json.loads(place.read_text(encoding="utf-8")).get("eos_token_id")
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            raise TargetModelError(f"{place}: cannot be read: {error}", "fetch the target's folder again") from error
    found: dict[int, None] = {}
    for file, ends in told.items():
        tokens = ends if isinstance(ends, list | tuple) else [] if ends is None else [ends]
        if not all(type(token) is int for token in tokens):
            raise TargetModelError(f"{file}: eos_token_id is {ends!r}", "give the number of a token, or a list of them")
        found.update(dict.fromkeys(tokens))
    return tuple(found)
