"""Writing what `impact` found."""

import os
import sys

from envdoctor import __version__
from envdoctor.cli.options import Color
from envdoctor.cli.terminal import style_for, write_result
from envdoctor.exitcodes import ExitCode
from envdoctor.model.codec import encode
from envdoctor.model.impact import Impact


def show(impact: Impact, *, as_json: bool, color: Color) -> int:
    """Write the result and return the exit code."""
    if as_json:
        from envdoctor.report.as_json import dump

        tool = {"name": "envdoctor", "version": __version__}
        write_result(dump({"schema_version": 1, "tool": tool, **encode(impact), "harmful": impact.harmful}))
    else:
        from envdoctor.report import impact_text

        write_result(impact_text.render(impact, style_for(sys.stdout, os.environ, color=color)))
    return ExitCode.FINDINGS if impact.harmful else ExitCode.OK
