"""`envdoctor repair`: install again only what is damaged, on a copy, and swap it in."""

import json as json_module
import shlex
from collections.abc import Sequence
from typing import Annotated

import typer

from envdoctor.cli.generation_options import HEAD, agreed
from envdoctor.cli.options import (
    DryRunOption,
    FormatOption,
    JsonOption,
    ProfileOption,
    VenvArgument,
    VenvOption,
    YesOption,
    one_venv,
)
from envdoctor.cli.progress import progress
from envdoctor.cli.signals import stoppable
from envdoctor.cli.terminal import say, write_result
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import RestoreError
from envdoctor.exitcodes import ExitCode
from envdoctor.model.codec import encode
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted, size
from envdoctor.report.plan_text import MEANWHILE, kept_lines
from envdoctor.stack import repair as repairing
from envdoctor.stack.repair import Prepared, Repaired, Request
from envdoctor.stack.repair_plan import RepairPlan
from envdoctor.swap import durable
from envdoctor.swap.store import Store
from envdoctor.swap.transaction import Exchanged, recover_first


def repair(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    offline: Annotated[bool, typer.Option("--offline", help="Use uv's cache and local sources only.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
) -> int:
    """Repair a venv with the fewest reinstalls, on a copy that is verified and swapped in; the old venv is kept.

    With a profile its pinned versions are put back; without one each package stays at its version. What the lock does
    not have is left alone. Exit codes: 0 repaired or nothing to repair, 2 bad input, 4 failed, or no reinstall fixes
    it, or the wanted owner of a file is not known, the venv as it was, 130 declined or interrupted.
    """
    as_json = json or output_format == "json"
    workspace = Workspace.open(one_venv(venv, venv_option), profile)
    host, file, target = workspace.host, workspace.profile, workspace.folder
    request = Request(
        target=target,
        file=file,
        lock=file.lock if file else None,
        offline=offline or host.environ.get("UV_OFFLINE", "").lower() in {"1", "true", "yes", "on"},
    )
    with progress() as listen, stoppable():
        if not dry_run:
            recover_first(Store.of(target), listen)
        identity = durable.inode(Store.of(target).witness)
        prepared = repairing.prepare(request, host, listen)
    if not prepared.plan.changes.needed:
        return _nothing_to_reinstall(prepared, as_json=as_json)
    if dry_run:
        _write(as_json, _plan_text(prepared.plan, prepared.request.profile_asked), prepared.plan, {"status": "planned"})
        return ExitCode.OK
    say(_plan_text(prepared.plan, prepared.request.profile_asked))
    if not yes and not agreed(f"Repair {prepared.plan.target}?"):
        say(f"{prepared.plan.target} is as it was")
        return ExitCode.INTERRUPTED
    done = _carry_out(prepared, identity)
    result = {"kept": str(done.kept), "remaining": encode(done.made.remaining), "seconds": dict(done.seconds)}
    _write(as_json, _outcome(prepared, done), prepared.plan, {"status": "repaired", "result": result})
    return ExitCode.OK


def _carry_out(prepared: Prepared, identity: int | None) -> Exchanged[Repaired]:
    target = prepared.store.target

    def state() -> str:
        same = durable.inode(prepared.store.witness) == identity
        return f"{target} is as it was" if same else f"{target} holds the repaired stack"

    try:
        with progress() as listen, stoppable():
            return repairing.carry_out(prepared, listen)
    except RestoreError as error:
        raise RestoreError(f"{error.message}\n{state()}", error.hint) from error
    except KeyboardInterrupt:
        say(f"\n{state()}")
        raise


def _nothing_to_reinstall(prepared: Prepared, *, as_json: bool) -> int:
    verified = prepared.verified
    counts = f"{counted(verified.distributions, 'package')}, {counted(verified.files, 'file')} ({size(verified.bytes)})"
    plan, remaining = prepared.plan, prepared.before
    if not remaining:
        text = f"{plan.target} needs no repair: {counts} are as recorded\n"
        _write(as_json, text, plan, {"status": "nothing to repair"})
        return ExitCode.OK
    lines = [f"{plan.target} needs no reinstall: {counts} are as recorded", *_remaining_lines(remaining)]
    _write(as_json, "\n".join(lines) + "\n", plan, {"status": "not repaired", "remaining": encode(remaining)})
    return ExitCode.RESTORE_FAILED


def _plan_text(plan: RepairPlan, profile: str) -> str:
    lines = [f"envdoctor repair  {plan.target}   {f'profile {plan.profile}' if plan.profile else 'no profile'}", ""]
    lines += [f"  remove     {item.name} {item.version}: {item.reason}" for item in plan.changes.removals]
    for item in plan.changes.reinstalls:
        change = f"{item.before} -> {item.version}" if item.before not in ("", item.version) else item.version
        lines.append(f"  reinstall  {item.name} {change}: {item.reason}")
    again = sum(item.bytes for item in plan.changes.reinstalls)
    counts = f"{len(plan.changes.reinstalls)} of {counted(plan.total_packages, 'package')}"
    lines += [
        "",
        f"  {counts} installed again, {size(again)} of {size(plan.total_bytes)}",
        "  on a linked copy, which is verified, examined and swapped in in one step",
        f"  the venv as it is now is kept at {plan.keep}",
    ]
    lines += [f"  in use by {user}" for user in plan.users]
    lines += [f"  {MEANWHILE}"] if plan.users else []
    if plan.restore_instead:
        command = f"envdoctor restore --profile {profile} --venv {shlex.quote(plan.target)}"
        lines += ["", f"  {plan.restore_instead}: {command}"]
    return "\n".join(lines) + "\n"


def _outcome(prepared: Prepared, done: Exchanged[Repaired]) -> str:
    plan, verified = prepared.plan, done.made.verified
    changed = (
        f"{counted(len(plan.changes.removals), 'package')} removed, {len(plan.changes.reinstalls)} installed again"
    )
    files = f"{counted(verified.files, 'file')} ({size(verified.bytes)})"
    lines = [f"repaired {plan.target}: {changed}; {files} verified by sha256"]
    lines += _remaining_lines(done.made.remaining)
    lines += kept_lines(prepared.store.target, done.kept, plan.users) if done.kept else []
    return "\n".join(lines) + "\n"


def _remaining_lines(findings: Sequence[Finding]) -> list[str]:
    """Return what no reinstall fixes, each with its own fix."""
    lines: list[str] = []
    for finding in findings:
        remedy = finding.remediation
        lines += [
            "",
            f"no reinstall fixes {finding.code}: {finding.title} ({finding.subject})",
            f"  fix: {remedy.text}",
        ]
        lines += [f"       {command}" for command in remedy.by_hand or remedy.commands]
    return lines


def _write(as_json: bool, text: str, plan: RepairPlan, rest: dict[str, object]) -> None:
    write_result(json_module.dumps({**HEAD, **rest, "plan": encode(plan)}, indent=2) + "\n" if as_json else text)
