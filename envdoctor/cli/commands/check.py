"""`envdoctor check`: say what is wrong with an environment, cause first."""

import os

from envdoctor.app import check as app
from envdoctor.cli.check_options import (
    BaselineOption,
    ExitZeroOption,
    FailOnOption,
    FingerprintOption,
    FixOption,
    RootOption,
    WriteBaselineOption,
)
from envdoctor.cli.dialog import Terminal
from envdoctor.cli.options import (
    DeepOption,
    DryRunOption,
    ExtraOption,
    GroupOption,
    IgnoreOption,
    JsonOption,
    LockOption,
    OutputOption,
    ProfileOption,
    ReportFormatOption,
    RequireOption,
    VenvArgument,
    VenvOption,
    YesOption,
)
from envdoctor.cli.output import finish
from envdoctor.cli.values import one_venv, requirements, waivers
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents.project_config import load
from envdoctor.errors import UsageError
from envdoctor.facts.host import Host


def check(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    fingerprint: FingerprintOption = "",
    root: RootOption = "",
    deep: DeepOption = False,
    lock: LockOption = "",
    extra: ExtraOption = [],  # noqa: B006 - typer reads the default and never shares it
    group: GroupOption = [],  # noqa: B006
    require: RequireOption = [],  # noqa: B006 - typer reads the default and never shares it
    ignore: IgnoreOption = [],  # noqa: B006 - typer reads the default and never shares it
    fail_on: FailOnOption = "error",
    exit_zero: ExitZeroOption = False,
    baseline: BaselineOption = "",
    write_baseline: WriteBaselineOption = "",
    fix: FixOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output_format: ReportFormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
) -> int:
    """Say what is wrong with a venv, cause first, with the command that fixes it.

    Nothing of the venv is run or imported. Exit codes: 0 clean, 1 findings, 2 bad input, 3 could not tell; with --fix
    those of what is left, 4 where a step failed, 130 declined or interrupted.
    """
    if lock and profile in (os.environ.get("ENVDOCTOR_PROFILE"), load(Host.current().cwd).profile):
        profile = ""  # the project's usual one; an option comes before it
    wishes = app.CheckOptions(
        fingerprint=fingerprint,
        root=root,
        deep=deep,
        lock=lock,
        extras=tuple(extra),
        groups=tuple(group),
        waivers=waivers(ignore),
        required=requirements(require),
        fail_on=fail_on,
        exit_zero=exit_zero,
        baseline=baseline,
        write_baseline=write_baseline,
    )
    if (dry_run or yes) and not fix:
        raise UsageError(f"{'--dry-run' if dry_run else '--yes'} is for --fix", "a check alone changes nothing")
    if fix and output_format not in ("text", "json"):
        raise UsageError(f"--fix has no format {output_format}", "it writes text and json; check again for a report")
    workspace = Workspace.open(one_venv(venv, venv_option), profile)
    if fix:
        from envdoctor.app.fix import FixOptions
        from envdoctor.app.fix import fix as carry_out

        fixed = carry_out(workspace, wishes, FixOptions(dry_run=dry_run, yes=yes), Terminal())
        return finish(fixed, output_format, json=json, output=output)
    done = app.check(workspace, wishes, Terminal())
    return finish(done, output_format, json=json, output=output)
