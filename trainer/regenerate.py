"""`python -m trainer.regenerate --profile NAME --target MODEL --data FILE --out FILE`: responses by the target itself.

A drafter learns what its target would say, so a data set's own responses are replaced: every turn of the assistant is
generated again, after the turns that were generated before it. Each becomes a row of tokens, {"input_ids", "loss_mask",
"conversation"}, exactly as the target saw and said it, so no template has to render it again. Rows are appended as they
are made; a run that was stopped goes on with the same command. What decides them is in FILE.settings.json beside them:
with another target or temperature the rows of two would be one file, so that is refused.
"""

import argparse
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer.data.conversation import Conversation, Message, conversation_of
from trainer.data.files import files_of, raw_rows
from trainer.errors import ConfigError, DataError, OutputError, TrainerError
from trainer.runtime.shutdown import StopRequest
from trainer.settings.arguments import add_common, given, parse_common
from trainer.settings.config import TrainConfig
from trainer.target.files import target_digest, text_digest
from trainer.writing import Lines, leave, locked, say, say_error, write_whole, writing

_GO_ON = "make room or name another file; the same command goes on"
_KINDS = {"origin": str, "row": str, "input_ids": list, "loss_mask": list, "conversation": list, "last": bool}
"""A row that is written, in its order."""
_EARLIER = {name: kind for name, kind in _KINDS.items() if name != "row"}
"""What 0.4.0 wrote."""
_FIRST = b'{"origin": "'


@dataclass(slots=True)
class _Talk:
    """A conversation that is being regenerated."""

    origin: str
    """The file as --data named it, and the line."""
    row: str
    """What it is known by, wherever its file lies: a digest of it, and which of those that are alike it is."""
    conversation: Conversation
    done: list[Message] = field(default_factory=list)
    at: int = 0

    def prompt(self) -> list[Message] | None:
        """Take the turns up to the assistant's next one, which is to be generated; None when there is none."""
        messages = self.conversation.messages
        while self.at < len(messages):
            message = messages[self.at]
            self.at += 1
            if message["role"] == "assistant":
                return self.done
            self.done.append(message)
        # A data set of prompts alone ends with the user: the response is what is asked for.
        if self.done and self.done[-1]["role"] in {"user", "tool"}:
            return self.done
        return None


def main(argv: Sequence[str]) -> int:
    """Regenerate; returns the exit code."""
    with StopRequest() as stop:
        try:
            options = _parser().parse_args(argv)
            arguments = parse_common(options, argv).admitted()
            return _run(arguments.config, options)
        except (Exception, KeyboardInterrupt) as error:
            # Where a signal comes in the middle of an import, Python may wrap what it raises.
            if stop.signal is not None:
                say("interrupted; whole rows were kept: the same command goes on")
                return stop.exit_code
            if not isinstance(error, TrainerError):
                raise
            say_error(error)
            return error.exit_code


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m trainer.regenerate", description="Replace a data set's responses by the target's own."
    )
    add_common(made)
    made.add_argument("--out", type=given("--out", Path), required=True, help=".jsonl file that rows are appended to")
    made.add_argument("--temperature", type=float, default=0.0, help="0 for greedy (default)")
    made.add_argument("--max-tokens", type=int, default=1024, help="most new tokens a response (default: 1024)")
    made.add_argument("--batch", type=int, default=64, help="responses that are generated side by side (default: 64)")
    return made


def _run(config: TrainConfig, options: argparse.Namespace) -> int:
    for name, value, low in (
        ("--temperature", options.temperature, 0), ("--max-tokens", options.max_tokens, 1),
        ("--batch", options.batch, 1),
    ):  # fmt: skip
        if not value >= low:
            raise ConfigError(f"{name}: {value}", f"use at least {low}")
    if not config.target.path or not config.data.path:
        raise ConfigError("--target and --data: both are needed", "name the target's folder and the conversations")
    taken = f"--out {options.out}: another process writes there"
    # Not the file itself: it may lie among the data, and a refused command leaves none behind.
    lock = options.out.with_name(f".{options.out.name}.lock")
    with locked(lock, taken, "wait until it has ended, or give another file"):
        return _appended(config, options)


