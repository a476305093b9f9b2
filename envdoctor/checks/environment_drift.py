"""Environment variables that differ from the profile's.

What it finds:
    Variables of the profile's `[environment]` that are not set, set to another value, or set although forbidden.

Why it matters:
    LD_LIBRARY_PATH alone can replace cuDNN's sub-libraries; a lost TORCHINDUCTOR_CACHE_DIR makes every start cold.

Example:
    The profile forbids LD_LIBRARY_PATH, and it is /usr/local/cuda-12.1/lib64.

Fix:
    Unset what the profile forbids; launch through `envdoctor run`, which sets the rest of the profile's environment.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.machine.environment import Environment

CODE = "ED601"
NAME = "environment-drift"
AREA = "Environment"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all variables."""
    profile = case.wanted()
    environment = case.facts[Environment]
    lines = list(_differing(environment, profile.environment.set))
    others = bool(lines)
    forbidden = [name for name in profile.environment.forbidden if environment.is_set(name)]
    lines += [f"{name} is {_shown(environment, name)}; the profile forbids it" for name in forbidden]
    if lines:
        yield Finding(
            code=CODE,
            name=NAME,
            severity="warning",
            confidence="high",
            title=f"{counted(len(lines), 'environment variable', 'differs', 'differ')} from the profile",
            subject="environment",
            evidence=tuple(lines),
            remediation=_remedy(case, forbidden, others=others),
        )


def _differing(environment: Environment, wanted: Mapping[str, str]) -> Iterator[str]:
    for name, value in sorted(wanted.items()):
        # A value that was not kept is compared with nothing: what is known of it is that it is set.
        if name not in environment.withheld and environment.value(name) != value:
            yield f"{name} is {_shown(environment, name)}; the profile sets {value!r}"


def _shown(environment: Environment, name: str) -> str:
    if name in environment.withheld:
        return "set, to what may be a password or an address"
    value = environment.value(name)
    return "not set" if value is None else repr(value)


def _remedy(case: CheckContext, forbidden: Sequence[str], *, others: bool) -> Remediation:
    """Return the lines for what is forbidden, which `envdoctor run` refuses, and for what it sets."""
    texts, commands = [], []
    if forbidden:
        texts.append("Unset what the profile forbids: `envdoctor run` refuses it")
        commands.append(f"unset {' '.join(map(shlex.quote, forbidden))}")
    if others:
        # What is launched is not known here: no command that can be typed.
        launch = f"envdoctor run --profile {case.profile_argument} --venv {case.prefix} -- CMD"
        texts.append(f"Launch CMD through `{launch}`, which sets the profile's environment")
    return Remediation(text=". ".join(texts), commands=tuple(commands), safe=True)
