"""Frozen dataclasses to plain JSON/TOML values and back, with the path of every mistake."""

import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any

from envdoctor.model.frozen import field_names, has_default, is_declared


class CodecError(ValueError):
    """A value does not fit its type. `where` is the path from the document's root ("torch.version")."""

    def __init__(self, where: str, problem: str) -> None:
        """Keep path and problem apart; the text is "path: problem"."""
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where = where
        self.problem = problem


def encode(value: Any) -> Any:
    """Return plain dicts, lists, strings, numbers, booleans and None for a tree of frozen dataclasses."""
    if is_declared(value) and not isinstance(value, type):
        return {name: encode(getattr(value, name)) for name in field_names(type(value))}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [encode(item) for item in value]
    return value


def decode(kind: Any, data: Any, where: str = "") -> Any:
    """Build `kind` from plain values. Unknown keys, missing keys and wrong types raise CodecError with the path."""
    if is_declared(kind):
        return _decode_dataclass(typing.cast("type", kind), data, where)
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return _decode_literal(kind, data, where)
    if origin in (typing.Union, types.UnionType):
        return _decode_optional(kind, data, where)
    if origin is tuple:
        return _decode_tuple(kind, data, where)
    if origin is not None and issubclass(origin, Mapping):
        return _decode_mapping(kind, data, where)
    return _decode_scalar(kind, data, where)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode_dataclass(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise CodecError(where, f"expected a table, got {_shown(data)}")
    hints = _hints(kind)
    unknown = sorted(set(map(str, data)) - set(hints))
    if unknown:
        raise CodecError(_join(where, unknown[0]), f"unknown key; known here: {', '.join(sorted(hints))}")
    values: dict[str, Any] = {}
    for name in field_names(kind):
        if name in data:
            values[name] = decode(hints[name], data[name], _join(where, name))
        elif not has_default(kind, name):
            raise CodecError(_join(where, name), "missing")
    return kind(**values)


def _decode_literal(kind: Any, data: Any, where: str) -> Any:
    allowed = typing.get_args(kind)
    if data not in allowed:
        raise CodecError(where, f"expected one of {', '.join(map(str, allowed))}, got {_shown(data)}")
    return data


def _decode_optional(kind: Any, data: Any, where: str) -> Any:
    inner = [option for option in typing.get_args(kind) if option is not type(None)]
    if data is None and len(inner) < len(typing.get_args(kind)):
        return None
    if len(inner) == 1:
        return decode(inner[0], data, where)
    for option in inner:
        try:
            return decode(option, data, where)
        except CodecError:
            continue
    raise CodecError(where, f"fits none of the allowed types, got {_shown(data)}")


def _decode_tuple(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, list | tuple):
        raise CodecError(where, f"expected a list, got {_shown(data)}")
    arguments = typing.get_args(kind)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(decode(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(data))
    if len(arguments) != len(data):
        raise CodecError(where, f"expected {len(arguments)} items, got {len(data)}")
    return tuple(
        decode(argument, item, f"{where}[{index}]")
        for index, (argument, item) in enumerate(zip(arguments, data, strict=True))
    )


def _decode_mapping(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise CodecError(where, f"expected a table, got {_shown(data)}")
    key_kind, value_kind = typing.get_args(kind)
    return {
        decode(key_kind, key, where): decode(value_kind, item, _join(where, str(key))) for key, item in data.items()
    }


def _decode_scalar(kind: Any, data: Any, where: str) -> Any:
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise CodecError(where, f"expected {kind.__name__}, got {_shown(data)}")
    return data


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _shown(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 60 else text[:57] + "..."
