"""Environment variables that differ from the profile's.

What it finds:
    Variables of the profile's `[environment]` that are not set, set to another value, or set although forbidden.

Why it matters:
    LD_LIBRARY_PATH alone can replace cuDNN's sub-libraries; a lost TORCHINDUCTOR_CACHE_DIR makes every start cold.

Example:
    The profile forbids LD_LIBRARY_PATH, and it is /usr/local/cuda-12.1/lib64.

Fix:
    Launch through `envdoctor run`, which sets the profile's environment.
"""

import shlex
from collections.abc import Iterator

from envdoctor.checks.case import Case
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.environment import Environment

CODE = "ED601"
NAME = "environment-drift"
AREA = "Environment"


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding for all variables."""
    profile = case.wanted()
    environment = case.facts[Environment]
    lines = []
    for name, value in sorted(profile.environment.set.items()):
        actual = environment.value(name)
        if actual != value:
            lines.append(f"{name} is {'not set' if actual is None else repr(actual)}; the profile sets {value!r}")
    lines += [
        f"{name} is {actual!r}; the profile forbids it"
        for name in profile.environment.forbidden
        if (actual := environment.value(name)) is not None
    ]
    if lines:
        yield Finding(
            code=CODE,
            name=NAME,
            severity="warning",
            confidence="high",
            title=f"{counted(len(lines), 'environment variable', 'differs', 'differ')} from the profile",
            subject="environment",
            evidence=tuple(lines),
            remediation=Remediation(
                text="Launch through `envdoctor run`, which sets the profile's environment",
                commands=(
                    f"envdoctor run --profile {shlex.quote(profile.name)} --venv {case.prefix} -- python -m trainer",
                ),
                safe=True,
            ),
        )
