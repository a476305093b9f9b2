"""Options that the `cache` commands share."""

from typing import Annotated

import typer

from envdoctor.catalog.cache_kinds import NAMES, PORTABLE

Sha256Option = Annotated[str, typer.Option("--sha256", metavar="HEX", help="Take the file only if it has this sha256.")]
SignersOption = Annotated[
    str,
    typer.Option(
        "--signers",
        metavar="FILE",
        envvar="ENVDOCTOR_CACHE_SIGNERS",
        help="Take the file only if its .sig is of one of these allowed signers: see ssh-keygen(1).",
    ),
]
IncludeOption = Annotated[
    list[str],
    typer.Option(
        "--include",
        metavar="KIND",
        help=f"Take this cache too: {', '.join(name for name in NAMES if name not in PORTABLE)}. Can be repeated.",
    ),
]
