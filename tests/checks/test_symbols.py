"""ED305 to ED310: what binding every extension module would find."""

from dataclasses import replace

import pytest

from envdoctor.analysis.context import DoesNotApplyError
from envdoctor.checks import (
    extension_cuda_major,
    foreign_torch_extension,
    library_out_of_reach,
    old_system_library,
    split_library_family,
    undefined_symbol,
)
from envdoctor.checks.registry import judge
from envdoctor.model.finding import Remediation
from tests.factories import make_facts as facts

NCCL = "lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"
RESUME = facts.load_fault(
    "ncclCommResume",
    path="",
    owner="",
    owner_version="",
    first=True,
    message=f"{facts.SITE}/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume",
    requester="lib/python3.12/site-packages/torch/lib/libtorch_cuda.so",
    requester_owner="torch",
    provider=NCCL,
    provider_owner="nvidia-nccl-cu12",
    provider_version="2.19.3",
    provider_via="RPATH",
)
TORCH = facts.distribution("torch", "2.10.0", requires=("nvidia-nccl-cu12==2.27.5",))


def test_finds_ed305_in_the_words_of_the_import_and_puts_the_pinned_build_back() -> None:
    installed = facts.distributions(TORCH, facts.distribution("nvidia-nccl-cu12", "2.19.3"))
    (finding,) = undefined_symbol.run(facts.case(facts.symbols(RESUME), installed))
    assert finding.title == f"`import torch` fails: {RESUME.message}"
    assert finding.severity == "error"
    assert finding.evidence == (
        "torch/lib/libtorch_cuda.so asks for it (torch)",
        "nvidia/nccl/lib/libnccl.so.2 lacks it: found via RPATH, of nvidia-nccl-cu12 2.19.3",
        "no other file of this environment has it",
    )
    assert finding.remediation == Remediation(
        text="force-reinstall nvidia-nccl-cu12 2.27.5",
        commands=(
            f"uv pip install --python {facts.PREFIX}/bin/python --no-deps --reinstall-package nvidia-nccl-cu12 "
            "nvidia-nccl-cu12==2.27.5",
        ),
    )


def test_finds_ed305_once_for_a_distribution_and_hangs_it_under_the_variable() -> None:
    changes = {
        "provider": "/opt/cuda/lib64/libnvJitLink.so.12",
        "provider_via": "LD_LIBRARY_PATH",
        "version": "libnvJitLink.so.12",
        "has_it": (facts.holder("nvidia/nvjitlink/lib/libnvJitLink.so.12", "nvidia-nvjitlink-cu12", "12.8.93"),),
    }
    one = facts.load_fault("__nvJitLinkCreate_12_8", **changes)
    other = facts.load_fault("__nvJitLinkCreate_12_8", path="lib/python3.12/site-packages/flash_more.so", **changes)
    (finding,) = undefined_symbol.run(facts.case(facts.symbols(one, other)))
    assert finding.title == (
        "flash_attn_2_cuda.so of flash-attn 2.7.4 cannot be imported: undefined symbol __nvJitLinkCreate_12_8, version "
        "libnvJitLink.so.12"
    )
    assert finding.evidence[2:] == (
        "/opt/cuda/lib64/libnvJitLink.so.12 lacks it: found via LD_LIBRARY_PATH, of no distribution",
        "has it: nvidia/nvjitlink/lib/libnvJitLink.so.12 (nvidia-nvjitlink-cu12 12.8.93)",
        "the same of flash_more.so",
    )
    assert finding.remediation.commands == ("unset LD_LIBRARY_PATH",)
    assert "path-variable:LD_LIBRARY_PATH" in finding.symptom_of


def test_overwritten_bytes_explain_ed305() -> None:
    claims = (("nvidia-nccl-cu12", "2.27.5"), ("nvidia-nccl-cu13", "2.28.9"))
    contested = facts.contested("nvidia/nccl/lib/libnccl.so.2", *claims, on_disk=("nvidia-nccl-cu13",))
    fault = replace(RESUME, provider_owner="nvidia-nccl-cu13", provider_version="2.28.9")
    installed = facts.distributions(TORCH, *(facts.distribution(*claim) for claim in claims))
    files = replace(facts.FILES, contested=(contested,))
    verdict = judge(facts.case(facts.symbols(fault), installed, files))
    assert [finding.code for finding in verdict.findings] == ["ED203", "ED305"]
    assert verdict.consequences == {1: 0}


