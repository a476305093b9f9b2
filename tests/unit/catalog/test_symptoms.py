"""Each error text of a public case leads to the check that finds the case, and to few others."""

import py_compile
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envdoctor.analysis.symptoms import SUBJECTS, containing, described, recognize
from envdoctor.checks.registry import all_checks
from envdoctor.cli.app import COMMANDS
from envdoctor.model.symptom import FoundSymptom, Symptom
from tests.factories.run_envdoctor import ROOT

NAMES = {check.code: check.name for check in all_checks()}
ALL = [symptom for symptoms in SUBJECTS.values() for symptom in symptoms]
_NO_FILE = "cannot open shared object file: No such file or directory"
# Case of docs/cases.md -> its error texts, as the reports and the programs print them.
CASES: dict[str, tuple[str, ...]] = {
    "BR01": ("ImportError: libnvshmem_host.so.3: cannot open shared object file",),
    "BR02": (f"ImportError: libcudnn.so.9: {_NO_FILE}",),
    "BR04": (f"ImportError: libnvrtc.so.13: {_NO_FILE}",),
    "BR05": ("ImportError: /srv/v/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume",),
    "BR08": (f"ImportError: libcudart.so.13: {_NO_FILE}",),
    "BR09": (
        "ImportError: /srv/v/nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, "
        "version libnvJitLink.so.12",
    ),
    "BR11": ("RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",),
    "BR12": (
        "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 12080). Please "
        "update your GPU driver by downloading and installing a new version",
        "CUDA driver version is insufficient for CUDA runtime version",
    ),
    "BR14": (
        "Failed to initialize NVML: Driver/library version mismatch",
        "pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.",
    ),
    "BR15": (
        "RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED",
        "CUDA error: invalid device ordinal",
        "RuntimeError: No CUDA GPUs are available",
    ),
    "BR16": ("AssertionError: Torch not compiled with CUDA enabled", "torch.cuda.is_available() == False"),
    "BR17": ("RuntimeError: operator torchvision::nms does not exist",),
    "BR18": (
        "ImportError: libc10.so: cannot open shared object file",
        "ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs",
    ),
    "BR21": (
        "ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' (/srv/v/triton/compiler.py)",
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:",
        "torch._inductor.exc.TritonMissing: Cannot find a working triton installation. Either the package is not there",
    ),
    "BR23": (
        "ImportError: Using low_cpu_mem_usage=True or a device_map requires Accelerate: pip install accelerate",
        "ImportError: Using `low_cpu_mem_usage=True` or a `device_map` requires Accelerate: `pip install accelerate`",
    ),
    "BR25": (
        "ModuleNotFoundError: No module named 'pynvml'",
        "FutureWarning: The pynvml package is deprecated. Please install nvidia-ml-py instead.",
    ),
    "BR26": ("ValueError: Unable to compare versions for torch>=1.9: need=1.9 found=None. This is unusual.",),
    "BR28": (
        "ModuleNotFoundError: No module named 'yaml'",
        "ModuleNotFoundError: No module named 'torch'",
        "WARNING: Ignoring invalid distribution ~orch (/srv/v/lib/python3.11/site-packages)",
    ),
    "BR29": (
        "ModuleNotFoundError: No module named 'kempnerforge'",
        "bash: v-moved/bin/torchrun: /srv/v/bin/python: bad interpreter: No such file or directory",
        "bash: v-moved/bin/torchrun: cannot execute: required file not found",
    ),
    "BR31": (
        "The virtual environment was not created successfully because ensurepip is not available.",
        "error: Broken symlink at `.venv/bin/python3`, was the underlying Python interpreter removed?",
        "error: No virtual environment or system Python installation found for path `v2/bin/python`",
    ),
    "BR33": (
        "ImportError: /home/u/.triton/cache/ab/__triton_launcher.so: cannot stat shared object: Stale file handle",
        "OSError: [Errno 116] Stale file handle",
        "OSError: [Errno 16] Device or resource busy: '.nfs000000'",
    ),
    "BR36": (
        "OSError: source code not available",
        "OSError: could not get source code",
        "ValueError: @jit functions should be defined in a Python file",
        "torch._inductor.exc.InductorError: SubprocException: An exception occurred in a subprocess:",
    ),
    "BR37": (
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",
        "ncclInternalError: Internal check failed.",
        "[rank0]:[E1130 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(",
    ),
    "BR38": ("error: Hash mismatch for `torchvision==0.26.0+cu128`", "Hash mismatch for torch==2.11.0+cu128"),
    "BR39": ("hint: A compatible version may be available on a subsequent index",),
    "N01": (
        "ImportError: [sgl_kernel] CRITICAL: Could not load any common_ops library! ",
        f"librdmacm.so.1: {_NO_FILE}",
        f"ImportError: libnuma.so.1: {_NO_FILE}",
    ),
    "N02b": (
        "RuntimeError: Could not load libtorchcodec. Likely causes:",
        f"OSError: libavutil.so.58: {_NO_FILE}",
    ),
    "N03b": (
        "AssertionError: TransformerEngine package version mismatch. Found transformer_engine_torch v2.7.0, "
        "transformer-engine v2.9.0",
    ),
    "N04": ("ModuleNotFoundError: No module named 'pkg_resources'", "ModuleNotFoundError: No module named 'distutils'"),
    "N05": (
        "google.protobuf.runtime_version.VersionError: Detected incompatible Protobuf Gencode/Runtime versions when "
        "loading wandb/proto/wandb_settings.proto: gencode 6.32.1 runtime 6.32.0",
    ),
    "N06": ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'",),
    "N08": (
        "SystemError: The installed pydantic-core version (2.41.4) is incompatible with the current pydantic version, "
        "which requires 2.41.5.",
    ),
    "N09": (
        "ValueError: Fast download using 'hf_transfer' is enabled (HF_HUB_ENABLE_HF_TRANSFER=1) but 'hf_transfer' "
        "package is not available in your environment.",
        "but hf_transfer is not available",
    ),
    "N10": ("ModuleNotFoundError: No module named 'libero'",),
    "N10c": ("ModuleNotFoundError: No module named 'megatron'",),
    "N11": ("FileNotFoundError: [Errno 2] No such file or directory: ':/usr/local/cuda-12.8/bin/nvcc'",),
    "N15": ("RuntimeError: CUDA driver is a stub library",),
    "N17b": (
        "ImportError: tokenizers>=0.22.0,<=0.23.0 is required for a normal functioning of this module, but found "
        "tokenizers==0.19.1.",
    ),
    "S04": (
        f"ImportError: libc10_cuda.so: {_NO_FILE}",
        f"ImportError: libtorch_cuda.so: {_NO_FILE}",
    ),
    "S05": ("ImportError: cannot import name 'clear_device_cache' from 'accelerate.utils.memory' (/srv/v/memory.py)",),
    "S06": (
        "RuntimeError: module compiled against API version 0x1000009 but this version of numpy is 0x2000000",
        "A module that was compiled using NumPy 1.x cannot be run in",
        "UserWarning: Failed to initialize NumPy: _ARRAY_API not found",
    ),
    "S07": ("ImportError: /usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.99' not found (required by ext.so)",),
    "S11": ("The detected CUDA version (13.0) mismatches the version that was used to compile PyTorch (12.8).",),
    "S12": ("ImportError: /m/k.so: failed to map segment from shared object",),
}
# No error text: N07 (activate names a folder that is gone) and N20 (another triton answers) say nothing wrong.
SILENT = {"N07", "N20"}
# Texts whose check has no row of its own, or another one than the case as a whole.
MORE = (
    (f"ImportError: libnccl.so.2: {_NO_FILE}", "ED201"),  # BR05 after its first half
    (f"ImportError: libcudart.so.12: {_NO_FILE}", "ED203"),  # S01
    ("ImportError: built for python 3.9", "ED603"),  # DR1
    ("torch.cuda.is_available() returns False", "ED411"),
    ("libcudnn.so.9: cannot open", "ED201"),  # as people shorten it
    ("gencode 6.32.1 runtime 6.32.0", "ED414"),
    ("GLIBCXX_3.4.99' not found", "ED310"),
    ("/srv/v/bin/python: No module named pip", ""),  # BR31: not a fault
    ("torch._inductor.exc: Detected that you are using FX to symbolically trace a dynamo-optimized function.", "ED510"),
    ("CUDA error: no kernel image is available for execution on the device", "ED704"),
    ("NVIDIA B200 with CUDA capability sm_100 is not compatible with the current PyTorch installation.", "ED704"),
    ("RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", "ED707"),
    ("ImportError: libcuda.so.1: cannot open shared object file", "ED707"),
    ("Error 804: forward compatibility was attempted on non supported HW", "ED703"),
    ("Failed to initialize NVML: Unknown Error", "ED706"),
    ("/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found", "ED310"),
    ("undefined symbol: iJIT_NotifyEvent", "ED605"),
    ("_multiarray_umath.cpython-312-x86_64-linux-gnu.so: invalid ELF header", "ED311"),
    ("fatal error: Python.h: No such file or directory", "ED705"),
    ("Because there is no version of torch==2.99 and you require torch==2.99, we can conclude that", ""),
    ("ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.", ""),
    ("ncclInvalidUsage: This usually reflects invalid usage of NCCL library.", "ED606"),
    ("ncclUnhandledCudaError: Call to CUDA function failed.", "ED203"),
    ("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.", ""),
    ("the package flash_attn seems to be not installed", ""),
    ("AttributeError: partially initialized module 'trainer' has no attribute 'x'", ""),
    ("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000", "ED606"),
    (
        "ERROR: ld.so: object '/x.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.",
        "ED602",
    ),
    ("PermissionError: [Errno 13] Permission denied: '/tmp/torchinductor_alice/x'", "ED505"),
    ("numpy.dtype size changed, may indicate binary incompatibility.", "ED312"),
    ("importlib.metadata.PackageNotFoundError: No package metadata was found for torch", "ED417"),
)


