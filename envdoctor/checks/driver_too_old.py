"""A driver that cannot run this torch, or that the profile does not cover.

What it finds:
    The CUDA major torch was built for is newer than the newest the driver supports, or the driver is outside the
    profile's range. Within one major an older driver is fine (CUDA's minor-version compatibility), and so is one that a
    newer libcuda of the forward-compatibility package shadows.

Why it matters:
    `torch.cuda.is_available()` is False with a warning; a job silently runs on the CPU.

Example:
    torch 2.11.0+cu130 needs a driver of 580 or newer, 570.86.10 is loaded.

Fix:
    Take a torch build of the driver's CUDA major, or update the driver on the host. Nothing in the venv is broken.
"""

from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.kept_torch import another_build
from envdoctor.analysis.remedies import dry_run, install_line, restore_or, uninstall_command
from envdoctor.analysis.taken_away import links_out, not_to_uninstall
from envdoctor.catalog.cudalibs import owner_major
from envdoctor.catalog.minimum_drivers import MINIMUM_DRIVER
from envdoctor.model.finding import Finding
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.gpu import Gpu
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.standards.need import meets

CODE = "ED701"
NAME = "driver-out-of-range"
AREA = "Driver / GPU"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding when the driver is too old for the build, another when it is outside the profile's range."""
    gpu = case.facts[Gpu]
    driver = gpu.driver_version
    if not driver:
        raise DoesNotApplyError(gpu.reason or "no driver version is known")
    build = case.facts[TorchBuild]
    if build.unchecked_driver:
        raise DoesNotApplyError(f"{build.unchecked_driver} drivers are not checked")
    least = MINIMUM_DRIVER.get(build.cuda_major, "0")
    forward = gpu.libcuda_version if "/compat/" in gpu.libcuda else ""
    if not meets(driver, f">={least}") and not (forward and meets(forward, f">={least}")):
        yield _finding(
            case,
            f"driver {gpu.driver_version} is too old for torch {build.version}: CUDA {build.cuda_major} needs "
            f"{MINIMUM_DRIVER[build.cuda_major]} or newer",
            gpu,
            *_other_build(case, build),
        )
        return
    wanted = case.profile.driver if case.profile else None
    if wanted is None:
        return
    if wanted.minimum and not meets(driver, f">={wanted.minimum}"):
        yield _finding(case, f"driver {gpu.driver_version} is older than the profile's {wanted.minimum}", gpu)
    if wanted.below and not meets(driver, f"<{wanted.below}"):
        yield _finding(case, f"driver {gpu.driver_version} is not below the profile's {wanted.below}", gpu)


def _other_build(case: CheckContext, build: TorchBuild) -> tuple[list[str], str]:
    """Return the command that swaps the build for the driver's CUDA major; or none, and what to do in its place.

    The libraries of the present major go before the new build comes: uninstalled later they would take shared files of
    it along. They go only once uv has found that build.
    """
    items = case.facts[Distributions].items
    libraries = [item.name for item in items if owner_major(item.name, item.version) == build.cuda_major]
    # The install takes the old build away too.
    names, words = another_build(case, build.version.partition("+")[0], "auto")
    if keep := not_to_uninstall(case, [*names, *libraries]):
        return [], keep
    if not libraries:
        return [install_line(case, names, words)], ""
    install = install_line(case, names, words, links_out(case, libraries))
    return [f"{dry_run(case, words)}{uninstall_command(case, libraries)} && {install}"], ""


def _finding(case: CheckContext, title: str, gpu: Gpu, commands: Sequence[str] = (), keep: str = "") -> Finding:
    supports = f"the driver supports CUDA up to {gpu.cuda_version}" if gpu.cuda_version else ""
    loaded = f"kernel module {gpu.module_version or 'unknown'}, user-space library {gpu.library_version or 'unknown'}"
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=title,
        subject="driver",
        evidence=tuple(filter(None, (loaded, supports))),
        remediation=restore_or(
            case,
            "take a torch build for the driver's CUDA major, and pin it with its local part: a bare `torch` is the "
            f"default index's build; or update the driver on the host{f'. For another build, {keep}' if keep else ''}",
            commands,
        ),
        symptom_of=("torch-build",),
    )