def _appended(config: TrainConfig, options: argparse.Namespace) -> int:
    done, whole = _held(options.out)
    settings = _settings(config, options)
    if done:
        _require_same(options.out, settings)
    talks = list(_talks(config, done))
    _cut(options.out, whole)
    say(f"{len(talks):,} conversations to regenerate, {len(done):,} there already")
    say(f"loading torch and the target, then {options.batch} conversations at a time: progress follows each")
    from trainer.decoding.generate import Generator  # noqa: PLC0415 - torch is imported behind the gate

    generator = Generator(config, options.temperature, options.max_tokens)
    if not done:
        write_whole(_beside(options.out), json.dumps(settings, indent=1) + "\n", _GO_ON)
    with closing(Lines(options.out, _GO_ON)) as lines:
        started, tokens = time.monotonic(), 0
        for finished, (talk, rows) in enumerate(_regenerated(talks, generator, options.batch), start=1):
            lines.write("".join(json.dumps(row) + "\n" for row in rows))
            tokens += sum(sum(row["loss_mask"]) for row in rows)
            seconds = time.monotonic() - started
            if finished == len(talks) or finished % options.batch == 0:
                say(f"{finished:,} of {len(talks):,} ({talk.origin}), {tokens / seconds:,.0f} tok/s")
    return 0


def _regenerated(talks: Sequence[_Talk], generator: Any, batch: int) -> Iterator[tuple[_Talk, list[Mapping[str, Any]]]]:
    """Yield each conversation with its rows, as soon as its last turn is there; `batch` are under way at a time."""
    for start in range(0, len(talks), batch):
        group = talks[start : start + batch]
        rows: dict[str, list[Mapping[str, Any]]] = {talk.row: [] for talk in group}
        asked = [(talk, prompt) for talk in group if (prompt := talk.prompt()) is not None]
        while asked:
            made = generator.respond(
                [(talk.origin, talk.row, prompt, talk.conversation.tools) for talk, prompt in asked]
            )
            for (talk, _), (ids, response, text, whole) in zip(asked, made, strict=True):
                talk.done.append({"role": "assistant", "content": text})
                rows[talk.row].append({
                    "origin": talk.origin, "row": talk.row, "input_ids": [*ids, *response],
                    "loss_mask": [0] * len(ids) + [1] * len(response), "conversation": list(talk.done),
                    "last": False,
                })  # fmt: skip
                if not whole:
                    # A response that was cut is not a history that the target would have made.
                    talk.at = len(talk.conversation.messages)
            asked = [(talk, prompt) for talk, _ in asked if (prompt := talk.prompt()) is not None]
        for talk in group:
            if made := rows[talk.row]:
                made[-1] = {**made[-1], "last": True}
                yield talk, made


def _talks(config: TrainConfig, done: set[str]) -> Iterator[_Talk]:
    skip, seen, alike = config.data.bad_rows == "skip", set[Path](), Counter[str]()
    for path in config.data.path:
        for file in files_of(Path(path)):
            if file.resolve() in seen:
                raise ConfigError(f"--data: {file} is given twice", "give each file once")
            seen.add(file.resolve())
            for place, raw in raw_rows(file):
                origin = f"{file}:{place.rpartition(':')[2]}"
                try:
                    if isinstance(raw, DataError):
                        raise raw
                    conversation = conversation_of(raw, origin)
                except DataError:
                    if not skip:
                        raise
                    continue
                told = json.dumps([conversation.messages, conversation.tools], default=str)
                digest = hashlib.sha256(told.encode()).hexdigest()[:16]
                alike[digest] += 1
                row = f"{digest}-{alike[digest]}"
                if row not in done:
                    yield _Talk(origin, row, conversation)


