"""ED411, ED502, ED503, ED606, ED702 to ED706: the driver, the GPUs, the compiler, the caches of this machine."""

from dataclasses import replace

import pytest

from envdoctor.analysis.context import DoesNotApplyError
from envdoctor.catalog.companion_versions import fits_torch
from envdoctor.checks import (
    cache_filesystem,
    cpu_build,
    driver_mismatch,
    driver_too_old,
    foreign_compiled_object,
    gpu_not_in_build,
    gpus_not_visible,
    missing_toolchain,
    nvml_failed,
    old_forward_compat,
    stub_libcuda,
)
from envdoctor.checks.registry import judge
from envdoctor.model.finding import Remediation
from envdoctor.model.profile import CompileWanted, GpuWanted
from envdoctor.probes.caches.compile_caches import CompileCaches
from envdoctor.probes.caches.compiled_objects import CompiledObject, CompiledObjects
from envdoctor.probes.loading.gpu_code import GpuCode
from envdoctor.probes.machine.gpu import Device, Gpu
from envdoctor.probes.machine.library_path import LibraryFolder
from envdoctor.probes.machine.platform import Platform
from envdoctor.probes.machine.toolchain import Toolchain
from tests.factories import make_facts as facts


def device(index: int = 0, capability: str = "9.0", **changes: object) -> Device:
    made = Device(
        index=index,
        name="NVIDIA H200",
        uuid=f"GPU-{index}",
        memory_bytes=143771 << 20,
        compute_capability=capability,
        mig=False,
    )
    return replace(made, **changes)


def gpus(*devices: Device, **changes: object) -> Gpu:
    made = replace(
        facts.GPU,
        state="present",
        reason="",
        module_version="580.159.04",
        library_version="580.159.04",
        cuda_version="13.0",
        devices=devices,
    )
    return replace(made, **changes)


FAILED = gpus(state="failed", reason="nvmlInit: Unknown Error", nvml_code=999, cuda_version="")
EIGHT = gpus(*(device(at) for at in range(8)))
CPU = replace(facts.TORCH, version="2.10.0+cpu", cuda="")


def test_finds_ed411_a_cpu_build_beside_gpus() -> None:
    (finding,) = cpu_build.run(facts.case(EIGHT, CPU))
    assert (finding.severity, finding.title) == ("note", "torch 2.10.0+cpu is a CPU build, on a machine with 8 GPUs")


@pytest.mark.parametrize(
    ("vision", "audio", "specs"),
    [
        ("0.25.0+cpu", "2.9.1", "torchvision==0.25.0 'torchaudio==2.10.*'"),
        # Behind the table: for the torch that is the first behind it, and later ones.
        ("0.30.0", "2.11.0", "'torchvision==0.25.*' 'torchaudio==2.10.*'"),
    ],
)
def test_another_build_of_torch_brings_its_companions_along(vision: str, audio: str, specs: str) -> None:
    companions = (("torchvision", vision), ("torchaudio", audio))
    installed = facts.distributions(*(facts.distribution(*pair) for pair in (("torch", "2.10.0+cpu"), *companions)))
    (finding,) = cpu_build.run(facts.case(EIGHT, CPU, installed))
    assert finding.remediation.commands == (
        f"uv pip install --python {facts.PREFIX}/bin/python --torch-backend auto --reinstall-package torch "
        f"--reinstall-package torchvision --reinstall-package torchaudio torch==2.10.0 {specs}",
    )


@pytest.mark.parametrize(
    ("name", "version", "fits"),
    [
        ("torchaudio", "2.11.0", ["2.11", "2.12", "2.14"]),
        ("torchvision", "0.29.1", ["2.14"]),
        ("torchvision", "0.27.0", ["2.12"]),
    ],
)
def test_companions_of_later_torches_fit_no_earlier_one(name: str, version: str, fits: list[str]) -> None:
    assert [one for one in ("2.7", "2.10", "2.11", "2.12", "2.14") if fits_torch(name, version, one)] == fits


