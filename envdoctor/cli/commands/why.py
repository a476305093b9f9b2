"""`envdoctor why`: where something in an environment comes from, and who depends on it."""

import os
import sys
from typing import Annotated

import typer

from envdoctor import __version__
from envdoctor.cli.options import ColorOption, FormatOption, JsonOption, VenvOption
from envdoctor.cli.terminal import style_for, write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.explore.environment import explore
from envdoctor.explore.why import why as answer_to
from envdoctor.model.codec import encode


def why(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A soname (libcudnn.so.9), a module, a path, or a distribution.")
    ],
    venv: VenvOption = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
    color: ColorOption = "auto",
) -> int:
    """Say who provides a library, which file an import takes, whose a path is, or who wants a distribution.

    Nothing of the venv is run or imported. Exit codes: 0 answered, 2 nothing has that name.
    """
    workspace = Workspace.open(venv)
    answer = answer_to(explore(workspace.target, workspace.host), name)
    if json or output_format == "json":
        from envdoctor.report.as_json import dump

        write_result(
            dump({"schema_version": 1, "tool": {"name": "envdoctor", "version": __version__}, **encode(answer)})
        )
    else:
        from envdoctor.report import why_text

        write_result(why_text.render(answer, style_for(sys.stdout, os.environ, color=color)))
    return 0
