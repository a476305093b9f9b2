"""`envdoctor cache export`: write the graphs as torch.compiler.load_cache_artifacts reads them."""

import os
from pathlib import Path
from typing import Annotated

import typer

from envdoctor.cache import blob
from envdoctor.cache.layout import roots
from envdoctor.cli.options import ProfileOption
from envdoctor.cli.terminal import write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.report.cache_text import megabytes


def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write it.")], profile: ProfileOption = ""
) -> int:
    """Write inductor's graphs and autotune results as one file for torch.compiler.load_cache_artifacts().

    It holds no C++ kernels: torch compiles those again on a CPU. `cache save` keeps everything.
    """
    host = Workspace.open(profile=profile).with_variables().host
    root = next(root for root in roots(host) if root.kind == "inductor")
    target = Path(host.cwd, file)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w+b") as out:
            counted = blob.export(root, out)
        if not counted:
            raise UsageError(
                f"there is no compiled graph in {root.path}", "fill it first: `envdoctor cache warm --profile P`"
            )
        temporary.replace(target)
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror}", "name a file in a folder you may write to"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    entries = ", ".join(f"{number} {kind}" for kind, number in counted.items())
    write_result(f"Exported {entries} from {root.path}: {file} ({megabytes(target.stat().st_size)})\n")
    return ExitCode.OK
