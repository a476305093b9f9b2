"""A conversation to tokens and the mask of what the assistant says, by the target's own tokenizer and template."""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from trainer.data.conversation import Conversation, Message
from trainer.data.rows import Row
from trainer.errors import ConfigError, DataError, TargetModelError, not_utf8, too_much

ENCODING = 4
"""Raised with every change of what `encode` returns: rows cached under another number are made again."""
_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")
_HALF = re.compile("[\ud800-\udfff]")
_TEMPLATE_CURE = "--set target.chat_template=FILE"

Span = tuple[int, int]
"""Where in a rendered text the assistant speaks: first and last character, as a slice."""


class Encoder:
    """Makes rows of conversations with one tokenizer, template and set of template arguments."""

    def __init__(self, tokenizer: Any, arguments: Mapping[str, Any] | None = None) -> None:
        """Bind a fast tokenizer and what its template is called with besides (`enable_thinking`, ..)."""
        self.tokenizer, self.arguments = tokenizer, dict(arguments or {})

    @property
    def digest(self) -> str:
        """Identity of what this encoder makes: the tokenizer's tables, special tokens, template and its arguments."""
        tables = json.loads(self.tokenizer.backend_tokenizer.to_str())
        # Set by each call, and none of ours pads or truncates.
        tables.update(padding=None, truncation=None)
        parts = [ENCODING, tables, self.tokenizer.special_tokens_map, self.tokenizer.chat_template, self.arguments]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def encode(self, talk: Conversation, origin: str) -> list[Row]:
        """Return the rows of a conversation: one, or one for each turn of the assistant.

        A template with {% generation %} marks says itself what the assistant generates. Any other one is asked for
        every prefix of the conversation: what the prefix with the assistant's turn has beyond the prefix that ends in
        the generation prompt is that turn. Where later turns change how earlier ones are rendered (Qwen3's template
        drops the reasoning of earlier turns), each turn of the assistant becomes a row of its own, rendered up to it:
        that is what the target sees when it generates the turn.

        Raises DataError when a turn cannot be distinguished even so, or the template fails on the conversation;
        ConfigError when there is no usable template.
        """
        template = self.tokenizer.chat_template or ""
        if not template:
            raise ConfigError(
                "target.chat_template: the target's tokenizer has no chat template", f"give one: {_TEMPLATE_CURE}"
            )
        marked = bool(_GENERATION.search(template))
        with _rendering(origin):
            rendered = [(0, *self._marked(talk))] if marked else self._by_prefixes(talk, origin)
            if not any(spans for _, _, spans in rendered):
                raise DataError(f"{origin}: no turn of the assistant, so nothing to learn", "remove the row")
            for at, message in enumerate(talk.messages):
                if message.get("tool_calls"):
                    _require_calls(message, self._said(talk, at, rendered, marked=marked), f"{origin}: turn {at + 1}")
            return [self._row(text, spans, origin, turn) for turn, text, spans in rendered]

    def prompt(self, talk: Conversation, origin: str) -> list[int]:
        """Return the tokens after which the assistant's next turn begins; raises as `encode` does."""
        if not self.tokenizer.chat_template:
            raise ConfigError(
                "target.chat_template: the target's tokenizer has no chat template", f"give one: {_TEMPLATE_CURE}"
            )
        with _rendering(origin):
            text = self._render(talk, len(talk.messages), prompt=True)
            return list(self._tokens(text, origin)["input_ids"])

    def _by_prefixes(self, talk: Conversation, origin: str) -> list[tuple[int, str, list[Span]]]:
        if talk.messages[0]["role"] == "assistant":
            raise DataError(
                f"{origin}: turn 1 is the assistant's, so no prompt comes before it",
                "start the conversation with a turn of the system or the user",
            )
        text = self._render(talk, len(talk.messages))
        turns = [at for at, message in enumerate(talk.messages) if message["role"] == "assistant"]
        spans, alone = [], []
        for at in turns:
            before, upto = self._render(talk, at, prompt=True), self._render(talk, at + 1)
            if not upto.startswith(before):
                raise DataError(
                    f"{origin}: the chat template renders turn {at + 1} differently from the prompt before it, so the"
                    " assistant's tokens cannot be distinguished",
                    f"give a template with {{% generation %}} marks: {_TEMPLATE_CURE}",
                )
            spans.append((len(before), len(upto)))
            alone.append((at + 1, upto, [spans[-1]]))
        stable = all(text.startswith(upto) for _, upto, _ in alone)
        return [(0, text, spans)] if stable else alone

    def _said(
        self, talk: Conversation, at: int, rendered: Sequence[tuple[int, str, list[Span]]], *, marked: bool
    ) -> str:
        """Return what is learnt of the turn at `at`, empty where that is nothing."""
        if marked:
            # A turn may have several marks, or none: its own are those that the turns before it do not have.
            before = len(self._marked(replace(talk, messages=talk.messages[:at]))[1]) if at else 0
            text, spans = self._marked(replace(talk, messages=talk.messages[: at + 1]))
            return "\n".join(text[low:high] for low, high in spans[before:])
        own = [(text, span) for _, text, spans in rendered for span in spans]
        number = sum(message["role"] == "assistant" for message in talk.messages[:at])
        if talk.messages[at]["role"] != "assistant":
            return ""
        text, (low, high) = own[number]
        return text[low:high]

    def _render(self, talk: Conversation, turns: int, *, prompt: bool = False) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                talk.messages[:turns], tools=talk.tools, tokenize=False, add_generation_prompt=prompt, **self.arguments
            )
        )

    def _marked(self, talk: Conversation) -> tuple[str, list[Span]]:
        from transformers.utils.chat_template_utils import render_jinja_template  # noqa: PLC0415 - only for marks

        # transformers' own mask is not taken: 5.6.0 lets a turn that ends in a blank run on to the end of the text.
        texts, spans = render_jinja_template(
            [talk.messages], tools=talk.tools, chat_template=self.tokenizer.chat_template,
            return_assistant_tokens_mask=True, **{**self.tokenizer.special_tokens_map, **self.arguments},
        )  # fmt: skip
        return texts[0], list(spans[0])

    def _tokens(self, text: str, origin: str, **asked: bool) -> Any:
        if bad := _HALF.search(text):
            raise DataError(
                f"{origin}: not Unicode: half of a character, \\u{ord(bad[0]):04x}, stands alone in the text",
                "fix or remove the row",
            )
        return self.tokenizer(text, add_special_tokens=False, **asked)

    def _row(self, text: str, spans: Sequence[Span], origin: str, turn: int) -> Row:
        found = self._tokens(text, origin, return_offsets_mapping=True)
        wanted = [int(any(low <= start < high for low, high in spans)) for start, _ in found["offset_mapping"]]
        return Row(ids=list(found["input_ids"]), wanted=wanted, origin=origin, turn=turn)


