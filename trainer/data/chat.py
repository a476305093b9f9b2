"""A conversation to tokens and the mask of what the assistant says, by the target's own tokenizer and template."""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from trainer.data.rows import Row
from trainer.errors import ConfigError, DataError

Message = dict[str, str]
ENCODING = 1
"""Raised with every change of what `encode` returns: rows cached under another number are made again."""
_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")
_TEMPLATE_CURE = "--set target.chat_template=FILE"


def encoding_digest(tokenizer: Any) -> str:
    """Return the identity of what `encode` does with this tokenizer: its tables, special tokens and template."""
    tables = json.loads(tokenizer.backend_tokenizer.to_str())
    # Set by each call, and none of ours pads or truncates.
    tables.update(padding=None, truncation=None)
    told = [ENCODING, tables, tokenizer.special_tokens_map, tokenizer.chat_template]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]


def encode(tokenizer: Any, messages: Sequence[Message], origin: str) -> Row:
    """Return the row of a conversation.

    A template with {% generation %} marks says itself what the assistant generates. Any other one is asked for
    every prefix of the conversation: what the prefix with the assistant's turn has beyond the prefix that ends
    in the generation prompt is that turn. Raises DataError when the template rewrites earlier turns, because
    the mask would then be a guess, or fails on the conversation; ConfigError when there is no usable template.
    """
    template = tokenizer.chat_template or ""
    if not template:
        raise ConfigError(
            "target.chat_template: the target's tokenizer has no chat template", f"give one: {_TEMPLATE_CURE}"
        )
    with _rendering(origin):
        text, spans = (_marked if _GENERATION.search(template) else _by_prefixes)(tokenizer, messages, origin)
    if not spans:
        raise DataError(f"{origin}: no turn of the assistant, so nothing to learn", "remove the row")
    return _row(tokenizer, text, spans, origin)


@contextmanager
def _rendering(origin: str) -> Iterator[None]:
    """Turn what a template raises into an error that names the template's line, or the conversation's."""
    import jinja2  # noqa: PLC0415 - transformers brings it, and only templates need it

    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(
            f"target.chat_template: line {error.lineno}: {error.message}",
            f"mend the Jinja template, or give another one: {_TEMPLATE_CURE}",
        ) from error
    except (jinja2.TemplateError, ValueError, TypeError, LookupError) as error:
        raise DataError(
            f"{origin}: the chat template fails on this conversation: {error}",
            f"mend or remove the row, or give another template: {_TEMPLATE_CURE}",
        ) from error


def _by_prefixes(tokenizer: Any, messages: Sequence[Message], origin: str) -> tuple[str, list[tuple[int, int]]]:
    if messages[0]["role"] == "assistant":
        raise DataError(
            f"{origin}: turn 1 is the assistant's, so no prompt comes before it",
            "start the conversation with a turn of the system or the user",
        )
    text = tokenizer.apply_chat_template(list(messages), tokenize=False)
    return text, [
        _span(tokenizer, messages, index, text, origin)
        for index, message in enumerate(messages)
        if message["role"] == "assistant"
    ]


def _marked(tokenizer: Any, messages: Sequence[Message], _origin: str) -> tuple[str, list[tuple[int, int]]]:
    from transformers.utils.chat_template_utils import render_jinja_template  # noqa: PLC0415 - only for marks

    # transformers' own mask is not taken: 5.6.0 lets a turn that ends in a blank run on to the end of the text.
    texts, spans = render_jinja_template(
        [list(messages)], chat_template=tokenizer.chat_template, return_assistant_tokens_mask=True,
        **tokenizer.special_tokens_map,
    )  # fmt: skip
    return texts[0], list(spans[0])


def _row(tokenizer: Any, text: str, spans: Sequence[tuple[int, int]], origin: str) -> Row:
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    wanted = [int(any(low <= start < high for low, high in spans)) for start, _ in found["offset_mapping"]]
    return Row(ids=list(found["input_ids"]), wanted=wanted, origin=origin)


def _span(tokenizer: Any, messages: Sequence[Message], index: int, text: str, origin: str) -> tuple[int, int]:
    before = tokenizer.apply_chat_template(list(messages[:index]), tokenize=False, add_generation_prompt=True)
    upto = tokenizer.apply_chat_template(list(messages[: index + 1]), tokenize=False)
    if not (upto.startswith(before) and text.startswith(upto)):
        raise DataError(
            f"{origin}: the chat template renders turn {index + 1} differently once later turns follow,"
            " so the assistant's tokens cannot be told apart",
            f"give a template with {{% generation %}} marks: {_TEMPLATE_CURE}",
        )
    return len(before), len(upto)
