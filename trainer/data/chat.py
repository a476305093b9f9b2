"""A conversation to tokens and the mask of what the assistant says, by the target's own tokenizer and template."""

from collections.abc import Sequence
from typing import Any

from trainer.data.rows import Row
from trainer.errors import DataError

Message = dict[str, str]


def encode(tokenizer: Any, messages: Sequence[Message], origin: str) -> Row:
    """Return the row of a conversation.

    A template with {% generation %} marks says itself what the assistant generates. Any other one is asked for
    every prefix of the conversation: what the prefix with the assistant's turn has beyond the prefix that ends
    in the generation prompt is that turn. Raises DataError when the template rewrites earlier turns, because
    the mask would then be a guess.
    """
    template = tokenizer.chat_template or ""
    if "{% generation %}" in template or "{%- generation" in template:
        return _marked(tokenizer, messages, template, origin)
    text = tokenizer.apply_chat_template(list(messages), tokenize=False)
    spans = [
        _span(tokenizer, messages, index, text, origin)
        for index, message in enumerate(messages)
        if message["role"] == "assistant"
    ]
    if not spans:
        raise DataError(f"{origin}: no turn of the assistant, so nothing to learn", "remove the row")
    return _row(tokenizer, text, spans, origin)


def _marked(tokenizer: Any, messages: Sequence[Message], template: str, origin: str) -> Row:
    from transformers.utils.chat_template_utils import render_jinja_template  # noqa: PLC0415 - only for marks

    # transformers' own mask is not taken: 5.6.0 lets a turn that ends in a blank run on to the end of the text.
    texts, spans = render_jinja_template(
        [list(messages)], chat_template=template, return_assistant_tokens_mask=True, **tokenizer.special_tokens_map
    )
    return _row(tokenizer, texts[0], spans[0], origin)


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
            "give a template with {% generation %} marks: --set target.chat_template=FILE",
        )
    return len(before), len(upto)
