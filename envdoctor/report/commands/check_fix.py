"""`envdoctor check --fix`: the plan, what was done, and how to undo it."""

import importlib
from collections.abc import Iterator
from typing import Any

from envdoctor.app.fix import Fix, FixStep
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted
from envdoctor.report import as_json, as_text
from envdoctor.report.plan_text import MEANWHILE
from envdoctor.report.style import Style


def text(data: Fix, style: Style) -> str:
    """Return the plan; once it was carried out, what a check says now, and the way back."""
    if data.after is not None:
        now = as_text.render(data.after.header, data.after.verdict, style, fail_on=data.after.fail_on)
        back = style.paint("command", data.undo)
        undo = f"\neverything that was done is undone by: {back}\n" if data.undo else ""
        return f"{now}{undo}"
    return "\n".join(_plan(data, style)) + "\n"


def document(data: Fix) -> dict[str, Any]:
    """Return the plan as plain values, and the check after it."""
    after = data.after
    return {
        "status": data.status,
        "target": data.target,
        "steps": [_step(step) for step in data.steps],
        "users": encode(data.users),
        "undo": data.undo or None,
        "check": as_json.document(after.header, after.verdict, fail_on=after.fail_on) if after else None,
    }


def _step(step: FixStep) -> dict[str, Any]:
    causes = [{"code": item.code, "title": item.title, "subject": item.subject} for item in step.causes]
    plan = _renderer(step.plan.command).document(step.plan.data) if step.plan else None
    told = {"kind": step.kind, "commands": list(step.commands), "why": step.why or None}
    return {**told, "causes": causes, "plan": plan}


def _renderer(command: str) -> Any:
    return importlib.import_module(f"envdoctor.report.commands.{command}")


def _plan(data: Fix, style: Style) -> Iterator[str]:
    yield f"envdoctor check --fix  {data.target}"
    doable = [step for step in data.steps if step.kind != "yours"]
    for number, step in enumerate(doable, 1):
        yield ""
        where = {"commands": "on a copy that is swapped in"}.get(step.kind, step.kind)
        yield f"  {number}. {where}, for {_causes(step)}"
        yield from (f"       {style.paint('command', command)}" for command in step.commands)
        if step.plan is not None:
            shown = str(_renderer(step.plan.command).text(step.plan.data, style)).splitlines()
            yield from (f"     | {line}".rstrip() for line in shown)
    yours = [step for step in data.steps if step.kind == "yours"]
    if yours:
        yield ""
        yield "  not done here:"
    for step in yours:
        yield f"  - {_causes(step)}: {step.why}"
        yield from (f"       {style.paint('command', command)}" for command in step.commands)
    if data.users:
        yield ""
        yield from (f"  in use by {user}" for user in data.users)
        yield f"  {MEANWHILE}"
    yield ""
    yield (
        "nothing to fix"
        if not data.steps
        else (
            f"{counted(len(doable), 'step')}; the first that fails ends it, and `envdoctor rollback` undoes all of them"
            if doable
            else "nothing of it can be done here"
        )
    )


def _causes(step: FixStep) -> str:
    return ", ".join(f"{cause.code} ({cause.subject})" for cause in step.causes)
