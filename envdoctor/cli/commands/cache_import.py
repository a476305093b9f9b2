"""`envdoctor cache import`: take in what torch.compiler.save_cache_artifacts wrote."""

from typing import Annotated

import typer

from envdoctor.app import cache_changes as app
from envdoctor.cache.vouched import Vouching
from envdoctor.cli.cache_options import Sha256Option, SignersOption
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import FormatOption, JsonOption, ProfileOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Bytes of torch.compiler.save_cache_artifacts().")],
    profile: ProfileOption = "",
    sha256: Sha256Option = "",
    signers: SignersOption = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Merge torch's own portable cache into inductor's folder, without running torch; nothing is overwritten.

    The file is code that torch will run: import only what you or someone you trust made.
    """
    vouching = Vouching(sha256=sha256, signers=signers)
    return finish(app.import_(Workspace.open(profile=profile), file, vouching, Terminal()), output_format, json=json)
