"""Reports for other places than this terminal: an issue, a pull request, a page, another program."""

import os
from pathlib import Path

from envdoctor.app.result import Result
from envdoctor.cli.leaving import leaving
from envdoctor.cli.shown import show_as, shown
from envdoctor.cli.terminal import say, write_result
from envdoctor.model.frozen import replace
from envdoctor.report.rendering import SHARED, as_format

_SUMMARY = "GITHUB_STEP_SUMMARY"


def write_report(result: Result, name: str, output: str) -> None:
    """Write the result in that format; what others will read hides names, unless `--no-redact` says otherwise.

    With `github` the Markdown is appended to the file that $GITHUB_STEP_SUMMARY names, where it names one. Raises
    UsageError as `as_format` and `write_result` do.
    """
    chosen = shown()
    if chosen.redact is None and name in SHARED:
        show_as(replace(chosen, redact=True))
    write_result(as_format(result, name, leaving), output)
    if name == "github" and (summary := os.environ.get(_SUMMARY)):
        _append(Path(summary), as_format(result, "markdown", leaving))


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(leaving(text))
    except OSError as error:
        say(f"warning: the step summary was not written: {path} (${_SUMMARY}): {error.strerror}")
