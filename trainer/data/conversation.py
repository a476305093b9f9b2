"""A row of somebody's file as the conversation that a chat template takes.

These shapes are read: {"conversations": [{"role": .., "content": ..}]} (also "messages"), ShareGPT's
{"from": "human", "value": ..} with "function_call" and "observation", a prompt with its answer (TRL's
"prompt"/"completion", "prompt"/"response", Alpaca's "instruction"/"input"/"output" with "history", Dolly's
"instruction"/"context"/"response"), a row's "system" and "tools", content as a list of text parts, turns that call
tools, and reasoning ("reasoning_content", as the templates of Qwen3 and DeepSeek read it, or "reasoning" or
"thinking"). Turns, tools and calls that a file holds as JSON text are read as lists; a prompt or an answer never is.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.errors import DataError

Message = dict[str, Any]
"""What a chat template sees of a turn: "role", "content", "tool_calls" and the keys in CARRIED that the row has."""

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
# ShareGPT's names, as its exports and the data sets derived from it write them.
SHAREGPT = {
    "human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "assistant": "assistant",
    "system": "system", "tool": "tool", "observation": "tool", "function_response": "tool",
    "function_call": "assistant",
}  # fmt: skip
PAIRS = (
    ("prompt", "completion"), ("prompt", "response"), ("instruction", "output"), ("instruction", "response"),
)  # fmt: skip
"""Keys of a row that is one question and its answer."""
_MORE = ("input", "context")
"""Keys of what an instruction is about: Alpaca's and Dolly's."""
REASONING = ("reasoning_content", "reasoning", "thinking")
CARRIED = ("tool_call_id", "name", "reasoning_content")
SHAPE = 'a row is {"conversations": [{"role": "user", "content": ".."}, ..]} or {"input_ids": [..], "loss_mask": [..]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a chat template renders."""

    messages: list[Message]
    tools: list[Any] | None = None
    """JSON schemas of the tools, as the row gives them."""


def conversation_of(row: Mapping[str, Any], origin: str) -> Conversation:
    """Return the conversation of a row; raises DataError that names `origin` and the turn that cannot be used."""
    try:
        return _conversation(row, origin)
    except RecursionError as error:
        raise DataError(f"{origin}: nested too deeply", "fix or remove the row") from error


def _conversation(row: Mapping[str, Any], origin: str) -> Conversation:
    talk = _listed(row.get("conversations") or row.get("messages")) or _pair(row, origin)
    if not isinstance(talk, list) or not talk:
        raise DataError(f"{origin}: no conversation in the keys {sorted(row)}", SHAPE)
    tools = _listed(row.get("tools")) or None
    if tools is not None and not isinstance(tools, list):
        raise DataError(f"{origin}: tools is {type(tools).__name__}, not a list", "give a list of JSON schemas")
    messages = [_message(turn, f"{origin}: turn {at}") for at, turn in enumerate(talk, 1)]
    return Conversation(messages=_with_system(messages, row.get("system"), origin), tools=tools)


def _with_system(messages: list[Message], told: Any, origin: str) -> list[Message]:
    """Return the turns after the system's text that a row has beside them."""
    if not told:
        return messages
    if not isinstance(told, str):
        raise DataError(
            f"{origin}: system is {type(told).__name__}, not text", 'give it as a turn of the role "system"'
        )
    if messages[0]["role"] not in {"system", "developer"}:
        return [{"role": "system", "content": told}, *messages]
    if messages[0]["content"] != told:
        raise DataError(f"{origin}: system and turn 1 are two texts of the system", "keep one of them")
    return messages


