"""`envdoctor repair`: the plan, and what was done."""

import shlex
from collections.abc import Sequence
from typing import Any

from envdoctor.app.repair import RepairResult
from envdoctor.model.codec import encode
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted, size
from envdoctor.report.plan_text import MEANWHILE, kept_lines
from envdoctor.report.style import Style
from envdoctor.stack.prepared_repair import PreparedRepair
from envdoctor.stack.repair_copy import Repaired
from envdoctor.stack.repair_plan import RepairPlan
from envdoctor.swap.transaction import Exchanged

_HIDDEN = (
    "  while torch cannot be imported, errors behind that are hidden: they may show then, and do not stop the repair"
)


def text(data: RepairResult, style: Style) -> str:
    """Return the plan, or what became of it."""
    prepared = data.prepared
    if data.done is not None:
        return _outcome(prepared, data.done, style)
    if data.status == "planned":
        told = f"{data.refused}\n\n" if data.refused else ""
        return told + _plan_text(prepared.plan, prepared.request.profile_asked, hides=prepared.hidden.torch)
    verified = prepared.verified
    counts = f"{counted(verified.distributions, 'package')}, {counted(verified.files, 'file')} ({size(verified.bytes)})"
    if data.status == "nothing to repair":
        return f"{prepared.plan.target} needs no repair: {counts} are as recorded\n"
    lines = [f"repair has nothing to put back in {prepared.plan.target}: {counts} are as recorded"]
    lines += _remaining_lines(prepared.before, style)
    return "\n".join(lines) + "\n"


def document(data: RepairResult) -> dict[str, Any]:
    """Return the plan as plain values, and the result once there is one."""
    plan = encode(data.prepared.plan)
    rest: dict[str, Any] = {}
    if data.status == "not repaired":
        rest = {"remaining": encode(data.prepared.before)}
    if data.done is not None:
        done = data.done
        kept = str(done.kept) if done.kept else None
        rest = {
            "result": {
                "kept": kept,
                "remaining": encode(done.made.remaining),
                "revealed": encode(done.made.revealed),
                "seconds": dict(done.seconds),
            }
        }
    rest |= {"digest": data.digest} if data.digest else {}
    rest |= {"refused": data.refused} if data.refused else {}
    return {"status": data.status, **rest, "plan": plan | {"profile": plan["profile"] or None}}


def _plan_text(plan: RepairPlan, profile: str, *, hides: bool) -> str:
    """Return the plan; `profile` is what follows `--profile` in a command, quoted."""
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
        "  on a linked copy, which is verified, examined, and then swapped in",
        *([_HIDDEN] if hides else []),
        f"  the venv as it is now is kept at {plan.keep}",
    ]
    lines += [f"  in use by {user}" for user in plan.users]
    lines += [f"  {MEANWHILE}"] if plan.users else []
    for warning in plan.warnings:
        lines += ["", f"warning: {warning}"]
    if plan.restore_instead:
        command = f"envdoctor restore --profile {profile} --venv {shlex.quote(plan.target)}"
        lines += ["", f"  {plan.restore_instead}: `{command}`"]
    return "\n".join(lines) + "\n"


def _outcome(prepared: PreparedRepair, done: Exchanged[Repaired], style: Style) -> str:
    plan, verified = prepared.plan, done.made.verified
    changed = (
        f"{counted(len(plan.changes.removals), 'package')} removed, {len(plan.changes.reinstalls)} installed again"
    )
    files = f"{counted(verified.files, 'file')} ({size(verified.bytes)})"
    lines = [f"repaired {plan.target}: {changed}; {files} verified by sha256"]
    revealed = done.made.revealed
    lines += _remaining_lines([item for item in done.made.remaining if item not in revealed], style)
    lines += _remaining_lines(revealed, style, "could not be seen before:")
    lines += kept_lines(prepared.store.target, done.kept, plan.users, style) if done.kept else []
    return "\n".join(lines) + "\n"


def _remaining_lines(findings: Sequence[Finding], style: Style, why: str = "repair does not fix") -> list[str]:
    """Return what is left, each with its own fix."""
    lines: list[str] = []
    for finding in findings:
        remedy = finding.remediation
        lines += [
            "",
            f"{why} {finding.code}: {finding.title} ({finding.subject})",
            f"  fix: {remedy.text}",
        ]
        lines += [f"       {style.paint('command', command)}" for command in remedy.by_hand or remedy.commands]
    return lines