def _require_calls(message: Message, said: str, place: str) -> None:
    """Raise DataError for a tool call that the template leaves out of a turn: less would be learnt than is there."""
    names = []
    for call in message["tool_calls"]:
        told = call.get("function", call) if isinstance(call, Mapping) else {}
        names.append(told.get("name") if isinstance(told, Mapping) else None)
    rests = _besides(message, said)

    def most(name: str) -> int:
        return max(rest.count(name) for rest in rests)

    for name in names:
        if not isinstance(name, str) or not name or most(name) < names.count(name):
            raise DataError(
                f"{place} calls {name!r}, and the chat template does not render the call",
                f"give a template that renders tool calls ({_TEMPLATE_CURE}), or set data.bad_rows=skip",
            )


def _besides(message: Message, said: str) -> set[str]:
    """Return what a turn says besides its content and its reasoning, which may name what is called too.

    These stand before or behind the calls: either is taken away once.
    """
    rests = {said}
    for text in (str(message.get("reasoning_content", "")).strip(), message["content"].strip()):
        if text and text in said:
            parts = [part for rest in rests for part in (rest.partition(text), rest.rpartition(text)) if part[1]]
            rests = {f"{before}\n{after}" for before, _, after in parts} or rests
    return rests


@contextmanager
def _rendering(origin: str) -> Iterator[None]:
    """Turn what a template raises into an error that names the template's line, or the conversation's."""
    import jinja2  # noqa: PLC0415 - transformers brings it, and only templates need it

    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(
            f"target.chat_template: line {error.lineno}: {error.message}",
            f"fix the Jinja template, or give another one: {_TEMPLATE_CURE}",
        ) from error
    except (jinja2.TemplateError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise DataError(
            f"{origin}: the chat template fails on this conversation: {error}",
            f"fix or remove the row, or give another template: {_TEMPLATE_CURE}",
        ) from error


def template_arguments(settings: Sequence[str]) -> dict[str, Any]:
    """Return `NAME=VALUE` settings as arguments of a chat template; VALUE is TOML, or a bare word for a string.

    Raises ConfigError for a setting of another form.
    """
    found: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip().isidentifier():
            raise ConfigError(
                f"target.template_arguments: `{setting}` is not of the form NAME=VALUE",
                "write for example target.template_arguments=['enable_thinking=false']",
            )
        try:
            found[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name.strip()] = value.strip()
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"target.template_arguments: {name.strip()}: {too_much(error)}", "give a value that can be read"
            ) from error
    return found


