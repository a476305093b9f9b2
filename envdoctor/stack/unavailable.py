"""Why a plan cannot be carried out: wheels that no source has, or sources that did not answer."""

from envdoctor.model.plan import Plan
from envdoctor.model.wording import counted

AGAIN = "run the same command again; if it stays so, look at the network and the proxy"


def why_not(plan: Plan) -> tuple[str, str]:
    """Return (message, hint) of the error. A source that did not answer is no reason to fetch a wheel by hand."""
    gone = [one for one in plan.unavailable if not one.transient]
    if not gone:
        first, total = plan.unavailable[0], len(plan.packages) + len(plan.unavailable)
        others = ", ..." if len(plan.unavailable) > 1 else ""
        of = f"{len(plan.unavailable)} of {counted(total, 'wheel')} ({first.name} {first.version}{others})"
        return f"no answer for {of}: {first.reason}", AGAIN
    first, more = gone[0], len(gone) - 1
    return (
        f"{first.name} {first.version} was not found: {first.reason}" + (f"; and {more} more" if more else ""),
        first.hint,
    )