def codes_of_cases() -> Iterator[tuple[str, str]]:
    """Yield (case, code) of each row of docs/cases.md."""
    for line in (ROOT / "docs/cases.md").read_text().splitlines():
        if row := re.match(r"\| \[?((?:BR|N|S)\d+[a-z]?)\]?[^|]*\| (ED\d{3}|-) \|", line):
            yield row[1], row[2].removeprefix("-")


EXPECTED = [(text, code) for case, code in codes_of_cases() for text in CASES.get(case, ())]


@pytest.mark.parametrize(("text", "code"), [*EXPECTED, *MORE], ids=lambda value: value[:60])
def test_an_error_text_leads_to_its_check(text: str, code: str) -> None:
    (found,) = recognize(f"before\n  {text}\nafter", NAMES)
    assert code in [code for code, _, _ in found.causes]
    assert (found.line, found.times) == (2, 1)


def test_every_case_has_its_error_texts() -> None:
    assert {case for case, _ in codes_of_cases()} - SILENT == set(CASES)


@pytest.mark.parametrize("symptom", ALL, ids=lambda symptom: symptom.text[:60])
def test_a_symptom_is_found_by_its_own_text_and_names_what_there_is(symptom: Symptom) -> None:
    (found,) = recognize(symptom.text, NAMES)
    assert found == described(symptom, NAMES)
    assert found.text == symptom.text
    assert {code for code, _, _ in found.causes} <= {"", *NAMES}
    assert len({what for _, _, what in found.causes}) == len(found.causes) <= 6
    assert symptom.meaning.endswith(".")
    for command in found.commands:
        assert command.split()[:2][0] == "envdoctor"
        assert command.split()[1] in COMMANDS
        assert "{" not in command


