"""`envdoctor cache import`: take in what torch.compiler.save_cache_artifacts wrote."""

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


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Bytes of torch.compiler.save_cache_artifacts().")],
    profile: ProfileOption = "",
) -> int:
    """Merge torch's own portable cache into inductor's folder, without running torch; nothing is overwritten.

    The file is code that torch will run: import only what you or somebody you trust has made.
    """
    host = Workspace.open(profile=profile).with_variables().host
    inductor = next(root.path for root in roots(host) if root.kind == "inductor")
    try:
        data = Path(host.cwd, file).read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}", "name the file torch's cache was written to"
        ) from error
    outcomes = blob.merge(blob.read(data, file), inductor)
    counted = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items()) or "nothing in it"
    write_result(f"Imported {file} into {inductor}: {counted}\n")
    return ExitCode.OK
