"""A row of somebody's file as the conversation that a chat template takes.

These shapes are read: {"conversations": [{"role": .., "content": ..}]} (also "messages"), ShareGPT's
{"from": "human", "value": ..} with "function_call" and "observation", a prompt with its answer (TRL's
"prompt"/"completion", "prompt"/"response", Alpaca's "instruction"/"input"/"output"), content as a list of text parts,
turns that call tools, a row's "tools", and reasoning ("reasoning_content", as the templates of Qwen3 and DeepSeek read
it, or "reasoning" or "thinking"). Lists that a file holds as JSON text are read as lists.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.errors import DataError

Message = dict[str, Any]
"""What a chat template sees of a turn: "role", "content" and the keys in CARRIED that the row has."""

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
# ShareGPT's names, as its exports and the data sets derived from it write them.
SHAREGPT = {
    "human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "assistant": "assistant",
    "system": "system", "tool": "tool", "observation": "tool", "function_response": "tool",
    "function_call": "assistant",
}  # fmt: skip
PAIRS = (("prompt", "completion"), ("prompt", "response"), ("instruction", "output"))
"""Keys of a row that is one question and its answer."""
REASONING = ("reasoning_content", "reasoning", "thinking")
CARRIED = ("tool_calls", "tool_call_id", "name", "reasoning_content")
SHAPE = 'a row is {"conversations": [{"role": "user", "content": ".."}, ..]} or {"input_ids": [..], "loss_mask": [..]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a chat template renders."""

    messages: list[Message]
    tools: list[Any] | None = None
    """JSON schemas of the tools, as the row gives them."""


def conversation_of(row: Mapping[str, Any], origin: str) -> Conversation:
    """Return the conversation of a row; raises DataError that names `origin` and the turn that cannot be used."""
    talk = _listed(row.get("conversations") or row.get("messages")) or _pair(row)
    if not isinstance(talk, list) or not talk:
        raise DataError(f"{origin}: no conversation in the keys {sorted(row)}", SHAPE)
    tools = _listed(row.get("tools")) or None
    if tools is not None and not isinstance(tools, list):
        raise DataError(f"{origin}: tools is {type(tools).__name__}, not a list", "give a list of JSON schemas")
    return Conversation(
        messages=[_message(turn, f"{origin}: turn {at}") for at, turn in enumerate(talk, 1)], tools=tools
    )


def _listed(value: Any) -> Any:
    """Return a value, or the list that it is the JSON text of."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, list) else value


def _pair(row: Mapping[str, Any]) -> Any:
    """Return the turns of a row that is a question with or without its answer; None for another row."""
    whole = [pair for pair in PAIRS if row.get(pair[0]) is not None and row.get(pair[1]) is not None]
    found = next(iter([*whole, *(pair for pair in PAIRS if row.get(pair[0]) is not None)]), None)
    if found is None:
        return None
    # A question alone is for trainer.regenerate.
    asked, answer = _listed(row[found[0]]), _listed(row.get(found[1])) or []
    if isinstance(asked, str):
        more = row.get("input") if found[0] == "instruction" else None
        asked = [{"role": "user", "content": f"{asked}\n\n{more}" if more else asked}]
        if isinstance(row.get("system"), str) and row["system"]:
            asked.insert(0, {"role": "system", "content": row["system"]})
    if isinstance(answer, str):
        answer = [{"role": "assistant", "content": answer}]
    return [*asked, *answer] if isinstance(asked, list) and isinstance(answer, list) else None


def _message(turn: Any, place: str) -> Message:
    if not isinstance(turn, dict):
        raise DataError(f"{place} is {type(turn).__name__}, not an object", SHAPE)
    if "role" not in turn and "from" in turn:
        role, content = SHAREGPT.get(str(turn["from"])), turn.get("value")
        if role is None:
            raise DataError(f"{place} is from {turn['from']!r}", f"known are {', '.join(SHAREGPT)}")
        if turn["from"] == "function_call":
            return {"role": role, "content": "", "tool_calls": _calls(content, place)}
    else:
        role, content = turn.get("role"), turn.get("content")
        if role not in ROLES:
            raise DataError(f"{place} has the role {role!r}", f"roles are {', '.join(sorted(ROLES))}")
    carried = {key: _without_nulls(turn[key]) for key in CARRIED if turn.get(key)}
    thought = next((turn[key] for key in REASONING if isinstance(turn.get(key), str) and turn[key]), None)
    if role == "assistant" and thought is not None:
        carried["reasoning_content"] = thought
    return {"role": role, "content": _text(content, place, optional="tool_calls" in carried), **carried}


def _calls(value: Any, place: str) -> list[Mapping[str, Any]]:
    """Return the tool calls of a ShareGPT turn: {"name": .., "arguments": ..}, or a list of them, as JSON text."""
    try:
        told = json.loads(value) if isinstance(value, str) else value
        calls = told if isinstance(told, list) else [told]
        return [
            {"type": "function", "function": {"name": call["name"], "arguments": call.get("arguments", {})}}
            for call in calls
        ]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{place} is a function_call without a name: {str(value)[:60]!r}",
            'its value is JSON: {"name": "..", "arguments": {..}}, or a list of these',
        ) from error


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
