"""Copies of functions with code objects of their own, so that no two threads share a compiled function.

dynamo keeps what it compiled, and the guards that choose among it, on the code object. Evaluating guards is not
thread safe: a guard tree has state while it is walked (the check that no two inputs alias each other), and one of
its guards is Python, so another thread may walk the same tree in between. The check then fails for no reason and the
function is compiled again, in the middle of steps that everybody knows (seen with three warmed threads over one
function on torch 2.13; with a copy for each thread in no run).
"""

import types
from collections.abc import Callable, Iterable
from typing import Any

from trainer.errors import ConfigError


def private(functions: Iterable[Callable[..., Any]]) -> list[Callable[..., Any]]:
    """Return the functions with fresh code objects; those that shared one share the copy.

    Bound methods stay bound: the layers of one model are many bindings of one function, compiled once. Raises
    ConfigError for what is no Python function, such as a forward that another library has wrapped.
    """
    copies: dict[types.FunctionType, types.FunctionType] = {}
    made: list[Callable[..., Any]] = []
    for function in functions:
        plain = function.__func__ if isinstance(function, types.MethodType) else function
        if not isinstance(plain, types.FunctionType):
            raise ConfigError(
                f"run.compile: {function!r} is not a Python function, so it cannot be compiled for one worker alone",
                "load the model without what wraps its layers (quantisation or offload hooks), or use --compile off",
            )
        if plain not in copies:
            copies[plain] = _copy(plain)
        copy = copies[plain]
        made.append(types.MethodType(copy, function.__self__) if isinstance(function, types.MethodType) else copy)
    return made


def _copy(function: types.FunctionType) -> types.FunctionType:
    code = function.__code__.replace()
    copy = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    return copy
