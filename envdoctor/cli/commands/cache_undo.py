"""`envdoctor cache undo`: put back what the last clean-up took."""

from typing import Annotated

import typer

from envdoctor.cache import quarantine
from envdoctor.cache.layout import roots
from envdoctor.cli.options import ProfileOption
from envdoctor.cli.terminal import write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.report.cache_text import megabytes


def undo(
    stamp: Annotated[
        str, typer.Argument(metavar="[STAMP]", help="Which clean-up, as `cache gc --purge --dry-run` lists them.")
    ] = "",
    profile: ProfileOption = "",
) -> int:
    """Put back what the last `cache gc` took out, or the one of that stamp; an entry that was made again stays."""
    host = Workspace.open(profile=profile).with_variables().host
    found = quarantine.listed(roots(host))
    wanted = stamp or (found[0].stamp if found else "")
    chosen = [item for item in found if item.stamp == wanted]
    if not chosen:
        what = f"no clean-up has the stamp {stamp}" if stamp else "nothing lies in quarantine"
        raise UsageError(what, "`envdoctor cache gc --purge --dry-run` lists what there is")
    for item in chosen:
        back, present = quarantine.put_back(item)
        kept = f", {present} were made again meanwhile and stay" if present else ""
        write_result(f"{item.root}: {back} files back in {item.origin} ({megabytes(item.bytes)}){kept}\n")
    return ExitCode.OK
