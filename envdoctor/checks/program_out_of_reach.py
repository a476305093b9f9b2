"""A program that the stack starts by name is in the venv, and PATH does not lead there.

What it finds:
    A distribution that requires ninja (FlashInfer, DeepSpeed) is installed, ninja is in the venv's bin folder, and no
    ninja is on PATH.

    It is a warning where PATH is known to be the job's: in the gate, under `envdoctor run`, and in a shell in which the
    venv is active. A check from another shell says it as a note, since the job may be launched with another PATH.

Why it matters:
    What compiles at run time starts `ninja` by its name. The venv's interpreter does not need PATH, so everything works
    until the first compilation: `FileNotFoundError: [Errno 2] No such file or directory: 'ninja'`. `pip install ninja`
    changes nothing: it is installed.

Example:
    `.venv/bin/python serve.py` without an activated venv.

Fix:
    Put the venv's bin folder on PATH: activate it, or start through `envdoctor run`, which does.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.named_paths import NamedPaths
from envdoctor.probes.machine.toolchain import Toolchain
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.standards.need import parse_need

CODE = "ED608"
NAME = "program-not-on-path"
AREA = "Environment"
_NINJA = "ninja"
_OVERRIDE = {"flashinfer-python": "FLASHINFER_NINJA_PATH"}
"""Distribution -> the variable by which it takes ninja from elsewhere."""


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding when ninja is out of reach of what starts it."""
    tools = case.facts[Toolchain]
    if tools.ninja or not tools.own_ninja or not (users := list(_users(case))):
        return
    names, known = ", ".join(users), case.launch_is_known
    other = (
        () if known else ("the venv is not active in this shell: a job that is launched with another PATH may find it",)
    )
    yield Finding(
        code=CODE,
        name=NAME,
        severity="warning" if known else "note",
        confidence="high",
        title=f"{names} starts ninja by name, and PATH does not lead to {tools.own_ninja}",
        subject=_NINJA,
        evidence=("no ninja on PATH: the first compilation at run time ends in FileNotFoundError: 'ninja'", *other),
        remediation=Remediation(
            text="Put the venv's bin folder on PATH where the job is launched; `envdoctor run` does that by itself",
            commands=(f'export PATH={case.prefix}/bin:"$PATH"',),
            safe=True,
        ),
        symptom_of=("launcher",),
    )


def _users(case: CheckContext) -> Iterator[str]:
    """Yield the distributions that start ninja by name, as their metadata says: they always require it."""
    wrong = {item.variable for item in case.facts[NamedPaths].wrong}
    environment = case.facts[Environment]
    for item in case.facts[Distributions].items:
        # Parsing the requirements of a whole stack takes longer than most rules; few of them name it.
        needs = (parse_need(line) for line in item.requires if _NINJA in line.lower())
        if not item.shadowed and any(need and need.name == _NINJA and "extra" not in need.marker for need in needs):
            override = _OVERRIDE.get(item.name)
            if override is None or override in wrong or not environment.is_set(override):
                yield f"{item.name} {item.version}"