@pytest.mark.parametrize(
    "sections",
    [(EIGHT,), (CPU,), (EIGHT, replace(CPU, hip="6.3")), (EIGHT, replace(CPU, present=False))],
    ids=["cuda-build", "no-gpu", "rocm", "no-torch"],
)
def test_passes_ed411(sections: tuple[object, ...]) -> None:
    assert list(cpu_build.run(facts.case(*sections))) == []


def _cache(kind: str, filesystem: str, path: str = "/home/me/.cache") -> CompileCaches:
    caches = (replace(facts.cache_folder(kind), filesystem=filesystem, path=path),)
    return CompileCaches(caches=caches, fit_folder="$HOME/.cache")


def test_finds_ed502_a_shared_cache_of_several_nodes() -> None:
    (finding,) = cache_filesystem.run(facts.case(_cache("triton", "lustre"), facts.variables(NNODES="4")))
    assert finding.title == "4 nodes would share the triton cache on lustre: ranks replace each other's files"


COMPILING = replace(facts.PROFILE, compile=CompileWanted(threads=1, cache_minimum_entries=5))


@pytest.mark.parametrize(
    ("filesystem", "path"), [("tmpfs", "/dev/shm/x"), ("ext4", "/tmp/torchinductor_me"), ("overlay", "/var/tmp/x")]
)
def test_finds_ed502_a_cache_that_does_not_last(filesystem: str, path: str) -> None:
    (finding,) = cache_filesystem.run(facts.case(_cache("inductor", filesystem, path), profile=COMPILING))
    assert (finding.severity, finding.title) == (
        "note",
        "the inductor cache lies where a reboot or a clean-up of /tmp empties it",
    )


def test_ed502_gives_no_two_opposite_commands() -> None:
    # Several nodes, one cache shared and the other under /tmp: HOME, where the second would last, is what they share.
    both = replace(
        _cache("triton", "nfs4"),
        caches=(*_cache("triton", "nfs4").caches, *_cache("inductor", "ext4", "/tmp/torchinductor_me").caches),
    )
    shared, passing = cache_filesystem.run(facts.case(both, facts.variables(NNODES="2"), profile=COMPILING))
    assert [finding.remediation.commands for finding in (shared, passing)] == [
        ('export TRITON_CACHE_DIR="/tmp/triton-$USER-${SLURM_JOB_ID:-local}"',),
        (),
    ]
    assert passing.remediation.text == (
        "Keep it on a local disk that lasts of each node, which no other node writes to; deleting entries has no use, "
        "a stale one is never taken"
    )
    (alone,) = cache_filesystem.run(facts.case(both, profile=COMPILING))
    assert alone.remediation.commands == ('export TORCHINDUCTOR_CACHE_DIR="$HOME/.cache/inductor"',)


def test_finds_ed502_a_cache_of_somebody_else() -> None:
    caches = _cache("triton", "ext4")
    closed = replace(caches, caches=(replace(caches.caches[0], present=True, writable=False, owner_uid=7),))
    (finding,) = cache_filesystem.run(facts.case(closed))
    assert (finding.severity, finding.title) == (
        "warning",
        "the triton cache cannot be written by this user: what is compiled is not kept, or the compile raises",
    )
    assert finding.remediation.commands == ('export TRITON_CACHE_DIR="$HOME/.cache/triton"',)
    gone = replace(caches, caches=(replace(caches.caches[0], present=False, writable=False),))
    (unmade,) = cache_filesystem.run(facts.case(gone))
    assert unmade.evidence == ("triton: /home/me/.cache (default), which cannot be made there",)
    extension = replace(_cache("torch_extensions", "ext4"), caches=(replace(gone.caches[0], kind="torch_extensions"),))
    assert list(cache_filesystem.run(facts.case(extension))) == []


def test_passes_ed502_local_caches_and_single_nodes() -> None:
    local = facts.case(_cache("triton", "ext4"), facts.variables(NNODES="4"), profile=COMPILING)
    assert list(cache_filesystem.run(local)) == []
    assert list(cache_filesystem.run(facts.case(_cache("triton", "nfs4"), facts.variables(WORLD_SIZE="8")))) == []
    assert list(cache_filesystem.run(facts.case(_cache("inductor", "tmpfs")))) == []