def _listed(value: Any) -> Any:
    """Return a value, or the list that it is the JSON text of."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, list) else value


def _pair(row: Mapping[str, Any], origin: str) -> Any:
    """Return the turns of a row that is a question with or without its answer; None for another row."""
    whole = [pair for pair in PAIRS if row.get(pair[0]) is not None and row.get(pair[1]) is not None]
    found = next(iter([*whole, *(pair for pair in PAIRS if row.get(pair[0]) is not None)]), None)
    if found is None:
        return None
    # A question alone is for trainer.regenerate.
    asked, answer = row[found[0]], row.get(found[1])
    if isinstance(asked, str):
        more = [row[key] for key in _MORE if row.get(key)] if found[0] == "instruction" else []
        if not all(isinstance(text, str) for text in more):
            raise DataError(f"{origin}: {' or '.join(_MORE)} is not text", SHAPE)
        asked = [{"role": "user", "content": "\n\n".join([asked, *more])}]
    if isinstance(answer, str):
        answer = [{"role": "assistant", "content": answer}]
    if not isinstance(asked, list) or not isinstance(answer, list | None):
        return None
    return [*_history(row.get("history"), origin), *asked, *(answer or [])]


def _history(told: Any, origin: str) -> list[Message]:
    """Return the turns of Alpaca's history, [[question, answer], ..]."""
    turns: list[Message] = []
    for pair in told or []:
        if not isinstance(pair, list) or [type(text) for text in pair] != [str, str]:
            raise DataError(f"{origin}: history is not a list of a question and its answer each", SHAPE)
        turns += [{"role": "user", "content": pair[0]}, {"role": "assistant", "content": pair[1]}]
    return turns


def _message(turn: Any, place: str) -> Message:
    if not isinstance(turn, dict):
        raise DataError(f"{place} is {type(turn).__name__}, not an object", SHAPE)
    calls = None
    if "role" not in turn and "from" in turn:
        role, content = SHAREGPT.get(str(turn["from"])), turn.get("value")
        if role is None:
            raise DataError(f"{place} is from {turn['from']!r}", f"known are {', '.join(SHAREGPT)}")
        if turn["from"] == "function_call":
            calls, content = _calls(content, place), ""
    else:
        role, content = turn.get("role"), turn.get("content")
        if role not in ROLES:
            raise DataError(f"{place} has the role {role!r}", f"roles are {', '.join(sorted(ROLES))}")
    carried = {key: _without_nulls(turn[key]) for key in CARRIED if turn.get(key)}
    calls = calls or _tool_calls(turn, place)
    if calls:
        carried["tool_calls"] = calls
    thought = next((turn[key] for key in REASONING if isinstance(turn.get(key), str) and turn[key]), None)
    if role == "assistant" and thought is not None:
        carried["reasoning_content"] = thought
    return {"role": role, "content": _text(content, place, optional="tool_calls" in carried), **carried}


def _tool_calls(turn: Mapping[str, Any], place: str) -> Any:
    """Return a turn's calls in the form of "tool_calls": also those of OpenAI's older "function_call"."""
    found = _listed(turn.get("tool_calls"))
    if found and not isinstance(found, list):
        raise DataError(f"{place}: tool_calls is {type(found).__name__}, not a list", "give a list of calls")
    if not found and turn.get("function_call"):
        return _calls(turn["function_call"], place)
    return _without_nulls(found or [])


def _calls(value: Any, place: str) -> list[Mapping[str, Any]]:
    """Return the calls of {"name": .., "arguments": ..}, or of a list of them, also as JSON text; at least one."""
    try:
        told = json.loads(value) if isinstance(value, str) else value
        calls: list[Mapping[str, Any]] = [
            {"type": "function", "function": {"name": call["name"], "arguments": call.get("arguments", {})}}
            for call in (told if isinstance(told, list) else [told])
        ]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        calls = []
    if not calls:
        raise DataError(
            f"{place} is a function_call without a name: {str(value)[:60]!r}",
            'its value is JSON: {"name": "..", "arguments": {..}}, or a list of these',
        )
    return calls


def _text(content: Any, place: str, *, optional: bool) -> str:
    if isinstance(content, str):
        return content
    if content is None and optional:
        return ""
    if not isinstance(content, list):
        raise DataError(f"{place} has no text but {type(content).__name__}", SHAPE)
    texts = [
        part.get("text") if isinstance(part, dict) and part.get("type", "text") == "text" else None for part in content
    ]
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            kind = content[at].get("type") if isinstance(content[at], dict) else type(content[at]).__name__
            raise DataError(
                f"{place}: part {at + 1} of its content is {kind!r}, and only text can be learnt", "remove the row"
            )
    return "".join(str(text) for text in texts)


def _without_nulls(value: Any) -> Any:
    """Return a value without the nulls that a columnar file fills in for keys of other rows."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_without_nulls(item) for item in value]
    return value
