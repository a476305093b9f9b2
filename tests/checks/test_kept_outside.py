"""No remedy uninstalls a distribution whose RECORD lists paths outside the environment."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from envdoctor.analysis.context import CheckContext
from envdoctor.checks import (
    companion_mismatch,
    conda_beside_pip,
    contested_module,
    cpu_build,
    driver_too_old,
    editable_install,
    foreign_torch_extension,
    numpy_abi,
    overwritten_paths,
    required_distribution,
    runtime_requirement,
    startup_hook,
    version_drift,
)
from envdoctor.model.finding import Finding
from envdoctor.probes.loading.numpy_abi import NumpyUser
from envdoctor.probes.machine.gpu import Device
from envdoctor.probes.venv.companions import CompanionBuild, Companions
from envdoctor.probes.venv.conda import Conda, CondaPackage
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.startup_hooks import End, Hook, StartupHooks
from tests.factories import make_facts as facts

NCCL = "nvidia/nccl/lib/libnccl.so.2"
_HOOK = Hook(path=f"{facts.SITE}/_x.pth", lines=("import _x",), owner="pynvml", origin="site-packages")
_END = End(path=_HOOK.path, line=1, text="import os; os._exit(1)")
_H200 = Device(
    index=0, name="NVIDIA H200", uuid="GPU-0", memory_bytes=143771 << 20, compute_capability="9.0", mig=False
)
_SHIM = facts.distributions(facts.distribution("pynvml", "13.0.1"))


def _files(name: str, **changes: object) -> InstalledFiles:
    return replace(facts.FILES, elsewhere=((name, "/etc/passwd"),), **changes)


def _keep(name: str) -> str:
    return (
        f"rebuild the environment without uninstalling {name} from it: RECORD of {name} lists paths outside, which an "
        "older installer may delete"
    )


def _overwritten() -> CheckContext:
    claims = (("nvidia-nccl-cu12", "2.27.5"), ("nvidia-nccl-cu13", "2.28.9"))
    return facts.case(
        _files("nvidia-nccl-cu13", contested=(facts.contested(NCCL, *claims, on_disk=("nvidia-nccl-cu13",)),))
    )


def _module() -> CheckContext:
    path = facts.contested("attrs/__init__.py", ("one", "1"), ("two", "2"), on_disk=("two",))
    return facts.case(_files("two", contested=(path,)), pins=("one==1",))


def _shim() -> CheckContext:
    return facts.case(StartupHooks(hooks=(_HOOK,)), _SHIM, _files("pynvml"))


def _hook() -> CheckContext:
    return facts.case(StartupHooks(hooks=(replace(_HOOK, end=_END, published=True),)), _SHIM, _files("pynvml"))


def _editable(mount_point: str = "") -> CheckContext:
    gone = facts.distribution(
        "one", "1", editable=True, direct_url="file:///src/one", source_gone=True, mount_point=mount_point
    )
    return facts.case(facts.distributions(gone), _files("one"))


def _conda() -> CheckContext:
    conda = Conda(packages=(CondaPackage(name="torch", version="2.5.1", build="py312_0"),), base="", active="")
    installed = facts.distributions(facts.distribution("torch", "2.8.0", installer="pip"))
    return facts.case(conda, installed, _files("torch"))


def _driver() -> CheckContext:
    gpu = replace(facts.GPU, state="present", reason="", module_version="570.86.10", cuda_version="12.8")
    build = replace(facts.TORCH, version="2.11.0+cu130", cuda="13.0")
    cudnn = facts.distributions(facts.distribution("nvidia-cudnn-cu13", "9.19"))
    return facts.case(gpu, build, cudnn, _files("nvidia-cudnn-cu13"))


def _required() -> CheckContext:
    bar = facts.distributions(facts.distribution("bar", "1.0"))
    return replace(facts.case(bar, _files("bar")), required=("bar>=2",))


def _cpu_build() -> CheckContext:
    gpu = replace(facts.GPU, state="present", reason="", devices=(_H200,))
    return facts.case(gpu, replace(facts.TORCH, version="2.10.0+cpu", cuda=""), _files("torch"))


def _companion() -> CheckContext:
    build = CompanionBuild(name="torchvision", version="0.24.0", path="torchvision/version.py")
    return facts.case(Companions(windows=(), windows_from="", builds=(build,)), _files("torchvision"))


def _runtime() -> CheckContext:
    installed = facts.distributions(
        facts.distribution("transformers", "5.9.0"), facts.distribution("accelerate", "1.0")
    )
    return facts.case(installed, Companions(windows=(), windows_from="", builds=()), _files("accelerate"))


def _numpy() -> CheckContext:
    user = NumpyUser(path="a.so", owner="frames", owner_version="1.5.3")
    installed = facts.distributions(facts.distribution("numpy", "2.4.4"), facts.distribution("frames", "1.5.3"))
    return facts.case(facts.symbols(numpy_1=(user,)), installed, _files("numpy"))


def _extension() -> CheckContext:
    build = replace(facts.TORCH, version="2.10.0+cpu", cuda="")
    fault = facts.load_fault("libc10_cuda.so", kind="not found", stated_build="torch 2.10.0+cu128")
    return facts.case(facts.symbols(fault), build, _files("torch"))


def _drift() -> CheckContext:
    return facts.case(facts.distributions(facts.distribution("bar", "1.0")), _files("bar"), pins=("bar==2.0",))


@pytest.mark.parametrize(
    ("run", "case", "text", "commands"),
    [
        (required_distribution.run, _required, f"name the intended environment, or {_keep('bar')}", ()),
        (cpu_build.run, _cpu_build, f"leave it, if no GPU is needed, or {_keep('torch')}", ()),
        (companion_mismatch.run, _companion, _keep("torchvision"), ()),
        (version_drift.run, _drift, _keep("bar"), ()),
        (runtime_requirement.run, _runtime, _keep("accelerate"), ()),
        (numpy_abi.run, _numpy, _keep("numpy"), ()),
        (foreign_torch_extension.run, _extension, _keep("torch"), ()),
        (overwritten_paths.run, _overwritten, _keep("nvidia-nccl-cu13"), ()),
        (contested_module.run, _module, _keep("two"), ()),
        (contested_module.run, _shim, _keep("pynvml"), ()),
        (
            startup_hook.run,
            _hook,
            f"Set it aside so that Python starts, and {_keep('pynvml')}",
            (f"mv {_HOOK.path} {_HOOK.path}.aside",),
        ),
        (editable_install.run, _editable, f"put the folder back, or {_keep('one')}", ()),
        (
            editable_install.run,
            lambda: _editable("/share"),
            "If it is on a share, mount it (below /share), and nothing else is to be done. Otherwise " + _keep("one"),
            (),
        ),
        (conda_beside_pip.run, _conda, _keep("torch"), ()),
        (
            driver_too_old.run,
            _driver,
            "take a torch build for the driver's CUDA major, and pin it with its local part: a bare `torch` is the "
            "default index's build; or update the driver on the host. For another build, " + _keep("nvidia-cudnn-cu13"),
            (),
        ),
    ],
    ids=[
        "ED413",
        "ED411",
        "ED408",
        "ED401",
        "ED407",
        "ED312",
        "ED309",
        "ED203",
        "ED409",
        "ED409-shim",
        "ED604",
        "ED412",
        "ED412-share",
        "ED605",
        "ED701",
    ],
)
def test_no_command_uninstalls_what_lists_paths_outside(
    run: Callable[[CheckContext], Iterator[Finding]],
    case: Callable[[], CheckContext],
    text: str,
    commands: tuple[str, ...],
) -> None:
    (finding,) = run(case())
    remedy = finding.remediation
    assert (remedy.text, remedy.commands, remedy.by_hand) == (text, commands, ())


def test_the_second_of_two_steps_finds_a_shared_link_gone() -> None:
    link = "lib/python3.12/site-packages/nvidia"
    names = ("nvidia-nccl-cu12", "nvidia-nccl-cu13", "third")
    claims = (("nvidia-nccl-cu12", "2.27.5"), ("nvidia-nccl-cu13", "2.28.9"))
    files = replace(
        facts.FILES,
        contested=(facts.contested(NCCL, *claims, on_disk=("nvidia-nccl-cu13",)),),
        links_out=tuple((name, link) for name in names),
    )
    installed = facts.distributions(*(facts.distribution(name) for name in names))
    (finding,) = overwritten_paths.run(facts.case(files, installed))
    python = f"--python {facts.PREFIX}/bin/python"
    words = (
        f"{python} --no-deps --reinstall-package nvidia-nccl-cu12 --reinstall-package third nvidia-nccl-cu12==2.27.5 "
        "third==1.0"
    )
    assert finding.remediation.by_hand == (
        f"uv pip install --dry-run {words} && rm {facts.PREFIX}/{link} && uv pip uninstall {python} nvidia-nccl-cu13",
        f"uv pip install {words}",
    )
