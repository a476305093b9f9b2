"""Packages that only work in one combination of versions, in another one.

What it finds:
    torchvision or torchaudio built for another torch than the one that would be imported, by version and by CUDA major;
    FlashInfer's companion packages of another version than flashinfer-python.

Why it matters:
    torchvision's operators are registered against one torch: `operator torchvision::nms does not exist`. FlashInfer
    refuses to import. Metadata says it only when it is not too old, and never for the CUDA flavour.

Example:
    torch 2.6.0 shadows the venv's 2.8.0 on sys.path; torchvision 0.23.0 was built for 2.8.

Fix:
    Take the torch that is in front away, or align the trio: torch 2.11, torchvision 0.26, torchaudio 2.11.
"""

import shlex
from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import install_command, install_line, restore_or, unless_outside
from envdoctor.catalog.companion_versions import (
    FLASHINFER,
    series_for,
    torch_for_torchaudio,
    torch_for_torchvision,
)
from envdoctor.model.finding import Finding
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.venv.companions import CompanionBuild, Companions
from envdoctor.probes.venv.distributions import Distributions

CODE = "ED408"
NAME = "companion-mismatch"
AREA = "torch build"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each companion that does not fit."""
    build = case.facts[TorchBuild]
    if build.present and build.version:
        for companion in case.facts[Companions].builds:
            if found := _with_torch(case, build, companion):
                yield found
    if case.facts[Environment].value("FLASHINFER_DISABLE_VERSION_CHECK") is None:
        yield from _flashinfer(case)


def _with_torch(case: CheckContext, build: TorchBuild, companion: CompanionBuild) -> Finding | None:
    wanted = (torch_for_torchvision if companion.name == "torchvision" else torch_for_torchaudio)(companion.version)
    actual = ".".join(build.version.split(".")[:2])
    if wanted and wanted != actual:
        title = f"{companion.name} {companion.version} was built for torch {wanted}; torch {build.version} is imported"
        return _finding(case, build, companion, title, _of_release(case, build, companion))
    flavour, own = _flavour(companion.version), _flavour(build.version)
    if flavour and own and flavour != own:
        title = f"{companion.name} {companion.version} was built for another CUDA major than torch {build.version}"
        return _finding(case, build, companion, title, _of_flavour(case, build, companion))
    return None


def _flavour(version: str) -> str:
    """Return "cu13", "cpu" or empty: within a CUDA major the flavours work together."""
    local = version.partition("+")[2]
    return local[:4] if local.startswith("cu") else "cpu" if local == "cpu" else ""


def _finding(
    case: CheckContext, build: TorchBuild, companion: CompanionBuild, title: str, commands: Sequence[str]
) -> Finding:
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=title,
        subject=companion.name,
        evidence=(f"{companion.path} says {companion.version}", f"{build.folder}/version.py says {build.version}"),
        remediation=unless_outside(
            case,
            [companion.name],
            restore_or(
                case,
                f"install the {companion.name} of this torch's release and flavour, from where torch came",
                commands,
            ),
        ),
        # What its files cannot load goes with it: the right build asks for other libraries.
        causes=(f"companion:{companion.name}:torch", f"build-of:{companion.name}"),
        symptom_of=("shadow:torch", "version:torch", "torch-build", f"version:{companion.name}"),
    )


def _of_release(case: CheckContext, build: TorchBuild, companion: CompanionBuild) -> list[str]:
    fitting = series_for(companion.name, build.version)
    if not fitting:
        return []
    spec = shlex.quote(f"{companion.name}=={fitting}.*")
    return [install_line(case, [companion.name], f"--no-deps{_backend(build)} {spec}")]


def _backend(build: TorchBuild) -> str:
    """Return uv's option for torch's own flavour; the default index has one flavour of each release.

    An index whose torch has no local part in its version has one flavour, too.
    """
    local = build.version.partition("+")[2]
    return f" --torch-backend {local}" if local and "+" in build.distribution_version else ""


def _of_flavour(case: CheckContext, build: TorchBuild, companion: CompanionBuild) -> list[str]:
    local = build.version.partition("+")[2]
    fitting = series_for(companion.name, build.version)
    if not fitting:
        # With the local part: a public version is satisfied by the flavour that is already there.
        spec = f"{companion.name}=={companion.version.partition('+')[0]}+{local}"
        return [install_line(case, [companion.name], f"--no-deps --torch-backend {local} {spec}")]
    spec = shlex.quote(f"{companion.name}=={fitting}.*")
    words = f"--no-deps{_backend(build)} --reinstall-package {companion.name} {spec}"
    return [install_line(case, [companion.name], words)]


def _flashinfer(case: CheckContext) -> Iterator[Finding]:
    installed = [item for name in FLASHINFER if (item := case.facts[Distributions].active(name))]
    if not installed or installed[0].name != FLASHINFER[0]:
        return
    main, *others = installed
    for other in others:
        if other.version.partition("+")[0] != main.version.partition("+")[0]:
            yield Finding(
                code=CODE,
                name=NAME,
                severity="error",
                confidence="high",
                title=f"{other.name} {other.version} does not match flashinfer-python {main.version}: "
                "`import flashinfer` will raise",
                subject=other.name,
                evidence=(
                    "flashinfer/jit/env.py compares them at import; FLASHINFER_DISABLE_VERSION_CHECK is not set",
                ),
                remediation=unless_outside(
                    case,
                    [other.name],
                    restore_or(
                        case,
                        f"install {other.name} {main.version}, or remove it: FlashInfer compiles or fetches what it "
                        "lacks",
                        [install_command(case, [(other.name, main.version)])] if "+" not in other.version else [],
                    ),
                ),
                symptom_of=(f"version:{other.name}", "version:flashinfer-python"),
            )
