"""What a rehearsed restore did, for people."""

from envdoctor.model.plan import Plan
from envdoctor.model.wording import counted, size
from envdoctor.report.plan_text import remembered_lines
from envdoctor.stack.rehearse import Rehearsed


def rehearsed_text(plan: Plan, done: Rehearsed) -> str:
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
