"""`envdoctor rollback`: which venv comes back, and where the present one goes."""

from typing import Any

from envdoctor.app.generations import Rollback
from envdoctor.model.codec import encode
from envdoctor.report.generation_text import line, plain
from envdoctor.report.plan_text import kept_lines
from envdoctor.report.style import Style


def text(data: Rollback, style: Style) -> str:
    """Return the plan, or what was done and the way back."""
    if data.done is not None:
        lines = [f"backup {data.done.number} is back at {data.done.target}"]
        lines += kept_lines(data.done.target, data.done.kept, data.users, style) if data.done.kept else []
        return "\n".join(lines) + "\n"
    lines = [data.refused, ""] if data.refused else []
    lines.append(f"backup {data.back.number} comes back to {data.target}: {line(data.back)}")
    if data.current:
        lines.append(f"what is there now is kept at {data.keep}: {line(data.current)}")
    lines += [f"it is in use by {user}" for user in data.users]
    return "\n".join(lines) + "\n"


def document(data: Rollback) -> dict[str, Any]:
    """Return the same as plain values."""
    shown: dict[str, Any] = {"status": data.status, "generation": plain(data.back)}
    shown |= {"digest": data.digest} if data.digest else {}
    shown |= {"refused": data.refused} if data.refused else {}
    done = data.done
    if done is None:
        return shown | {"users": encode(data.users)}
    kept = str(done.kept) if done.kept else None
    return shown | {"result": {"target": str(done.target), "kept": kept, "seconds": done.seconds}}
