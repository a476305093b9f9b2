"""ED301, ED302, ED303, ED304: what the loader would do."""

from dataclasses import replace

import pytest

from envdoctor.analysis.context import DoesNotApplyError
from envdoctor.checks import foreign_cuda_major, lazy_library, unresolved_library, wrong_provider
from envdoctor.checks.registry import judge
from envdoctor.model.finding import Remediation
from envdoctor.probes.loading.libraries import Provider
from tests.factories import make_facts as facts

CUDNN_ERROR = "libcudnn.so.9: cannot open shared object file: No such file or directory"


TORCH = facts.distribution("torch", "2.15.0")


def test_finds_ed301_every_missing_library_the_first_with_the_importers_words() -> None:
    libraries = replace(
        facts.LIBRARIES,
        import_error=CUDNN_ERROR,
        unresolved=(facts.unresolved("libcudnn.so.9"), facts.unresolved("libnccl.so.2")),
    )
    installed = facts.distributions(
        facts.distribution("torch", "2.10.0", requires=("nvidia-cudnn-cu12==9.10.2.21", "nvidia-nccl-cu12==2.27.5")),
        facts.distribution("nvidia-cudnn-cu12", "9.10.2.21"),
    )
    first, second = unresolved_library.run(facts.case(libraries, installed))
    assert first.title == f"`import torch` fails: {CUDNN_ERROR}"
    assert first.evidence == (
        "needed by libtorch_cuda.so (DT_NEEDED)",
        "looked for in 2 folders, first /a",
        "its provider for this torch is nvidia-cudnn-cu12: version 9.10.2.21 is installed",
    )
    assert first.remediation == Remediation(
        text="force-reinstall nvidia-cudnn-cu12",
        commands=(
            f"uv pip install --python {facts.PREFIX}/bin/python --no-deps --reinstall-package nvidia-cudnn-cu12 "
            "nvidia-cudnn-cu12==9.10.2.21",
        ),
    )
    assert second.title == "and then: libnccl.so.2: cannot open shared object file: No such file or directory"
    assert second.remediation == Remediation(
        text="install nvidia-nccl-cu12",
        commands=(f"uv pip install --python {facts.PREFIX}/bin/python --no-deps nvidia-nccl-cu12==2.27.5",),
    )


def test_finds_ed301_what_is_there_and_out_of_reach_without_the_same_file_again() -> None:
    lies = "lib/python3.12/site-packages/nvidia/elsewhere/lib/libcudnn.so.9"
    item = facts.unresolved("libcudnn.so.9", lies_at=lies)
    libraries = replace(facts.LIBRARIES, import_error=CUDNN_ERROR, unresolved=(item,))
    torch = facts.distribution("torch", "2.10.0", requires=("nvidia-cudnn-cu12==9.10.2.21",))

    def remedy(version: str) -> Remediation:
        installed = facts.distributions(torch, facts.distribution("nvidia-cudnn-cu12", version))
        (finding,) = unresolved_library.run(facts.case(libraries, installed))
        assert "nvidia/elsewhere/lib/libcudnn.so.9 is there, where none of those searches leads" in finding.evidence
        return finding.remediation

    install = f"uv pip install --python {facts.PREFIX}/bin/python --no-deps"
    assert remedy("9.1.0") == Remediation(
        text="install the nvidia-cudnn-cu12 that torch asks for", commands=(f"{install} nvidia-cudnn-cu12==9.10.2.21",)
    )
    assert remedy("9.10.2.21") == Remediation(
        text="reinstall torch, whose search paths do not lead to nvidia-cudnn-cu12's folder",
        commands=(f"{install} --reinstall-package torch torch===2.10.0",),
    )


def test_lost_files_explain_the_unresolved_library() -> None:
    libraries = replace(facts.LIBRARIES, import_error=CUDNN_ERROR, unresolved=(facts.unresolved("libcudnn.so.9"),))
    files = replace(
        facts.FILES,
        owners=(facts.owner("nvidia-cudnn-cu12", missing=1),),
        faults=(facts.missing("nvidia-cudnn-cu12", "nvidia/cudnn/lib/libcudnn.so.9"),),
    )
    verdict = judge(facts.case(libraries, files))
    assert [finding.code for finding in verdict.findings] == ["ED201", "ED301"]
    assert verdict.consequences == {1: 0}
    assert verdict.findings[0].explains == ("ED301",)


def test_passes_ed301_when_all_resolve() -> None:
    libraries = replace(facts.LIBRARIES, providers=(facts.provider("libcudnn.so.9", "nvidia-cudnn-cu12", "12"),))
    assert list(unresolved_library.run(facts.case(libraries))) == []


