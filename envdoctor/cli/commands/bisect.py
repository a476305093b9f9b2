"""`envdoctor bisect`: which of the changes between a good stack and a bad one makes a command fail."""

from typing import Annotated

import typer

from envdoctor.app import bisect as app
from envdoctor.app.result import Result
from envdoctor.cli import completion
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import FormatOption, JsonOption, TrustVariablesOption, VenvOption, YesOption
from envdoctor.cli.output import finish
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.trial.command import Criterion
from envdoctor.trial.journal import Caches

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="GOOD BAD -- CMD",
        autocompletion=completion.stacks,
        help="Two stacks, each a venv, a profile, a fingerprint (.json) or a backup (VENV@N); a command that fails in "
        "the bad one.",
    ),
]
RunsOption = Annotated[
    int, typer.Option("--runs", metavar="N", help="Run the command up to N times in each copy, for one that is flaky.")
]
FailsOption = Annotated[int, typer.Option("--fails", metavar="K", help="K failing runs of N make a copy bad.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="A run that takes longer than this fails.")
]
MeasureOption = Annotated[
    str,
    typer.Option("--measure", metavar="REGEX", help="Judge by a number in the output: the group of 'tok/s=([0-9.]+)'."),
]
DropOption = Annotated[
    str,
    typer.Option(
        "--drop", metavar="PERCENT", help="With `--measure`: bad is this much less than the good end; 10% if not given."
    ),
]
RiseOption = Annotated[
    str, typer.Option("--rise", metavar="PERCENT", help="With `--measure`: bad is this much more than the good end.")
]
CacheOption = Annotated[
    Caches,
    typer.Option(
        "--cache", help="Compile caches of the copies: your entries by links, none, or that is one of the changes."
    ),
]
SourcesOption = Annotated[
    bool, typer.Option("--sources", help="The commits between the good profile's and the code here are changes too.")
]
OfflineOption = Annotated[bool, typer.Option("--offline", help="Use uv's cache and local sources only.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with the last bisection of the venv.")]
LogOption = Annotated[bool, typer.Option("--log", help="Show the copies of the last bisection of the venv.")]
UndoOption = Annotated[
    bool, typer.Option("--undo", help="Swap in the copy without the causes that the last bisection found good.")
]


def bisect(
    words: Words = [],  # noqa: B006 - typer reads the default and never shares it
    venv: VenvOption = "",
    runs: RunsOption = 1,
    fails: FailsOption = 1,
    timeout: TimeoutOption = 600.0,
    measure: MeasureOption = "",
    drop: DropOption = "",
    rise: RiseOption = "",
    cache: CacheOption = "warm",
    sources: SourcesOption = False,
    offline: OfflineOption = False,
    trust_variables: TrustVariablesOption = False,
    resume: ResumeOption = False,
    log: LogOption = False,
    undo: UndoOption = False,
    yes: YesOption = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Find which change between two stacks makes a command fail, with copies of the venv that take a moment each.

    The command's exit code 0 is good, 125 cannot be judged, any other is bad. Exit codes: 0 found, 2 bad input or an
    end is not as said, 3 found but not verified, 4 failed with the venv as it was, 130 interrupted.
    """
    workspace = Workspace.open(venv)
    if resume or log or undo:
        if words or resume + log + undo > 1:
            raise UsageError(
                "`--resume`, `--log` and `--undo` take the last bisection as it is", "give one of them alone"
            )
        wanted = "resume" if resume else "log" if log else "undo"
        done = _last(workspace, wanted, trust_variables=trust_variables, yes=yes)
        return finish(done, output_format, json=json)
    if len(words) < 3:
        raise UsageError(
            "two stacks and a command are needed", 'as in `envdoctor bisect GOOD BAD -- python -c "import torch"`'
        )
    share = _share(drop, rise, measured=bool(measure))
    criterion = Criterion(runs=runs, fails=fails, timeout=timeout, pattern=measure, drop=share)
    wishes = app.BisectOptions(
        criterion=criterion, caches=cache, offline=offline, sources=sources, trust_variables=trust_variables
    )
    good, bad, *command = words
    return finish(app.bisect(workspace, good, bad, tuple(command), wishes, Terminal()), output_format, json=json)


def _last(workspace: Workspace, wanted: str, *, trust_variables: bool, yes: bool) -> Result:
    if wanted == "log":
        return app.log(workspace)
    if wanted == "undo":
        return app.undo(workspace, Terminal(), yes=yes)
    return app.resume(workspace, Terminal(), trust_variables=trust_variables)


def _share(drop: str, rise: str, *, measured: bool) -> float:
    """Return the share by which a bad number is smaller; negative for larger. 10 % less where nothing is given."""
    if drop and rise:
        raise UsageError("--drop and --rise are given", "give one of them")
    told, name = (drop, "--drop") if drop else (rise, "--rise")
    if not told:
        return 0.1 if measured else 0.0
    try:
        share = float(told.removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share < (1 if drop else 1e6):
        raise UsageError(f"{name} {told} is not a percentage", f"as in `{name} 20%`")
    return share if drop else -share
