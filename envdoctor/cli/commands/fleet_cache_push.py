"""`envdoctor fleet cache push`: a snapshot of the compile cache on many nodes, where its keys fit."""

from typing import Annotated

import typer

from envdoctor.cli import completion
from envdoctor.cli.cache_options import SignersOption
from envdoctor.cli.fleet_change import FleetAsked, with_nodes
from envdoctor.cli.options import ProfileOption


@with_nodes
def push(
    asked: FleetAsked,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=completion.snapshots,
            help="A snapshot that `cache save` made here, or the path of its archive.",
        ),
    ],
    profile: ProfileOption = "",
    signers: SignersOption = "",
) -> int:
    """Merge a snapshot of this machine's compile cache on the nodes whose stack and GPUs it was made for.

    Its signature is looked at here (`--signers`), its sha256 on each node before anything is unpacked. A node that it
    does not fit says why and is left as it is. The snapshot travels, and is removed again once it is merged.
    Exit codes: 0 done or nothing to do, 1 a snapshot that is damaged or not signed as asked, 2 bad input, 3 some could
    not plan and the others are done, 4 a node failed or the plan is not the one that was shown, 130 declined or
    interrupted.
    """
    return asked.carry_out("cache push", profile=profile, snapshot=name, signers=signers)