def test_a_cause_that_only_a_profile_finds_comes_with_a_command_that_names_one() -> None:
    alone = {"ED402", "ED404", "ED510", "ED705"}
    found = [one for one in ALL if alone & {code for code, _ in one.causes}]
    assert [one.text for one in found if "envdoctor check -p NAME" not in one.commands] == []
    assert len(found) >= 9


def test_no_two_symptoms_have_one_text() -> None:
    assert len({symptom.text for symptom in ALL}) == len(ALL)


def test_a_log_with_several_texts_is_told_in_order_and_each_once() -> None:
    log = "\n".join(
        [
            "step 1",
            f"ImportError: libcudnn.so.9: {_NO_FILE}",
            "[rank1] ncclInternalError: x",
            f"ImportError: libcudnn.so.9: {_NO_FILE}",
            f"ImportError: libnccl.so.2: {_NO_FILE} ",
        ]
    )
    told = [(found.seen, found.line, found.times, found.commands[0]) for found in recognize(log, NAMES)]
    assert told == [
        ("libcudnn.so.9: cannot open shared object file", 2, 2, "envdoctor why libcudnn.so.9"),
        ("ncclInternalError", 3, 1, "envdoctor fleet check --hosts FILE"),
        ("libnccl.so.2: cannot open shared object file", 5, 1, "envdoctor why libnccl.so.2"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all is well",
        "lib.so cannot open",
        "door: cannot open",
        "there is no version of it",
        "No module named",
        "x" * 100_000,
    ],
)
def test_what_is_not_known_is_not_guessed(text: str) -> None:
    assert recognize(text, NAMES) == ()


