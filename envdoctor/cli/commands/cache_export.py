"""`envdoctor cache export`: write the graphs as torch.compiler.load_cache_artifacts reads them."""

from typing import Annotated

import typer

from envdoctor.app import cache_changes as app
from envdoctor.cli.options import FormatOption, JsonOption, ProfileOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace


def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write it.")],
    profile: ProfileOption = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Write inductor's graphs and autotune results as one file for torch.compiler.load_cache_artifacts().

    It holds no C++ kernels: torch compiles those again on a CPU. `cache save` keeps everything.
    """
    return finish(app.export(Workspace.open(profile=profile), file), output_format, json=json)
