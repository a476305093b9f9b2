"""Values of a command line without pydantic: the same as typer's own for what our commands use."""

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
import typer.main

from envdoctor.cli.plain_values import PlainCommand, PlainValue

CHOICE = Literal["a", "b"]


def parsed(cls: Any, arguments: list[str]) -> Any:
    seen: list[Any] = []
    app = typer.Typer(rich_markup_mode=None, add_completion=False)

    def command(  # noqa: PLR0917
        words: Annotated[list[str], typer.Argument()] = [],  # noqa: B006
        path: Path = Path("x"),
        number: int = 1,
        share: float = 0.5,
        choice: CHOICE = "a",
        many: Annotated[list[int], typer.Option()] = [],  # noqa: B006
        maybe: str | None = None,
        flag: Annotated[bool, typer.Option(envvar="PLAIN_FLAG")] = False,  # noqa: FBT002
        small: Annotated[int, typer.Option(min=1, max=5)] = 1,
    ) -> None:
        seen.append((words, path, number, share, choice, many, maybe, flag, small))

    app.command("command", cls=cls)(command)
    try:
        typer.main.get_command(app).main(args=arguments, standalone_mode=False)
    except typer.TyperException as error:
        return error.format_message().splitlines()[0]
    return seen[0]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["w", "v", "--path", "p/q", "--number", "3", "--share", "2", "--choice", "b", "--many", "1", "--many", "2"],
        ["--maybe", "x", "--flag", "--small", "5"],
        ["--", "--number"],
    ],
)
def test_the_same_values_as_typers_own(arguments: list[str]) -> None:
    assert parsed(PlainCommand, arguments) == parsed(None, arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--number", "x"], "Invalid value for '--number': 'x' is not a whole number."),
        (["--choice", "c"], "Invalid value for '--choice': 'c' is not one of 'a', 'b'."),
        (["--many", "1", "--many", "y"], "Invalid value for '--many': 'y' is not a whole number."),
    ],
)
def test_bad_values_name_their_option(arguments: list[str], message: str) -> None:
    assert parsed(PlainCommand, arguments) == message


def test_what_is_not_plain_is_left_to_typer() -> None:
    assert parsed(PlainCommand, ["--small", "9"]) == parsed(None, ["--small", "9"])
    assert str(parsed(PlainCommand, ["--small", "9"])).startswith("Invalid value for '--small'")


@pytest.mark.parametrize(
    ("word", "value"), [("1", True), ("TRUE", True), ("on", True), ("0", False), ("No", False), ("", False)]
)
def test_truth_of_an_environment_variable(monkeypatch: pytest.MonkeyPatch, word: str, value: bool) -> None:  # noqa: FBT001
    class Single:
        multiple, nargs = False, 1

    assert PlainValue(bool).coerce(word, Single(), None) is value
    monkeypatch.setenv("PLAIN_FLAG", word)
    assert parsed(PlainCommand, [])[7] is value
