"""Options that only `check` has."""

from typing import Annotated

import typer

from envdoctor.model.finding import Severity

FingerprintOption = Annotated[
    str, typer.Option("--fingerprint", metavar="FILE", help="Check a saved fingerprint instead of a venv.")
]
RootOption = Annotated[
    str,
    typer.Option(
        "--root",
        metavar="DIR",
        help="Check the venv at that path inside DIR, a mounted image or a container's file system.",
    ),
]
FailOnOption = Annotated[
    Severity,
    typer.Option("--fail-on", envvar="ENVDOCTOR_FAIL_ON", help="Exit 1 for findings at or above this severity."),
]
ExitZeroOption = Annotated[
    bool, typer.Option("--exit-zero", help="Exit 0 whatever was found; bad input still exits 2.")
]
BaselineOption = Annotated[
    str, typer.Option("--baseline", metavar="FILE", help="Let only findings count that are not in FILE.")
]
WriteBaselineOption = Annotated[
    str, typer.Option("--write-baseline", metavar="FILE", help="Write what is found to FILE, for --baseline.")
]
FixOption = Annotated[
    bool, typer.Option("--fix", help="Fix what counts: one plan, one question, on copies; rollback undoes it.")
]