def test_passes_ed305_without_a_fault() -> None:
    assert list(undefined_symbol.run(facts.case())) == []


def test_finds_ed306_a_build_for_the_other_major() -> None:
    case = facts.case(
        facts.symbols(cuda_users=(facts.cuda_user("vllm", "13"),)),
        facts.distributions(facts.distribution("nvidia-cuda-runtime", "13.0.48")),
    )
    (finding,) = extension_cuda_major.run(case)
    assert finding.title == "vllm 1.0 was built for CUDA 13; torch 2.10.0+cu128 is a CUDA 12.8 build"
    assert finding.evidence == (
        "vllm/_C.abi3.so needs libcudart.so.13 (DT_NEEDED)",
        "CUDA 13 is here as nvidia-cuda-runtime 13.0.48, required by nothing that is installed",
    )


@pytest.mark.parametrize(
    "users",
    [
        (facts.cuda_user("vllm", "12"),),
        (facts.cuda_user("bitsandbytes", "12"), facts.cuda_user("bitsandbytes", "13")),
        (facts.cuda_user("cupy-cuda13x", "13", links_torch=False),),
    ],
    ids=["the same", "one of each", "chosen by name"],
)
def test_passes_ed306(users: tuple[object, ...]) -> None:
    assert list(extension_cuda_major.run(facts.case(facts.symbols(cuda_users=users)))) == []


def test_ed306_does_not_apply_to_a_cpu_build() -> None:
    with pytest.raises(DoesNotApplyError, match="^torch is not a CUDA build$"):
        list(extension_cuda_major.run(facts.case(replace(facts.TORCH, cuda=""))))


MISSING = facts.load_fault(
    "libnvrtc.so.12",
    kind="not found",
    message="libnvrtc.so.12: cannot open shared object file: No such file or directory",
)


HELD = facts.holder("nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12")


def test_finds_ed307_what_is_there_and_out_of_reach() -> None:
    fault = replace(MISSING, has_it=(facts.holder("nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12"),))
    lies = (
        "libnvrtc.so.12 is at nvidia/cuda_nvrtc/lib/libnvrtc.so.12 (nvidia-cuda-nvrtc-cu12 1.0), where none of its "
        "search paths leads"
    )
    (finding,) = library_out_of_reach.run(facts.case(facts.symbols(fault)))
    assert (finding.severity, finding.title, finding.evidence) == (
        "warning",
        f"flash_attn_2_cuda.so of flash-attn 2.7.4 cannot be loaded: {MISSING.message}",
        (lies,),
    )
    (finding,) = library_out_of_reach.run(facts.case(facts.symbols(replace(fault, opening="at import"))))
    assert (finding.severity, finding.evidence) == (
        "error",
        (lies, "importing flash-attn opens it, and lets the error through"),
    )
    # torch is of that major and was imported before: what is judged is the state after it.
    assert finding.remediation.text == (
        f'Open the library first: ctypes.CDLL("{facts.SITE}/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", '
        "mode=ctypes.RTLD_GLOBAL). A build of flash-attn whose RUNPATH leads there needs no such step. Do not put the "
        "folder on LD_LIBRARY_PATH"
    )


def test_finds_ed307_what_nothing_brings() -> None:
    (finding,) = library_out_of_reach.run(facts.case(facts.symbols(MISSING)))
    assert finding.remediation.commands == (
        f"uv pip install --python {facts.PREFIX}/bin/python --no-deps nvidia-cuda-nvrtc-cu12",
    )


def test_finds_ed307_a_systems_library_as_a_note() -> None:
    fault = replace(MISSING, name="libGL.so.1", message="libGL.so.1: cannot open shared object file")
    (finding,) = library_out_of_reach.run(facts.case(facts.symbols(fault)))
    assert (finding.severity, finding.remediation.text) == (
        "note",
        "If flash-attn is used, install the system package that provides libGL.so.1 (Debian and Ubuntu: apt-get "
        "install libgl1)",
    )
    other = replace(fault, name="libnobody.so.7", opening="at import")
    (finding,) = library_out_of_reach.run(facts.case(facts.symbols(other)))
    assert (finding.severity, finding.remediation.text) == (
        "warning",
        "If flash-attn is used, install the system package that provides libnobody.so.7",
    )