def test_finds_ed302_a_library_of_another_major() -> None:
    libraries = replace(facts.LIBRARIES, providers=(facts.provider("libnccl.so.2", "nvidia-nccl-cu13", "13"),))
    (finding,) = foreign_cuda_major.run(facts.case(libraries))
    assert finding.title == "libnccl.so.2 is served by CUDA 13; torch 2.10.0+cu128 is a CUDA 12.8 build"
    assert finding.evidence == (
        "libnccl.so.2: libtorch_cuda.so needs it (DT_NEEDED)",
        "nvidia/x/lib/libnccl.so.2 is found via RPATH of libtorch_cuda.so",
        "its bytes belong to nvidia-nccl-cu13 1.0",
    )


def test_finds_ed302_only_what_torch_is_bound_to() -> None:
    """As jax[cuda12] beside a CUDA 13 torch, whose preload list opens all of them: one serves torch."""

    def opened(soname: str, owner: str, **changes: object) -> Provider:
        place = {"path": f"nvidia/{owner}/lib/{soname}", "stage": "preload", "needed_by": "", **changes}
        return facts.provider(soname, owner, "12", **place)

    blas = opened("libcublas.so.12", "nvidia-cublas-cu12")
    part = opened("libcublasLt.so.12", "nvidia-cublas-cu12", needed_by=blas.path)
    sparse = opened("libcusparse.so.12", "nvidia-cusparse-cu12", asked_by="torch/lib/libtorch_cuda.so")
    torch = replace(facts.TORCH, version="2.15.0+cu132", cuda="13.2")
    plugin = facts.distribution("jax-cuda12-plugin", requires=("nvidia-cusparse-cu12>=12; extra == 'with-cuda'",))
    case = facts.case(
        replace(facts.LIBRARIES, providers=(blas, part, sparse)), torch, facts.distributions(TORCH, plugin)
    )
    (finding,) = foreign_cuda_major.run(case)
    assert finding.title == "libcusparse.so.12 is served by CUDA 12; torch 2.15.0+cu132 is a CUDA 13.2 build"
    assert finding.evidence[0] == "libcusparse.so.12: torch/lib/libtorch_cuda.so needs it (DT_NEEDED)"
    assert finding.remediation == Remediation(
        text="let libcusparse.so.12 come from a CUDA 13 distribution again: nvidia-cusparse-cu12 is here for "
        "jax-cuda12-plugin. Take the build of that for CUDA 13 (jax[cuda13] instead of jax[cuda12]), or give it a venv "
        "of its own"
    )


@pytest.mark.parametrize("major", ["12", ""])
def test_passes_ed302_the_same_major_or_one_not_known(major: str) -> None:
    libraries = replace(facts.LIBRARIES, providers=(facts.provider("libnccl.so.2", "nvidia-nccl-cu12", major),))
    assert list(foreign_cuda_major.run(facts.case(libraries))) == []


def test_ed302_does_not_apply_to_a_cpu_build() -> None:
    with pytest.raises(DoesNotApplyError, match="^torch is not a CUDA build$"):
        list(foreign_cuda_major.run(facts.case(replace(facts.TORCH, cuda=""))))


def test_finds_ed303_a_library_that_only_its_first_use_misses() -> None:
    lazy = facts.unresolved(
        "libcusolver.so.11", stage="lazy", used_when="linear algebra on the GPU", needed_by="libtorch_cuda_linalg.so"
    )
    (finding,) = lazy_library.run(facts.case(replace(facts.LIBRARIES, unresolved=(lazy,))))
    assert finding.title == (
        "libcusolver.so.11 cannot be found; the import works, but linear algebra on the GPU will fail"
    )
    assert finding.evidence[:2] == (
        "needed by libtorch_cuda_linalg.so (DT_NEEDED)",
        "looked for in 2 folders, first /a",
    )


NVRTC = "lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"


def test_finds_ed303_what_is_there_and_out_of_reach_without_a_reinstall() -> None:
    """As torch 2.4.1 and 2.5.1: cuDNN looks for NVRTC in a folder that no wheel has."""
    lazy = facts.unresolved(
        "libnvrtc.so.12",
        stage="lazy",
        used_when="cuDNN kernels compiled at run time",
        needed_by="libcudnn_graph.so.9",
        by_name=True,
        lies_at=NVRTC,
    )
    torch = facts.distribution("torch", "2.5.1", requires=("nvidia-cuda-nvrtc-cu12==12.4.127",))
    nvrtc = facts.distribution("nvidia-cuda-nvrtc-cu12", "12.4.127")
    libraries = replace(facts.LIBRARIES, unresolved=(lazy,))
    (finding,) = lazy_library.run(facts.case(libraries, facts.distributions(torch, nvrtc)))
    assert (finding.severity, finding.title) == (
        "warning",
        "libnvrtc.so.12 cannot be found; the import works, but cuDNN kernels compiled at run time will fail unless "
        "something has opened it before",
    )
    assert finding.evidence == (
        "opened by libcudnn_graph.so.9 by its name (dlopen)",
        "looked for in 2 folders, first /a",
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12 is there, where none of those searches leads",
        "its provider for this torch is nvidia-cuda-nvrtc-cu12: version 12.4.127 is installed",
    )
    assert finding.remediation == Remediation(
        text="The file is there and whole, so a reinstall changes nothing. torch 2.6 and newer open it at import. Or "
        f'open it in the program, before cuDNN kernels compiled at run time: ctypes.CDLL("{facts.PREFIX}/{NVRTC}", '
        "mode=ctypes.RTLD_GLOBAL)"
    )
    # Of another version than torch asks for, that version is the remedy.
    other = facts.distributions(torch, replace(nvrtc, version="12.1.105"))
    (finding,) = lazy_library.run(facts.case(libraries, other))
    assert finding.remediation.text == "install the nvidia-cuda-nvrtc-cu12 that torch asks for"


