"""`envdoctor prune`: which generations go, and what that frees."""

from typing import Any

from envdoctor.app.generations import Prune
from envdoctor.model.codec import encode
from envdoctor.model.wording import counted, size
from envdoctor.report.generation_text import line, plain
from envdoctor.report.style import Style


def text(data: Prune, style: Style) -> str:
    """Return the plan, or what was removed."""
    del style
    if data.status == "planned":
        return _planned(data)
    if not data.plan.removed:
        return "nothing to remove\n"
    return f"{counted(len(data.plan.removed), 'backup')} removed, {size(data.plan.space.frees)} freed\n"


def document(data: Prune) -> dict[str, Any]:
    """Return the same as plain values."""
    plan = data.plan
    spared = [
        {
            **plain(item.generation),
            "holds": item.holds,
            "compile_cache": item.compile_cache or None,
            "unrecorded": list(item.unrecorded),
            "users": encode(item.users),
        }
        for item in plan.spared
    ]
    return {
        "status": data.status,
        "removed": [plain(item) for item in plan.removed],
        "kept": [plain(item) for item in plan.kept],
        "spared": spared,
        "unseen_processes": plan.unseen,
        "space": {"bytes": plan.space.bytes, "frees": plan.space.frees, "shared": plan.space.shared},
    }


def _planned(data: Prune) -> str:
    plan = data.plan
    lines = [f"  - {item.number:<4} {line(item)}   kept {item.kept_at}" for item in plan.removed]
    lines += [f"    {item.number:<4} {line(item)}   stays" for item in reversed(plan.kept)]
    lines += [
        f"    {item.generation.number:<4} {line(item.generation)}   stays: it holds {item.holds}"
        for item in plan.spared
    ]
    if any(item.unrecorded for item in plan.spared):
        lines.append("move those files to where they belong, or add --with-unrecorded to remove them too")
    if any(item.users for item in plan.spared):
        lines.append("wait until those processes have ended, or add --while-in-use to remove what they use too")
    if plan.removed and plan.unseen:
        lines.append(
            f"{plan.unseen} {'process' if plan.unseen == 1 else 'processes'} could not be looked at: "
            "one that uses a backup would not be named"
        )
    if not plan.removed:
        lines.append("nothing to remove" + ("" if plan.spared else f": {_why_nothing(data)}"))
        return "\n".join(lines) + "\n"
    lines.append(
        f"removing {counted(len(plan.removed), 'backup')} of {data.target} frees {size(plan.space.frees)}; "
        f"{size(plan.space.shared)} more is shared with the venv, uv's cache or other venvs and stays"
    )
    return "\n".join(lines) + "\n"


def _why_nothing(data: Prune) -> str:
    if data.broken:
        return "no backup is known to have had errors"
    if not data.plan.kept:
        return "there are no backups"
    return f"only {counted(len(data.plan.kept), 'backup', 'is', 'are')} there"
