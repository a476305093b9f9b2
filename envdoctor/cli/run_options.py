"""Options of `run` that say how the command is started."""

from typing import Annotated

import typer

from envdoctor import gate

GateModeOption = Annotated[
    gate.Mode,
    typer.Option(
        "--gate",
        envvar="ENVDOCTOR_GATE",
        help="What findings do: stop the launch, only be reported, or not be looked for.",
    ),
]
ReasonOption = Annotated[
    str,
    typer.Option(
        "--reason", envvar="ENVDOCTOR_GATE_REASON", help="Why the gate is bypassed; `warn` and `off` need one."
    ),
]
WatchOption = Annotated[
    bool,
    typer.Option(
        "--watch", help="Stay, and say when throughput or GPU memory is not what the profile expects of a run."
    ),
]
MeasureOption = Annotated[
    str,
    typer.Option(
        "--measure",
        metavar="PATTERN",
        help="With `--watch`: a regular expression whose group is the tokens a second, `tok/s=([0-9.]+)`.",
    ),
]
MetricsOption = Annotated[
    str,
    typer.Option(
        "--metrics", metavar="FILE", help="With `--watch`: read throughput from this file, not from the output."
    ),
]
ProvenanceOption = Annotated[
    str,
    typer.Option(
        "--provenance",
        metavar="FILE",
        envvar="ENVDOCTOR_PROVENANCE",
        help="Write what the command is started on to FILE, beside its outputs: a fingerprint, which `diff` takes.",
    ),
]