def test_passes_ed303_the_drivers_library_on_a_machine_without_a_gpu() -> None:
    lazy = facts.unresolved("libcuda.so.1", stage="lazy", used_when="a GPU", needed_by="libcaffe2_nvrtc.so")
    assert list(lazy_library.run(facts.case(replace(facts.LIBRARIES, unresolved=(lazy,))))) == []


def test_finds_ed304_a_provider_the_profile_does_not_want() -> None:
    profile = replace(facts.PROFILE, libraries={"libnvJitLink.so.12": "nvidia-nvjitlink-cu12"})
    outside = facts.provider(
        "libnvJitLink.so.12",
        "",
        "12",
        path="/usr/local/cuda-12.1/lib64/libnvJitLink.so.12",
        found_via="LD_LIBRARY_PATH",
    )
    (finding,) = wrong_provider.run(facts.case(replace(facts.LIBRARIES, providers=(outside,)), profile=profile))
    assert finding.title == (
        "libnvJitLink.so.12 comes from /usr/local/cuda-12.1/lib64/libnvJitLink.so.12, which no distribution owns; the "
        "profile wants nvidia-nvjitlink-cu12"
    )
    assert finding.evidence == ("/usr/local/cuda-12.1/lib64/libnvJitLink.so.12 is found via LD_LIBRARY_PATH",)


def test_passes_ed304_the_wanted_provider() -> None:
    profile = replace(facts.PROFILE, libraries={"libnccl.so.2": "nvidia-nccl-cu12"})
    libraries = replace(facts.LIBRARIES, providers=(facts.provider("libnccl.so.2", "nvidia-nccl-cu12", "12"),))
    assert list(wrong_provider.run(facts.case(libraries, profile=profile))) == []


def test_finds_ed301_once_for_a_file_that_many_stumble_over_and_names_the_variable() -> None:
    old = "/opt/old/libstdc++.so.6"
    problem = f"{old}: version `GLIBCXX_3.4.30' not found (required by libc10.so)"
    libraries = replace(
        facts.LIBRARIES,
        import_error=problem,
        unresolved=tuple(facts.unresolved(old, problem=problem, searched=()) for _ in range(3)),
    )
    environment = facts.variables(LD_LIBRARY_PATH="/x:/opt/old/")
    (finding,) = unresolved_library.run(facts.case(libraries, environment))
    assert finding.title == f"`import torch` fails: {problem}"
    assert finding.evidence == (
        "needed by libtorch_cuda.so (DT_NEEDED)",
        f"{old} is taken because of LD_LIBRARY_PATH",
        "and 2 objects more stumble over the same file",
    )
    assert finding.remediation.commands == ("export LD_LIBRARY_PATH=/x",)
    (finding,) = unresolved_library.run(facts.case(libraries, facts.variables(LD_LIBRARY_PATH="/opt/old;/x")))
    assert finding.remediation.commands == ("export LD_LIBRARY_PATH=/x",)
    (finding,) = unresolved_library.run(facts.case(libraries, facts.variables(LD_PRELOAD=f"/lib/a.so {old}")))
    assert finding.remediation.commands == ("export LD_PRELOAD=/lib/a.so",)


def test_finds_ed301_the_owner_of_a_damaged_file_by_its_record() -> None:
    libraries = replace(facts.LIBRARIES, unresolved=(facts.unresolved("libfoo.so.1"),))
    files = replace(facts.FILES, faults=(facts.resized("foo", "foo/lib/libfoo.so.1"),))
    installed = facts.distributions(facts.distribution("torch"), facts.distribution("foo", "2.0"))
    (finding,) = unresolved_library.run(facts.case(libraries, files, installed))
    assert finding.remediation.text == "force-reinstall foo"
    assert finding.remediation.commands[0].endswith("--no-deps --reinstall-package foo foo==2.0")