def _settings(config: TrainConfig, options: argparse.Namespace) -> dict[str, object]:
    """Return flag or key -> its value, of all that decides a response besides its conversation."""
    target = config.target
    template = Path(target.chat_template) if target.chat_template else None
    # A template that cannot be read is told once the target is loaded.
    text = template.read_bytes() if template is not None and template.is_file() else b""
    return {
        "--target": [target_digest(Path(target.path)), target.path],
        "the target's tokenizer": [text_digest(Path(target.path)), target.path], "--temperature": options.temperature,
        "--max-tokens": options.max_tokens, "run.seed": config.run.seed,
        "target.chat_template": [hashlib.sha256(text).hexdigest()[:16], target.chat_template],
        "target.template_arguments": list(target.template_arguments),
    }  # fmt: skip


def _beside(out: Path) -> Path:
    return out.with_name(f"{out.name}.settings.json")


def _require_same(out: Path, settings: Mapping[str, object]) -> None:
    """Raise ConfigError for the first setting that is not the one that the rows of `out` were made with."""
    place = _beside(out)
    try:
        before = json.loads(place.read_text(encoding="utf-8"))
        kept = {name: _checked(name, before[name], value) for name, value in settings.items()}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"--out {out}: has rows, and {place} does not say what made them", "give another file"
        ) from error
    for name, value in settings.items():
        if _same(name, kept[name]) != _same(name, value):
            raise ConfigError(
                f"{name}: {_shown(name, value)}, and the rows of {out} were made with {_shown(name, kept[name])}",
                f"give {name} as it was to go on, or another --out",
            )


_BY_DIGEST = {"--target", "the target's tokenizer", "target.chat_template"}
"""Settings with [digest, path]: what was moved is still the same."""


def _checked(name: str, kept: Any, value: object) -> object:
    """Return what was kept of a setting; raises TypeError where it is of another kind than `value`."""
    if isinstance(value, list):
        fits = isinstance(kept, list) and all(isinstance(each, str) for each in kept)
        fits = fits and (name not in _BY_DIGEST or len(kept) == len(value))
    else:
        fits = type(kept) in {int, float}
    if not fits:
        raise TypeError(name)
    return kept


def _same(name: str, value: Any) -> object:
    return value[:1] if name in _BY_DIGEST else value


def _shown(name: str, value: Any) -> str:
    if name in _BY_DIGEST:
        return f"{value[1] or 'none'} ({value[0]})"
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)


def _held(out: Path) -> tuple[set[str], int]:
    """Return the rows that a file already has, and its bytes without a last conversation that was not finished.

    Raises DataError for a file that has anything but rows of this command.
    """
    if not out.exists():
        return set(), 0
    found: set[str] = set()
    held = whole = 0
    try:
        with out.open("rb") as file:
            for number, line in enumerate(file, start=1):
                # Behind a whole row, a killed run may have left the beginning of the next.
                if held and not line.endswith(b"\n") and (line.startswith(_FIRST) or _FIRST.startswith(line)):
                    break
                row = _own(line) if line.endswith(b"\n") else None
                if row is None:
                    raise DataError(f"--out {out}: line {number} is not a row of this command", "give another file")
                if "row" not in row:
                    raise DataError(
                        f"--out {out}: line {number} was written by 0.4.0, which kept no digest of the conversation",
                        "give another file; this one can be trained on as it is",
                    )
                held += len(line)
                if row["last"]:
                    found.add(row["row"])
                    whole = held
    except OSError as error:
        raise OutputError(f"--out {out}: cannot be read: {error.strerror or error}", "give another file") from error
    return found, whole


def _cut(out: Path, size: int) -> None:
    with writing(out, _GO_ON):
        if out.exists() and size != out.stat().st_size:
            os.truncate(out, size)


def _own(line: bytes) -> dict[str, Any] | None:
    """Return a line as a row of this command or of 0.4.0's; None for any other."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    kinds = {name: type(value) for name, value in row.items()} if isinstance(row, dict) else {}
    return row if kinds in (_KINDS, _EARLIER) else None


if __name__ == "__main__":
    leave(main)