def test_a_line_without_an_end_is_read_near_the_text_only() -> None:
    far = "a" * 50_000
    (found,) = recognize(f"{far} libcudnn.so.9: cannot open shared object file {far}", NAMES)
    assert found.seen == "libcudnn.so.9: cannot open shared object file"


def test_a_name_from_a_log_brings_no_shell_and_no_control_characters() -> None:
    (found,) = recognize("No such file or directory: ':/a\x1b]0;b\x07/bin/nvcc'", NAMES)
    assert found.seen.isprintable()
    (found,) = recognize("$(rm -r x)-e.so: cannot open shared object file", NAMES)
    assert found.commands[0] == "envdoctor why e.so"


def test_remembered_words_find_every_text_that_has_them() -> None:
    def texts(found: tuple[FoundSymptom, ...]) -> list[str]:
        return [one.text[:30] for one in found]

    assert texts(containing("version  Mismatch", NAMES)) == [
        "TransformerEngine package vers",
        "Failed to initialize NVML: Dri",
    ]
    assert containing("all is well", NAMES) == ()


def test_the_remedy_for_damaged_bytecode_heals_and_follows_no_link(tmp_path: Path) -> None:
    """Python's own words are known, and what is printed works as it is typed."""
    package, outside = tmp_path / "VENV/lib/thing", tmp_path / "outside/__pycache__"
    for folder in (package, outside):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text("value = [1, 2, 3]\n")
    (package / "sub").symlink_to(outside.parent)
    kept = outside / "kept.pyc"
    kept.write_text("")
    py_compile.compile(str(package / "__init__.py"))
    (compiled,) = (package / "__pycache__").iterdir()
    compiled.write_bytes(compiled.read_bytes()[:-40])
    command = [sys.executable, "-c", "import thing; print(thing.value)"]
    path = {"PYTHONPATH": str(package.parent)}
    broken = subprocess.run(command, env=path, capture_output=True, text=True, check=False)
    (found,) = recognize(broken.stderr, {})
    assert found.text == "EOFError: marshal data too short"
    remedy = found.causes[1][2].split("`")[-2]
    subprocess.run(["sh", "-c", remedy], cwd=tmp_path, check=True)
    healed = subprocess.run(command, env=path, capture_output=True, text=True, check=False)
    assert (healed.stdout, kept.exists()) == ("[1, 2, 3]\n", True)
