"""Whether a variable changes a configuration value at all: `X=0` where `os.environ.get("X", "0") == "1"` reads it."""

import ast
from collections.abc import Callable, Mapping
from typing import Any

_READS = frozenset({"os.environ.get", "os.getenv", "environ.get", "getenv"})
_CALLS: Mapping[str, Callable[[Any], Any]] = {"int": int, "float": float, "bool": bool, "str": str}
_DEEPEST = 20


class _UnknownError(Exception):
    """The expression does more than reading a variable and comparing it."""


def same_as_unset(expression: ast.expr, name: str, value: str) -> bool:
    """Tell whether an expression gives the same with a variable at that value as without it; False when unclear.

    Nothing is executed: constants, reads of the environment, comparisons and the calls of `_CALLS` are worked out.
    """
    try:
        return bool(_value(expression, {name: value}, 0) == _value(expression, {}, 0))
    except (_UnknownError, ValueError, TypeError, ArithmeticError):
        return False


def _value(node: ast.expr, environ: Mapping[str, str], depth: int) -> Any:  # noqa: C901, PLR0911 - one case a kind of node
    if depth > _DEEPEST:
        raise _UnknownError

    def inner(child: ast.expr) -> Any:
        return _value(child, environ, depth + 1)

    match node:
        case ast.Constant():
            return node.value
        case ast.Tuple() | ast.List():
            return tuple(map(inner, node.elts))
        case ast.UnaryOp(op=ast.Not()):
            return not inner(node.operand)
        case ast.BoolOp():
            found = inner(node.values[0])
            for child in node.values[1:]:
                if bool(found) == isinstance(node.op, ast.Or):
                    break
                found = inner(child)
            return found
        case ast.IfExp():
            return inner(node.body) if inner(node.test) else inner(node.orelse)
        case ast.Compare(ops=[op], comparators=[other]):
            return _compared(op, inner(node.left), inner(other))
        case ast.Call(func=ast.Attribute(attr="lower", value=text), args=[], keywords=[]):
            return str.lower(inner(text))
        case ast.Call(keywords=[]):
            return _called(ast.unparse(node.func), list(map(inner, node.args)), environ)
        case _:
            raise _UnknownError


def _compared(op: ast.cmpop, one: Any, other: Any) -> bool:
    match op:
        case ast.Eq() | ast.Is():
            return bool(one == other)
        case ast.NotEq() | ast.IsNot():
            return bool(one != other)
        case ast.In():
            return one in other
        case ast.NotIn():
            return one not in other
        case _:
            raise _UnknownError


def _called(function: str, arguments: list[Any], environ: Mapping[str, str]) -> Any:
    if function in _READS and arguments and isinstance(arguments[0], str):
        return environ.get(arguments[0], arguments[1] if len(arguments) > 1 else None)
    if function in _CALLS and len(arguments) == 1:
        return _CALLS[function](arguments[0])
    raise _UnknownError
