"""A result on stdout or in a file, in the shape that was asked for."""

import os
import sys
from typing import TextIO

from envdoctor.app.result import Result
from envdoctor.cli.shown import shown
from envdoctor.cli.terminal import programs, style_for, write_result
from envdoctor.cli.values import ReportFormat
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.report.rendering import as_json, as_text
from envdoctor.report.style import Style


def finish(result: Result, output_format: ReportFormat = "text", *, json: bool = False, output: str = "") -> ExitCode:
    """Write the result and return its exit code. What was declined has nothing to write.

    Raises UsageError for `--json` beside another `--format`, and for a format that the command does not have.
    """
    if json and output_format not in ("text", "json", os.environ.get("ENVDOCTOR_FORMAT")):
        raise UsageError(f"both --json and --format {output_format} were given", "give only one of them")
    if result.data is None:
        return result.exit_code
    if json or output_format == "json":
        write_result(as_json(result, programs), output)
    elif output_format == "text":
        write_result(as_text(result, style_on(None if output else sys.stdout)), output)
    else:
        from envdoctor.cli.shared_report import write_report

        write_report(result, output_format, output)
    return result.exit_code


def style_on(stream: TextIO | None) -> Style:
    """Return the style that the command line asks for, on that stream; None is a file."""
    chosen = shown()
    return style_for(stream, os.environ, color=chosen.color, quiet=chosen.quiet, verbose=chosen.verbose)
