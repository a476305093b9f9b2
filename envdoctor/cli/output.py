"""A result on stdout, as text or as JSON."""

import os
import sys

from envdoctor.app.result import Result
from envdoctor.cli.terminal import style_for, write_result
from envdoctor.cli.values import Color, Format
from envdoctor.exitcodes import ExitCode
from envdoctor.report.rendering import as_json, as_text


def finish(
    result: Result,
    output_format: Format = "text",
    *,
    json: bool = False,
    output: str = "",
    color: Color = "auto",
    quiet: bool = False,
    verbose: bool = False,
) -> ExitCode:
    """Write the result and return its exit code. What was declined has nothing to write."""
    if result.data is None:
        return result.exit_code
    if json or output_format == "json":
        write_result(as_json(result), output)
    else:
        stream = None if output else sys.stdout
        style = style_for(stream, os.environ, color=color, quiet=quiet, verbose=verbose)
        write_result(as_text(result, style), output)
    return result.exit_code
