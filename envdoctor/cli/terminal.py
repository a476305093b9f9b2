"""Where a result goes and how its reader's terminal looks."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from envdoctor.cli.late import hush
from envdoctor.cli.leaving import leaving
from envdoctor.errors import UsageError
from envdoctor.facts.whole_file import write_named
from envdoctor.model.pattern import pattern
from envdoctor.report.style import Style, typable_prose

# A log or a file has no width of its own; this reads well in both.
_WIDTH_WITHOUT_TERMINAL = 100
_UNICODE = {"utf8", "utf16", "utf32"}
_PROSE = pattern(r"(?:error|warning|note|help|hint): ")


def style_for(
    stream: TextIO | None,
    environ: Mapping[str, str],
    *,
    color: str = "auto",
    quiet: bool = False,
    verbose: bool = False,
) -> Style:
    """Return the style for text written to `stream`; None is a file, which has no width and is UTF-8."""
    width = _width(stream, environ)
    return Style(
        width=width or _WIDTH_WITHOUT_TERMINAL,
        on_screen=stream is not None and stream.isatty(),
        color=_colored(stream, environ, color),
        unicode=stream is None or (stream.encoding or "ascii").lower().replace("-", "") in _UNICODE,
        verbosity=verbose - quiet,
        programs=programs,
    )


def programs() -> Mapping[str, str]:
    """Return program -> what to type in its place, where PATH has no `uv`, or not this `envdoctor`."""
    from envdoctor.facts.programs import by_path

    def own_uv() -> str | None:
        from envdoctor.wheels.uv import own_binary

        return own_binary()

    return by_path(os.environ, sys.argv[0], own_uv)


def write_result(text: str, output: str = "") -> None:
    """Write a command's result to `output`, or to stdout when that is empty or "-".

    A reader that has left (`envdoctor check | head`) is not an error: the command still ends with its own exit code.
    """
    hush()
    text = leaving(text)
    if output not in {"", "-"}:
        try:
            write_named(Path(output), text.encode())
        except OSError as error:
            raise UsageError(
                f"cannot write {output}: {error.strerror}", "name a file in a folder you may write to"
            ) from error
        return
    if sys.stdout is None:
        raise UsageError("stdout is closed, so the result cannot be written", "write it to a file: `--output FILE`")
    try:
        sys.stdout.write(_encodable(text, sys.stdout.encoding or "utf-8"))
        sys.stdout.flush()
    except OSError as error:
        _swallow(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise UsageError(
                f"cannot write to stdout: {error.strerror}", "write it to a file: `--output FILE`"
            ) from error


def _encodable(text: str, encoding: str) -> str:
    """Return a text with what an encoding has no sign for written out, as stderr does it."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except LookupError:
        pass
    return text


def say(text: str) -> None:
    """Write one line for the person to stderr: progress, hints, errors.

    On a terminal, errors, warnings, notes and hints are no wider than it; what stands in backticks and long words stay
    whole, and so does every other line. Where nobody reads it any more (a dropped connection), the command goes on and
    ends with its own exit code.
    """
    hush()
    try:
        print(_fitting(leaving(typable_prose(text, programs))), file=sys.stderr)  # noqa: T201 - stderr is where it belongs
    except BrokenPipeError:
        _swallow(sys.stderr)


def _fitting(text: str) -> str:
    width = _width(sys.stderr, os.environ) if sys.stderr is not None and sys.stderr.isatty() else 0
    if not width or all(len(line) <= width for line in text.split("\n")):
        return text
    from envdoctor.report.fitted import fitted

    return "\n".join(fitted(line, width, color=True) if _PROSE.match(line) else line for line in text.split("\n"))


def _swallow(stream: TextIO) -> None:
    # Python would flush the dead descriptor once more at exit and complain; give it one that swallows.
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _width(stream: TextIO | None, environ: Mapping[str, str]) -> int:
    """Return the columns of the terminal that is read, 0 where there is none."""
    if (columns := environ.get("COLUMNS", "")).isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream else 0
    except (OSError, ValueError):
        return 0


def _colored(stream: TextIO | None, environ: Mapping[str, str], color: str) -> bool:
    if color != "auto":
        return color == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return stream is not None and stream.isatty() and environ.get("TERM") != "dumb"
