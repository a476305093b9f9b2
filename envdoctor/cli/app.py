"""The typer application: loads only the command that was asked for, and renders every error in one place."""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer
import typer.main

from envdoctor import __version__
from envdoctor.cli.completion import VARIABLE, answering
from envdoctor.cli.endings import say_crash, say_error, wants_json
from envdoctor.cli.help_text import terminal_width, write_examples, write_rows
from envdoctor.cli.plain_values import PlainCommand, PlainGroup
from envdoctor.cli.presentation import with_presentation
from envdoctor.cli.terminal import say
from envdoctor.errors import EnvdoctorError, UsageError
from envdoctor.exitcodes import ExitCode

# Command -> its module; the function has the command's name. Nothing here is imported before it is asked for.
COMMANDS = {
    # `try` is a keyword of Python.
    name: f"envdoctor.cli.commands.{'try_' if name == 'try' else name.replace('-', '_')}"
    for name in (
        "check",
        "restore",
        "repair",
        "history",
        "rollback",
        "prune",
        "run",
        "fingerprint",
        "why",
        "impact",
        "explain",
        "checks",
        "schema",
        "profiles",
        "profile",
        "lock",
        "capture",
        "fetch",
        "diff",
        "watch-stack",
        "bisect",
        "try",
        "cache",
        "gate",
        "config",
        "sbom",
        "mcp",
        "fleet",
    )
}
SECTIONS = {
    "Start here": ("check", "why", "explain", "repair", "restore", "rollback", "capture", "run"),
    "Before a change, and after one": ("impact", "try", "diff", "bisect", "watch-stack"),
    "Known-good stacks": ("profiles", "profile", "lock", "fetch"),
    "Backups": ("history", "prune"),
    "Launch": ("gate", "fleet"),
    "Compile cache": ("cache",),
    "For other programs": ("fingerprint", "sbom", "checks", "schema", "mcp"),
    "Settings": ("config",),
}
"""How `--help` groups the commands."""
# What people type instead, and what they mean.
_MEANT = {
    "help": "envdoctor --help",
    "version": "envdoctor --version",
    "fix": "envdoctor repair",
    "doctor": "envdoctor check",
    "install": "envdoctor impact install",
    "uninstall": "envdoctor impact remove",
    "remove": "envdoctor impact remove",
    "list": "envdoctor profiles",
    "undo": "envdoctor rollback",
    "status": "envdoctor check",
}


class LazyGroup(PlainGroup):
    """Finds a command by importing its module, so that `check` does not pay for `restore`."""

    modules: Mapping[str, str] = COMMANDS
    """Command -> its module."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the commands in the order a person meets them."""
        del ctx
        return list(self.modules)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help of a group that is typed alone: bad input, as the program alone is."""
        if not args and ctx.parent is not None and not ctx.resilient_parsing:
            print(ctx.get_help())  # noqa: T201 - stdout is the result
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first word; raise UsageError with the nearest one for a word that is none."""
        if args[0] not in self.modules and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(args[0], self.modules, 1)
            path = ctx.command_path
            if ctx.parent is None and args[0] in _MEANT:
                raise UsageError(f"there is no command `{args[0]}`", f"did you mean `{_MEANT[args[0]]}`?")
            hint = f"did you mean `{path} {near[0]}`?" if near else f"`{path} --help` lists the commands"
            raise UsageError(f"there is no command `{args[0]}`", hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by what they are for, and, for the whole program, examples."""
        listed = {"Commands": tuple(self.modules)} if ctx.parent else SECTIONS
        for title, names in listed.items():
            rows = [(name, self.get_command(ctx, name).get_short_help_str(500)) for name in names]
            with formatter.section(title):
                write_rows(formatter, rows)
        write_examples(ctx, formatter)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, or None when there is none of that name."""
        del ctx
        if cmd_name not in self.modules:
            return None
        return _command(cmd_name, importlib.import_module(self.modules[cmd_name]))


def _command(name: str, module: Any) -> Any:
    """Return the command of a module: its function of that name, or a group where it names SUBCOMMANDS."""
    # A command called like a keyword or a builtin (`import`, `list`) is a function with an underscore after it.
    called = name.replace("-", "_")
    function = getattr(module, called, None) or getattr(module, f"{called}_")
    single = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    if modules := getattr(module, "SUBCOMMANDS", None):
        group = type("LazySubgroup", (LazyGroup,), {"modules": modules})
        single.callback(cls=group)(function)
    else:
        # Without a short help of its own, the list of commands would cut each sentence at 45 letters.
        summary = (function.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        settings = getattr(module, "CONTEXT_SETTINGS", None)
        single.command(name, cls=PlainCommand, context_settings=settings, short_help=summary)(
            with_presentation(function)
        )
    return typer.main.get_command(single)


def build() -> Any:
    """Return the whole command tree."""
    app = typer.Typer(
        cls=LazyGroup,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "terminal_width": terminal_width()},
    )
    app.callback()(_root)
    return typer.main.get_command(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"envdoctor {__version__}")  # noqa: T201 - stdout is the result
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", "-V", is_eager=True, callback=_print_version, help="Print the version and exit."
    ),
) -> None:
    """Find out why a PyTorch environment is broken, without importing it, and rebuild the known-good stack."""
    del version


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code. Every message of ours goes to stderr as `error: …`, `hint: …`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if VARIABLE in os.environ:
        return answering(lambda: build().main(args=given, prog_name="envdoctor", standalone_mode=False))
    try:
        outcome = build().main(args=given or ["--help"], prog_name="envdoctor", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except EnvdoctorError as error:
        return say_error(error, as_json=wants_json(given))
    except typer.TyperException as error:
        return say_error(_usage(error, given), as_json=wants_json(given))
    except (KeyboardInterrupt, typer.Abort):
        outcome = ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - Python would exit with 1, which says that something was found in the venv
        return say_crash(error, as_json=wants_json(given))
    if outcome == ExitCode.INTERRUPTED:  # typer returns this for Ctrl-C inside a command, and says nothing
        say("error: interrupted")
    return int(outcome or 0) if given else ExitCode.USAGE


def _usage(error: Any, given: Sequence[str]) -> UsageError:
    context = getattr(error, "ctx", None)
    # A parser's own complaint carries no context; the first command named is the one it is about.
    named = next((f"envdoctor {word}" for word in given if word in COMMANDS), "envdoctor")
    command = context.command_path if context is not None else named
    return UsageError(_sentence(error.format_message()), f"`{command} --help` lists what it takes")


def _sentence(message: str) -> str:
    # uv's manner: no capital, no full stop in a one-sentence message.
    text = message.strip().removesuffix(".")
    return text[:1].lower() + text[1:]