def _object(**changes: object) -> CompiledObjects:
    made = CompiledObject(
        kind="torch_extensions",
        path="/home/me/.cache/torch_extensions/py312_cu128/fused adam/fused_adam.so",
        needed=("libc10.so", "libcudart.so.12"),
        cuda_major="12",
        built_for="",
        for_this_torch=True,
        alone=True,
    )
    return CompiledObjects(objects=(replace(made, **changes),), unreadable=(), read_all=True)


def test_finds_ed503_another_cuda_major() -> None:
    section = _object(needed=("libc10.so", "libcudart.so.13"), cuda_major="13")
    (finding,) = foreign_compiled_object.run(facts.case(section))
    assert (finding.severity, finding.title) == (
        "error",
        "fused_adam.so in the torch_extensions cache is linked against CUDA 13; "
        "torch 2.10.0+cu128 is a CUDA 12.8 build",
    )
    assert finding.evidence[1] == "needs libcudart.so.13"
    # One extension's folder and nothing else of any cache.
    assert finding.remediation.commands == ("rm -r '/home/me/.cache/torch_extensions/py312_cu128/fused adam'",)


def test_finds_ed503_another_environments_torch() -> None:
    (finding,) = foreign_compiled_object.run(facts.case(_object(built_for="/old/torch", for_this_torch=False)))
    assert (finding.severity, finding.title) == (
        "warning",
        "fused_adam.so in the torch_extensions cache was compiled for the torch of another environment",
    )


def test_ed503_deletes_no_folder_with_files_of_the_users() -> None:
    (finding,) = foreign_compiled_object.run(facts.case(_object(cuda_major="13", alone=False)))
    assert finding.remediation == Remediation(
        text="Delete this one extension's object; it is compiled again at its next use. Other jobs that use it now "
        "keep what they have loaded",
        commands=("rm '/home/me/.cache/torch_extensions/py312_cu128/fused adam/fused_adam.so'",),
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"read_all": False}, "1 compiled object was looked at, and there are more"),
        ({"unreadable": ("/c/fused.so: not ELF",)}, "/c/fused.so: not ELF"),
    ],
)
def test_ed503_says_what_it_did_not_look_at(changes: dict[str, object], reason: str) -> None:
    section = replace(_object(built_for="/old/torch", for_this_torch=False), **changes)  # type: ignore[arg-type]
    verdict = judge(facts.case(section))
    assert [finding.code for finding in verdict.findings if finding.code == "ED503"] == ["ED503"]
    assert [item.reason for item in verdict.skipped if item.code == "ED503"] == [f"CompiledObjects: {reason}"]


@pytest.mark.parametrize("changes", [{}, {"cuda_major": "", "needed": ("libc10.so",)}])
def test_passes_ed503(changes: dict[str, object]) -> None:
    assert list(foreign_compiled_object.run(facts.case(_object(**changes)))) == []


def _needing(count: int) -> object:
    return replace(facts.PROFILE, gpu=GpuWanted(count=count))


def test_finds_ed606_too_few_gpus() -> None:
    (finding,) = gpus_not_visible.run(facts.case(gpus(device()), profile=_needing(8)))  # type: ignore[arg-type]
    assert finding.title == "1 GPU is visible; the profile needs 8"
    assert finding.remediation.commands == ()
    (finding,) = gpus_not_visible.run(facts.case(profile=_needing(8)))  # type: ignore[arg-type]
    assert finding.evidence[0] == "no GPU is there: no NVIDIA kernel module, device file or driver library"


def test_ed606_without_nvml_a_mistake_in_the_list_still_shows() -> None:
    unasked = gpus(state="driver only", reason="NVML was not asked")
    (finding,) = gpus_not_visible.run(facts.case(unasked, facts.variables(CUDA_VISIBLE_DEVICES="0,1,0")))
    assert finding.title == "CUDA_VISIBLE_DEVICES='0,1,0' names '0' twice, which leaves no GPU visible"
    assert list(gpus_not_visible.run(facts.case(unasked, facts.variables(CUDA_VISIBLE_DEVICES="0,99")))) == []