def test_finds_ed307_what_a_variable_alone_reaches() -> None:
    (finding,) = library_out_of_reach.run(facts.case(facts.symbols(by_variable=(facts.reached("libx.so.1", "fvdb"),))))
    assert (finding.severity, finding.title) == ("warning", "fvdb finds libx.so.1 through LD_LIBRARY_PATH alone")


@pytest.mark.parametrize(
    "fault",
    [
        replace(MISSING, preloader="lib/python3.12/site-packages/flash_attn/__init__.py", has_it=(HELD,)),
        replace(MISSING, name="libcute_dsl_runtime.so", module=False, has_it=(HELD,)),
        replace(MISSING, name="libcuda.so.1"),
        replace(MISSING, name="libmpi.so.40", module=False),
        replace(MISSING, name="libcudart.so.13"),
    ],
    ids=[
        "opened by the package itself",
        "opened by a runtime that is there",
        "the driver's",
        "an optional plug-in's",
        "ED306's",
    ],
)
def test_passes_ed307(fault: object) -> None:
    assert list(library_out_of_reach.run(facts.case(facts.symbols(fault)))) == []  # type: ignore[arg-type]


PARTS = ("libcudnn.so.9", "libcudnn_graph.so.9", "libcudnn_ops.so.9")


def test_finds_ed308_a_part_from_the_system() -> None:
    inside = [facts.provider(name, "nvidia-cudnn-cu12", "12") for name in PARTS]
    name = "libcudnn_engines_tensor_ir.so.9"
    outside = facts.provider(name, "", path=f"/usr/lib/{name}", found_via="ld.so.cache", stage="lazy")
    libraries = replace(facts.LIBRARIES, providers=(*inside, outside))
    (finding,) = split_library_family.run(facts.case(libraries))
    assert finding.title == f"{name} is taken from /usr/lib, the rest of cudnn from nvidia-cudnn-cu12 1.0"
    assert finding.remediation == Remediation(
        text="Remove the system package that brings /usr/lib/libcudnn_engines_tensor_ir.so.9, if nothing else needs it:"
        " what the wheel does not bring is then left unused. A newer nvidia-cudnn-cu12 may bring the part itself, where"
        " torch's own pin allows one. Reinstalling the wheel changes nothing"
    )


def test_finds_ed308_as_a_note_where_torch_works_without_the_part() -> None:
    inside = facts.provider("libcufile.so.0", "nvidia-cufile", "13")
    outside = facts.provider("libcufile_rdma.so.1", "", path="/usr/local/cuda/lib64/libcufile_rdma.so.1")
    (finding,) = split_library_family.run(facts.case(replace(facts.LIBRARIES, providers=(inside, outside))))
    assert (finding.severity, finding.subject) == ("note", "libcufile_rdma.so.1")


def test_passes_ed308_the_same_library_of_another_major() -> None:
    """As a host's libcudart.so.13, taken by a CUDA 13 torch beside the libcudart.so.12 of jax[cuda12]."""
    inside = facts.provider("libcudart.so.12", "nvidia-cuda-runtime-cu12", "12")
    outside = facts.provider("libcudart.so.13", "", path="/usr/local/cuda/lib64/libcudart.so.13")
    assert list(split_library_family.run(facts.case(replace(facts.LIBRARIES, providers=(inside, outside))))) == []


def test_passes_ed308_parts_from_one_place() -> None:
    inside = [facts.provider(name, "nvidia-cudnn-cu12", "12") for name in PARTS]
    outside = facts.provider("libnccl.so.2", "", path="/usr/lib/libnccl.so.2")
    assert list(split_library_family.run(facts.case(replace(facts.LIBRARIES, providers=(*inside, outside))))) == []


SWAPPED = "_ZN3c105ErrorC2ENS_14SourceLocationESs"


