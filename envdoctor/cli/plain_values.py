"""Typer commands whose values are checked here, because typer's own coercion costs more than a whole check.

typer 0.29 loads pydantic to turn the first value of a command line into a `str`: 100 ms of the 170 ms that an empty
command takes. Our parameters are strings, paths, whole numbers, choices and lists of these; they need none of it.
Any other annotation is left to typer, so a command that wants more gets more and pays for it.
"""

import os
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from envdoctor.cli.help_text import write_examples, write_groups
from envdoctor.errors import UsageError

_SCALARS: tuple[object, ...] = (str, Path, int, float, bool)
_NO_VENV = ("the venv is named by an empty text", "name a venv, or leave it out for the default")
_NOT_EMPTY = {
    "venv": _NO_VENV,
    "venv_option": _NO_VENV,
    "profile": ("--profile is empty", "name a profile (`envdoctor profiles`), or omit the option"),
}
_NUMBERS = {int: "whole number", float: "number"}


class PlainCommand(TyperCommand):
    """A command whose parameters are converted without pydantic."""

    def get_params(self, ctx: Any) -> Any:
        """Return typer's parameters (the help option included) with the plain conversion put in."""
        return _with_plain_values(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options in their groups."""
        write_groups(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        write_examples(ctx, formatter)

    def parse_args(self, ctx: Any, args: Any) -> Any:
        """Parse, and refuse a venv or a profile that is given and empty.

        An unset variable, `check "$VENV"`, must not mean another environment, and `-p "$PROFILE"` no comparison.
        """
        ctx.default_map = _configured(ctx)
        rest = super().parse_args(ctx, args)
        for name, (message, hint) in _NOT_EMPTY.items():
            source = ctx.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE" and ctx.params.get(name) == "":
                raise UsageError(message, hint)
        return rest


def _configured(ctx: Any) -> dict[str, str]:
    """Return what pyproject.toml says for options that are given neither here nor by a variable."""
    wanted = {parameter.name for parameter in ctx.command.params} & {"profile", "fail_on"}
    if not wanted or ctx.resilient_parsing:
        return {}
    from envdoctor.documents.project_config import load
    from envdoctor.facts.host import working_folder

    found = load(working_folder())
    if os.environ.get("ENVDOCTOR_PROFILE") == "":
        wanted -= {"profile"}  # set and empty: no profile, whatever the file says
    return {name: value for name in wanted if (value := getattr(found, name))}


class PlainGroup(TyperGroup):
    """A group whose own options are converted without pydantic."""

    def get_params(self, ctx: Any) -> Any:
        """Return typer's parameters with the plain conversion put in."""
        return _with_plain_values(super().get_params(ctx))


def _with_plain_values(parameters: Sequence[Any]) -> Sequence[Any]:
    for parameter in parameters:
        # A typer that keeps its types elsewhere converts them itself: slower, and right.
        told = getattr(parameter, "type_descriptor", None)
        if told is not None and _is_plain(told.annotation) and not _wants_more(told.parameter_info):
            parameter._runtime_param = PlainValue(told.annotation)  # noqa: SLF001 - typer has no public hook for this
        if parameter.param_type_name == "argument" and parameter.metavar:
            parameter.display_type_rich = _no_type  # "VENV <str>" in the help says less than "VENV"
    return parameters


def _no_type(ctx: Any) -> str:
    del ctx
    return ""


class PlainValue:
    """Stands in for typer's RuntimeParam: the same `coerce`, for the annotations above."""

    def __init__(self, annotation: Any) -> None:
        """Keep the annotation of one parameter, as typer resolved it."""
        self.annotation = annotation

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value as its annotation wants it; raise typer.BadParameter with the parameter's name."""
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        try:
            if many:
                inner = get_args(self.annotation)[0]
                return type(value)(_scalar(inner, item) for item in value)
            return _scalar(self.annotation, value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from error


def _is_plain(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return all(option is type(None) or _is_plain(option) for option in get_args(annotation))
    if origin is list:
        return _is_plain(get_args(annotation)[0])
    return origin is Literal or annotation in _SCALARS


def _wants_more(info: Any) -> bool:
    wishes = ("parser", "click_type", "min", "max", "exists", "resolve_path", "path_type", "allow_dash")
    return any(getattr(info, wish, None) not in (None, False) for wish in wishes)


def _scalar(annotation: Any, value: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(option for option in get_args(annotation) if option is not type(None))
    if get_origin(annotation) is Literal:
        allowed = get_args(annotation)
        if value not in allowed:
            raise ValueError(f"{value!r} is not one of {', '.join(map(repr, allowed))}.")
        return value
    if annotation is bool and isinstance(value, str):
        return _truth(value)
    if annotation in _NUMBERS and isinstance(value, str):
        return _number(annotation, value)
    return value if isinstance(value, annotation) else annotation(value)


def _number(kind: Any, word: str) -> Any:
    try:
        return kind(word)
    except ValueError:
        raise ValueError(f"{word!r} is not a {_NUMBERS[kind]}.") from None


def _truth(value: str) -> bool:
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
        "": False,
    }
    if value.strip().lower() not in words:
        raise ValueError(f"{value!r} is not a valid boolean.")
    return words[value.strip().lower()]