@pytest.mark.parametrize(
    ("value", "title", "alone"),
    [
        ("0-3", "leaves 1 of 8 GPUs visible: of '0-3' CUDA reads the first number alone", "warning"),
        ("0:4", "leaves 1 of 8 GPUs visible: of '0:4' CUDA reads the first number alone", "warning"),
        ("0 1 2 3", "leaves 1 of 8 GPUs visible: of '0 1 2 3' CUDA reads the first number alone", "warning"),
        ("0,1;2,9", "leaves 2 of 8 GPUs visible: of '1;2' CUDA reads the first number alone", "warning"),
        ("gpu4-7", "leaves no GPU visible: 'gpu4-7' names no GPU and ends the list", "error"),
        ("9", "leaves no GPU visible: '9' names no GPU and ends the list", "error"),
        ("0-3,0-3", "names '0-3' twice, which leaves no GPU visible", "error"),
        ("0,GPU-0", "leaves 1 of 8 GPUs visible: 'GPU-0' ends the list", "error"),
    ],
)
def test_ed606_does_not_guess_what_a_list_means(value: str, title: str, alone: str) -> None:
    for profile, severity in ((None, alone), (_needing(4), "error")):
        case = facts.case(EIGHT, facts.variables(CUDA_VISIBLE_DEVICES=value), profile=profile)  # type: ignore[arg-type]
        (finding,) = gpus_not_visible.run(case)
        assert (finding.severity, finding.title) == (severity, f"CUDA_VISIBLE_DEVICES={value!r} {title}")
        assert finding.remediation == Remediation(
            text="Write the ordinals or UUIDs of the GPUs that are meant, with commas"
        )


@pytest.mark.parametrize("value", ["0, 1", "+0,1", "0,1,", "0,1,-1", "GPU-0,GPU-3"])
def test_passes_ed606_two_whole_entries(value: str) -> None:
    case = facts.case(EIGHT, facts.variables(CUDA_VISIBLE_DEVICES=value), profile=_needing(2))  # type: ignore[arg-type]
    assert list(gpus_not_visible.run(case)) == []


@pytest.mark.parametrize(("value", "meant"), [("0, cuda:1,", "0,1"), ("3,9,3", "3"), ("9,2", "2")])
def test_ed606_takes_ordinals_as_they_are(value: str, meant: str) -> None:
    (finding,) = gpus_not_visible.run(facts.case(EIGHT, facts.variables(CUDA_VISIBLE_DEVICES=value)))
    assert finding.remediation.commands == (f"export CUDA_VISIBLE_DEVICES={meant}",)


def test_passes_ed606_enough_are_visible() -> None:
    assert list(gpus_not_visible.run(facts.case(EIGHT, profile=_needing(8)))) == []  # type: ignore[arg-type]
    chosen = facts.case(EIGHT, facts.variables(CUDA_VISIBLE_DEVICES="6,7"), profile=_needing(2))  # type: ignore[arg-type]
    assert list(gpus_not_visible.run(chosen)) == []
    with pytest.raises(DoesNotApplyError, match="^nvmlInit: Unknown Error$"):
        list(gpus_not_visible.run(facts.case(FAILED, profile=_needing(8))))  # type: ignore[arg-type]


def test_finds_ed702_by_nvmls_code_and_by_files() -> None:
    asked = replace(FAILED, nvml_code=18, module_version="570.124.06", library_version="570.133.07")
    unasked = replace(asked, state="driver only", nvml_code=0)
    for section, confidence in ((asked, "high"), (unasked, "medium")):
        (finding,) = driver_mismatch.run(facts.case(section))
        assert finding.confidence == confidence
        assert finding.title == (
            "the driver's kernel module is 570.124.06 and its libraries are 570.133.07: no change of the venv fixes "
            "that"
        )


@pytest.mark.parametrize(
    "section",
    [
        EIGHT,
        FAILED,
        gpus(state="driver only", library_version=""),
        gpus(device(), library_version="580.65.06"),
    ],
    ids=["equal", "another-failure", "unknown-library", "nvml-answers"],
)
def test_passes_ed702(section: Gpu) -> None:
    assert list(driver_mismatch.run(facts.case(section))) == []


COMPAT = "/usr/local/cuda-12.8/compat"


