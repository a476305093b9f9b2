"""A result on stdout, as text or as JSON."""

import os
import sys
from typing import TextIO

from envdoctor.app.result import Result
from envdoctor.cli.shown import shown
from envdoctor.cli.terminal import style_for, write_result
from envdoctor.cli.values import Format
from envdoctor.exitcodes import ExitCode
from envdoctor.report.rendering import as_json, as_text
from envdoctor.report.style import Style


def finish(result: Result, output_format: Format = "text", *, json: bool = False, output: str = "") -> ExitCode:
    """Write the result and return its exit code. What was declined has nothing to write."""
    if result.data is None:
        return result.exit_code
    if json or output_format == "json":
        write_result(as_json(result), output)
    else:
        write_result(as_text(result, style_on(None if output else sys.stdout)), output)
    return result.exit_code


def style_on(stream: TextIO | None) -> Style:
    """Return the style that the command line asks for, on that stream; None is a file."""
    chosen = shown()
    return style_for(stream, os.environ, color=chosen.color, quiet=chosen.quiet, verbose=chosen.verbose)