def load_tokenizer(path: Path, template: str) -> Any:
    """Return the fast tokenizer of a model folder, with the template of a file where one is named."""
    # Without files of one, transformers makes an empty tokenizer of the model's type and says nothing.
    names = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt")
    if not any((path / name).is_file() for name in names):
        raise TargetModelError(f"{path} holds no tokenizer", "save the target's tokenizer there with save_pretrained")
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TargetModelError(
            f"{path}: its tokenizer cannot be read: {str(error).splitlines()[0]}", "fetch the target's folder again"
        ) from error
    if not tokenizer.is_fast:
        raise TargetModelError(
            f"{path}: {type(tokenizer).__name__} does not tell which text a token stands for",
            "save the target with a fast tokenizer (tokenizer.json)",
        )
    if template:
        tokenizer.chat_template = _template(Path(template))
    return tokenizer


def _template(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line, told = not_utf8(error)
        raise ConfigError(f"target.chat_template: {path}: line {line}: {told}", "save the file as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"target.chat_template: {path}: {error.strerror}", "give a readable Jinja file") from error


def mask_token(configured: int, tokenizer: Any, vocabulary: int) -> int:
    """Return the token that stands for "to be predicted": an existing row of the target's embedding.

    Raises ConfigError when none can be told: a row added by a resize is untrained and absent where it is served.
    """
    token = configured if configured >= 0 else tokenizer.mask_token_id
    if token is None and len(tokenizer) < vocabulary:
        # Rows past the tokenizer's last token exist in the embedding and are never text (Qwen3-8B: 151669).
        token = len(tokenizer)
    if token is None or token >= vocabulary:
        unused = unused_tokens(tokenizer)
        named = ", ".join(f"{place} ({content})" for place, content in unused[:5])
        raise ConfigError(
            f"drafter.mask_token: {token if token is not None else 'none'} in a vocabulary of {vocabulary}",
            f"set drafter.mask_token to a token that no text has; the tokenizer has {named}"
            if unused
            else "set drafter.mask_token to a reserved token of the target",
        )
    return int(token)


def unused_tokens(tokenizer: Any) -> list[tuple[int, str]]:
    """Return the special tokens that neither the chat template nor the tokenizer uses, reserved ones first."""
    template = tokenizer.chat_template or ""
    template = template if isinstance(template, str) else str(template)
    used = {
        tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id,
        tokenizer.sep_token_id, tokenizer.cls_token_id,
    }  # fmt: skip
    found = [
        (int(place), str(token.content))
        for place, token in tokenizer.added_tokens_decoder.items()
        if token.special and place not in used and token.content not in template
    ]
    spare = ("reserved", "unused", "extra", "placeholder", "dummy")
    return sorted(found, key=lambda item: (not any(word in item[1].lower() for word in spare), item[0]))