def _path(*elements: str) -> object:
    folders = tuple(LibraryFolder(element=element, path=element, present=True, shadows=()) for element in elements)
    return replace(facts.LIBRARY_PATH, folders=folders)


def test_finds_ed703_an_older_compatibility_library() -> None:
    driver = gpus(libcuda=f"{COMPAT}/libcuda.so.1", libcuda_version="570.86.10")
    (finding,) = old_forward_compat.run(facts.case(driver, _path(f"{COMPAT}/", "/opt/mpi")))
    assert finding.title == (
        "libcuda.so.1 570.86.10 of the forward-compatibility package shadows driver 580.159.04, which is newer"
    )
    assert finding.remediation.commands == ("export LD_LIBRARY_PATH=/opt/mpi",)
    (finding,) = old_forward_compat.run(facts.case(driver))
    assert finding.remediation.commands == ()


def test_finds_ed703_a_driver_in_the_image_unless_nvml_tells_the_mismatch() -> None:
    driver = gpus(libcuda="/usr/lib/x86_64-linux-gnu/libcuda.so.1", libcuda_version="570.86.10")
    (finding,) = old_forward_compat.run(facts.case(driver, _path("/opt/mpi")))
    assert finding.title == (
        "libcuda.so.1 570.86.10 in /usr/lib/x86_64-linux-gnu shadows driver 580.159.04, which is newer"
    )
    assert finding.remediation.commands == ()
    assert list(old_forward_compat.run(facts.case(replace(driver, nvml_code=18), _path("/opt/mpi")))) == []


@pytest.mark.parametrize(
    ("path", "version", "module"),
    [
        (f"{COMPAT}/libcuda.so.1", "580.65.06", "570.86.10"),
        (f"{COMPAT}/libcuda.so.1", "580.65.06", ""),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "580.65.06", "580.65.06"),
        (f"{COMPAT}/libcuda.so.1", "", "580.65.06"),
    ],
    ids=["as-meant", "no-module", "the-drivers-own", "unknown-version"],
)
def test_passes_ed703(path: str, version: str, module: str) -> None:
    driver = gpus(libcuda=path, libcuda_version=version, module_version=module)
    assert list(old_forward_compat.run(facts.case(driver, _path(COMPAT)))) == []


@pytest.mark.parametrize(
    ("capability", "architectures"),
    [
        ("9.0", "sm_80 sm_90"),
        ("8.6", "sm_80 sm_90"),
        ("8.9", "sm_75 sm_80 sm_86"),
        ("9.0", "sm_90a"),
        ("12.0", "sm_90 compute_90"),
        ("10.3", "sm_100f"),
        ("12.1", "sm_120"),
        ("10.0", "compute_100"),
    ],
)
def test_passes_ed704_code_that_runs(capability: str, architectures: str) -> None:
    code = GpuCode(architectures=tuple(architectures.split()), told_from="x")
    assert list(gpu_not_in_build.run(facts.case(gpus(device(capability=capability)), code))) == []


@pytest.mark.parametrize(
    ("capability", "architectures"),
    [
        ("10.0", "sm_80 sm_90"),
        ("12.0", "sm_90 sm_100"),
        ("7.0", "sm_75 sm_80 compute_120"),
        ("8.0", "sm_86"),
        ("10.0", "sm_90a compute_90a"),
        ("10.3", "sm_100a"),
        ("12.0", "sm_100f"),
    ],
)
def test_finds_ed704_a_gpu_without_code(capability: str, architectures: str) -> None:
    code = GpuCode(architectures=tuple(architectures.split()), told_from="x")
    (finding,) = gpu_not_in_build.run(facts.case(gpus(device(capability=capability)), code))
    assert finding.title == f"torch 2.10.0+cu128 holds no code for NVIDIA H200 (compute capability {capability})"


def test_ed704_what_could_not_be_told_is_said() -> None:
    code = GpuCode(architectures=(), told_from="libtorch_python.so names no architectures")
    with pytest.raises(DoesNotApplyError, match="could not be determined: libtorch_python.so names no architectures$"):
        list(gpu_not_in_build.run(facts.case(EIGHT, code)))