@pytest.mark.parametrize(
    ("symbol", "declaration", "torch_abi", "built_for"),
    [
        (SWAPPED, "c10::Error::Error(c10::SourceLocation, std::string)", "cxx11", "a torch with the old std::string "),
        (SWAPPED, SWAPPED, "cxx11", "a torch with the old std::string "),
        ("_ZN3c106detailENSt7__cxx1112basic_stringE", "", "pre-cxx11", "a torch with the new std::string "),
        (SWAPPED, "c10::Error::Error(c10::SourceLocation, std::string)", "pre-cxx11", "another torch; "),
        ("_ZN3c104cuda9SetDeviceEa", "c10::cuda::SetDevice(signed char)", "cxx11", "another torch; "),
        ("_ZN3c104cuda9SetDeviceEa", "c10::cuda::SetDevice(signed char)", "", "another torch; "),
    ],
)
def test_finds_ed309_and_the_direction(symbol: str, declaration: str, torch_abi: str, built_for: str) -> None:
    fault = facts.load_fault(symbol, declaration=declaration)
    (finding,) = foreign_torch_extension.run(facts.case(facts.symbols(fault, torch_abi=torch_abi)))
    start = f"flash_attn_2_cuda.so of flash-attn 2.7.4 was built for {built_for}"
    assert finding.title[: len(start)] == start
    assert finding.title.endswith("torch here is 2.10.0+cu128")


def test_passes_ed309_a_symbol_that_is_not_torchs() -> None:
    case = facts.case(facts.symbols(facts.load_fault("PyUnicode_New")))
    assert list(foreign_torch_extension.run(case)) == []
    (finding,) = undefined_symbol.run(case)
    assert finding.severity == "warning"


def test_what_an_extension_asks_of_python_hangs_under_the_other_python() -> None:
    fault = facts.load_fault("_PyUnicode_Ready")
    (finding,) = undefined_symbol.run(facts.case(facts.symbols(fault)))
    assert "interpreter" in finding.symptom_of
    assert finding.remediation.text == (
        "flash-attn was built for another Python; force-reinstall it with this interpreter"
    )
    assert finding.remediation.commands == (
        f"uv pip install --python {facts.PREFIX}/bin/python --no-deps --reinstall-package flash-attn "
        "flash-attn===2.7.4",
    )
    python = replace(facts.PYTHON, runs="3.13", is_venv=True)
    verdict = judge(facts.case(python, facts.symbols(fault)))
    assert [item.code for item in verdict.findings] == ["ED105", "ED305"]
    assert verdict.consequences == {1: 0}


GLIBC = facts.load_fault(
    "GLIBC_2.38",
    kind="version not found",
    version="GLIBC_2.38",
    message="/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by x.so)",
    provider="/lib/x86_64-linux-gnu/libc.so.6",
    provider_via="ld.so.cache",
    provider_offers="GLIBC_2.36",
)


def test_finds_ed310_a_newer_glibc_is_wanted() -> None:
    (finding,) = old_system_library.run(facts.case(facts.symbols(GLIBC)))
    assert finding.title == (
        "flash_attn_2_cuda.so of flash-attn 2.7.4 needs GLIBC_2.38; libc.so.6 here has GLIBC_2.36 at most"
    )
    assert finding.remediation.commands == ()


def test_finds_ed310_an_old_libstdcxx_that_a_variable_puts_in_front() -> None:
    fault = replace(
        GLIBC, name="GLIBCXX_3.4.32", provider="/opt/conda/lib/libstdc++.so.6", provider_via="LD_LIBRARY_PATH"
    )
    (finding,) = old_system_library.run(facts.case(facts.symbols(fault)))
    assert finding.remediation.commands == ("unset LD_LIBRARY_PATH",)
    assert finding.symptom_of == ("path-variable:LD_LIBRARY_PATH",)


def test_passes_ed310_a_version_of_another_library() -> None:
    fault = replace(GLIBC, provider=NCCL, name="libnccl_2")
    case = facts.case(facts.symbols(fault))
    assert list(old_system_library.run(case)) == []
    assert [finding.code for finding in undefined_symbol.run(case)] == ["ED305"]


def test_what_was_not_looked_at_is_said_and_is_no_doubt() -> None:
    symbols = facts.symbols(looked=False, reason="no earlier check of these files is remembered")
    verdict = judge(facts.case(symbols))
    said = {item.code: (item.reason, item.matters) for item in verdict.skipped}
    reason = "symbols were not looked at: no earlier check of these files is remembered"
    assert {code: said[code] for code in ("ED305", "ED306", "ED307", "ED309", "ED310")} == dict.fromkeys(
        ("ED305", "ED306", "ED307", "ED309", "ED310"), (reason, False)
    )
    assert verdict.exit_code() == 0
