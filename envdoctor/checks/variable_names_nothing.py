"""A variable that names or switches on what is not there.

What it finds:
    CUDA_HOME, CUDACXX, CC, CXX, TRITON_PTXAS_PATH, FLASHINFER_NINJA_PATH, SSL_CERT_FILE, VIRTUAL_ENV and the like with
    a path that does not exist or is of another kind; HF_HOME and TORCH_HOME where nothing can be written; a switch
    (HF_HUB_ENABLE_HF_TRANSFER=1) for a package that is not installed. Only where what reads the variable is installed.

Why it matters:
    Nothing complains when the variable is set. The first compilation, download or TLS connection does, minutes later,
    with a message about the path and not about the variable.

Example:
    `export CUDA_HOME=$CUDA_HOME:/usr/local/cuda-12.8` makes `:/usr/local/cuda-12.8`: it is not a list, and no such
    folder exists.

Fix:
    Set the variable to what was meant, or unset it; install the package that the switch asks for.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.catalog.variables import CUDA_TORCH, VARIABLES, KnownVariable, known
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.named_paths import NamedPaths, WrongPath
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.standards.need import meets, parse_need

CODE = "ED607"
NAME = "variable-without-target"
AREA = "Environment"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each variable."""
    environment = case.facts[Environment]
    for item in case.facts[NamedPaths].wrong:
        row = known(item.variable)
        offline = item.variable.startswith("HF_") and (environment.value("HF_HUB_OFFLINE") or "0") != "0"
        if row is not None and _read(case, row) and not offline:
            yield _path(item, row)
    for row in VARIABLES:
        value = environment.value(row.name) if row.switches_on else None
        if value and value.lower() in row.switched_by and _read(case, row) and not _installed(case, row.switches_on):
            yield _switch(case, row, value)


def _read(case: CheckContext, row: KnownVariable) -> bool:
    """Tell whether what reads the variable is installed, in a version that does."""
    if row.reader == CUDA_TORCH:
        build = case.facts.get(TorchBuild)
        return build is not None and build.present and bool(build.cuda)
    need = parse_need(row.reader) if row.reader else None
    item = case.facts[Distributions].active(need.name) if need else None
    return need is None or (item is not None and meets(item.version, need.specifier))


def _installed(case: CheckContext, name: str) -> bool:
    return case.facts[Distributions].active(name) is not None


def _path(item: WrongPath, row: KnownVariable) -> Finding:
    cost = row.cost or "what is to be kept there is not"
    command = f"export {item.variable}={shlex.quote(item.instead)}" if item.instead else f"unset {item.variable}"
    as_list = (f"{item.variable} is one folder, not a list of folders",) if item.instead and ":" in item.value else ()
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{item.variable} is {item.value!r}, and {item.named or 'that'} {item.problem}: {cost}",
        subject=item.variable,
        evidence=(f"{item.variable}: {row.why}", *as_list),
        remediation=Remediation(
            text="Set it to the intended value, or unset it, where the job is launched", commands=(command,), safe=True
        ),
        causes=(f"variable:{item.variable}",),
    )


def _switch(case: CheckContext, row: KnownVariable, value: str) -> Finding:
    need = parse_need(row.reader)
    item = case.facts[Distributions].active(need.name) if need else None
    reader = f"{item.name} {item.version}" if item else row.reader
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{row.name}={value} switches on {row.switches_on}, which is not installed: {reader} raises",
        subject=row.name,
        evidence=(f"{row.name}: {row.why}",),
        remediation=Remediation(
            text=f"Unset it, or install {row.switches_on}",
            commands=(f"unset {row.name}",),
            safe=True,
        ),
        causes=(f"variable:{row.name}",),
    )
