"""`envdoctor restore`: the plan, and what was done."""

from typing import Any

from envdoctor.app.restore import RestoreResult
from envdoctor.model.codec import encode
from envdoctor.model.plan import Plan
from envdoctor.model.wording import counted, size
from envdoctor.report.plan_text import outcome_text, plan_text, remembered_lines, source_lines
from envdoctor.report.style import Style
from envdoctor.stack.rehearse import Rehearsed
from envdoctor.stack.restore_copy import Restored
from envdoctor.wheels.urls import shown


def text(data: RestoreResult, style: Style) -> str:
    """Return the plan, or what became of it."""
    if data.restored is not None:
        return outcome_text(data.restored, style) + _put_back(data)
    if data.rehearsed is not None:
        return _rehearsed(data.plan, data.rehearsed)
    if data.status == "planned":
        return (f"{data.refused}\n\n" if data.refused else "") + plan_text(data.plan)
    return _in_place(data) if data.verified else "\n".join(source_lines(data.plan.sources)) + "\n"


def document(data: RestoreResult) -> dict[str, Any]:
    """Return the plan as plain values, and the result once there is one."""
    plan = encode(data.plan)
    for package in plan["packages"]:
        package["source"]["location"] = shown(package["source"]["location"])
    done = {"result": _done(data.restored)} if data.restored else {}
    rehearsed = {"result": encode(data.rehearsed)} if data.rehearsed else {}
    digest = {"digest": data.digest} if data.digest else {}
    refused = {"refused": data.refused} if data.refused else {}
    possible = {"possible": data.plan.possible}
    return {"status": data.status, **possible, **digest, **refused, **done, **rehearsed, "plan": plan}


def _in_place(data: RestoreResult) -> str:
    verified = data.verified
    assert verified is not None  # noqa: S101 - the caller looked
    return (
        f"{data.plan.target} already holds {data.plan.profile}: {counted(verified.distributions, 'package')}, "
        f"{counted(verified.files, 'file')} ({size(verified.bytes)}) verified by sha256"
        + ("" if data.plan.sources else "; nothing to do")
        + "".join(f"\n{line}" for line in remembered_lines(verified))
        + f"\n{_put_back(data)}"
    )


def _put_back(data: RestoreResult) -> str:
    many = data.sources_put_back
    return f"{counted(many, 'source file')} put back from git\n" if many else ""


def _done(done: Restored) -> dict[str, Any]:
    return {
        "target": str(done.target),
        "kept": str(done.kept) if done.kept else None,
        "users": encode(done.users),
        "distributions": done.verified.distributions,
        "files": done.verified.files,
        "bytes": done.verified.bytes,
        "remembered": done.verified.remembered,
        "remembered_bytes": done.verified.remembered_bytes,
        "recovered": list(done.recovered),
        "seconds": dict(done.seconds),
    }


def _rehearsed(plan: Plan, done: Rehearsed) -> str:
    """Return what was built and verified, and what a restore still lacks."""
    verified = done.verified
    total = len(plan.packages) + len(plan.unavailable)
    lines = [
        f"rehearsed {plan.target}: {verified.distributions} of {counted(total, 'package')}, "
        f"{counted(verified.files, 'file')} ({size(verified.bytes)}) verified by sha256"
        + (", examined" if done.examined else "")
        + "; the copy is removed again, nothing else was touched"
    ]
    lines += remembered_lines(verified)
    lines += [f"missing: {one.name} {one.version}\n  hint: {one.hint}" for one in plan.unavailable]
    return "\n".join(lines) + "\n"
