"""A distribution that `--require` asked for is not installed, or in another version.

What it finds:
    Each `--require NAME` or `--require "NAME>=VERSION"` of the command line that the environment does not meet. torch
    counts as installed when its package folder is there too, and its version is the one in torch/version.py.

Why it matters:
    A CI job that checks the wrong folder finds nothing wrong in it, for ever: an environment without torch has nothing
    that could be broken.

Example:
    `envdoctor check --require torch .venv`, where `.venv` is the linter's.

Fix:
    Name the right environment, or install what is missing.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.kept_torch import keep_torch
from envdoctor.analysis.remedies import install_line, restore_or, unless_outside
from envdoctor.model.finding import Finding
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.standards.need import Need, meets, parse_need

CODE = "ED413"
NAME = "required-distribution"
AREA = "Distributions"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each requirement that is not met."""
    if not case.required:
        raise DoesNotApplyError("nothing was asked for by --require")
    for line in case.required:
        need = parse_need(line)
        if need is not None and (title := _unmet(case, need)):
            yield _finding(case, line, need, title)


def _unmet(case: CheckContext, need: Need) -> str:
    version = _version(case, need.name)
    if not version:
        return f"{need.name} is required and not installed"
    if not meets(version, need.specifier):
        return f"{need.name} {version} is installed; {need.specifier} is required"
    return ""


def _version(case: CheckContext, name: str) -> str:
    item = case.facts[Distributions].active(name)
    if name != "torch":
        return item.version if item else ""
    build = case.facts[TorchBuild]
    # Metadata without a package, or a package without metadata: the package is what `import torch` takes.
    return (build.version or (item.version if item else "")) if build.present else ""


def _finding(case: CheckContext, line: str, need: Need, title: str) -> Finding:
    backend = "--torch-backend auto " if need.name == "torch" else ""
    flags, torch = keep_torch(case, [need.name])
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=title,
        subject=need.name,
        evidence=(f"asked for by --require {shlex.quote(line)}", f"examined: {case.facts.target}"),
        remediation=unless_outside(
            case,
            [need.name],
            restore_or(
                case,
                "name the intended environment, or install it",
                [install_line(case, [need.name], f"{backend}{flags}{shlex.quote(line)}{torch}")],
            ),
            "name the intended environment",
        ),
        causes=(f"dist:{need.name}",),
    )