def test_finds_ed705_what_is_missing() -> None:
    none = Toolchain(cxx="", cc="", python_header="")
    (finding,) = missing_toolchain.run(facts.case(none, profile=COMPILING))
    assert finding.title == "torch.compile has no C compiler and no C++ compiler and no Python.h"
    assert finding.remediation.commands == ("sudo apt-get install --yes gcc g++ python3.12-dev",)
    elsewhere = replace(facts.PYTHON, home="/opt/python/bin")
    (finding,) = missing_toolchain.run(
        facts.case(replace(none, cc="/usr/bin/gcc", cxx="/usr/bin/g++"), elsewhere, profile=COMPILING)
    )
    assert (finding.title, finding.remediation.commands) == ("torch.compile has no Python.h", ())


def test_passes_ed705_with_a_toolchain_or_nothing_to_compile() -> None:
    assert list(missing_toolchain.run(facts.case(profile=COMPILING))) == []
    with pytest.raises(DoesNotApplyError, match="^the profile does not compile$"):
        list(missing_toolchain.run(facts.case(profile=facts.PROFILE)))


DOCKER = Platform(kernel="6.1.0", container="docker", wsl=False)


@pytest.mark.parametrize(
    ("code", "platform", "advice"),
    [
        (999, DOCKER, "Restart the container: it lost access"),
        (9, DOCKER, "Start the container with the GPUs"),
        (15, replace(DOCKER, container=""), "A GPU fell off the bus"),
        (-1, replace(DOCKER, container=""), "The driver is wedged"),
        (999, replace(DOCKER, container=""), "Compare with `nvidia-smi`"),
    ],
)
def test_finds_ed706_and_says_what_to_do_there(code: int, platform: Platform, advice: str) -> None:
    (finding,) = nvml_failed.run(facts.case(replace(FAILED, nvml_code=code), platform))
    assert (finding.severity, finding.title) == ("warning", "the driver cannot be asked: nvmlInit: Unknown Error")
    assert finding.remediation.text.startswith(advice)
    assert finding.remediation.commands == ()


@pytest.mark.parametrize("section", [EIGHT, facts.GPU, replace(FAILED, nvml_code=18)])
def test_passes_ed706(section: Gpu) -> None:
    assert list(nvml_failed.run(facts.case(section))) == []


@pytest.mark.parametrize(
    ("libcuda", "version", "found"),
    [
        ("/usr/local/cuda-13.0/compat/libcuda.so.1", "580.65.06", 0),
        ("/usr/local/cuda-12.8/compat/libcuda.so.1", "570.172.08", 1),
        ("/usr/lib/libcuda.so.1", "580.65.06", 1),
    ],
    ids=["new-enough", "too-old-itself", "no-compat"],
)
def test_finds_ed701_unless_forward_compatibility_makes_up_for_it(libcuda: str, version: str, found: int) -> None:
    driver = gpus(module_version="570.86.10", libcuda=libcuda, libcuda_version=version)
    build = replace(facts.TORCH, version="2.11.0+cu130", cuda="13.0")
    assert len(list(driver_too_old.run(facts.case(driver, build)))) == found


STUB = "/usr/local/cuda/lib64/stubs/libcuda.so.1"


def test_finds_ed708_the_toolkits_stub() -> None:
    driver = gpus(libcuda=STUB, libcuda_version="", libcuda_is_stub=True)
    (finding,) = stub_libcuda.run(facts.case(driver))
    assert finding.evidence == (
        f"{STUB} is found through the loader cache or ld.so.conf",
        "kernel module 580.159.04 is loaded, and no other libcuda.so.1 is found",
    )
    assert finding.remediation.text == (
        f"Remove {STUB}, or its folder from /etc/ld.so.conf.d, and run ldconfig: the stub is for linking only"
    )


def test_passes_ed708_the_drivers_own_and_a_stub_without_a_driver() -> None:
    assert list(stub_libcuda.run(facts.case(gpus()))) == []
    alone = gpus(libcuda=STUB, libcuda_version="", libcuda_is_stub=True, module_version="")
    assert list(stub_libcuda.run(facts.case(alone))) == []
