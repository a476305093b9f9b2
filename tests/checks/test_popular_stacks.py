"""What real stacks of the index showed, rebuilt from small wheels: each verdict beside what the interpreter does."""

import sysconfig
from pathlib import Path

import pytest

from envdoctor.facts.host import Host
from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_library, make_linked_torch, object_bytes, real_error
from tests.factories.make_venv import Venv, install, make_venv, run_uv
from tests.factories.make_wheel import make_wheel

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
MISSING = "cannot open shared object file: No such file or directory"
NVML = "nvidia-curand==10.4.2.66.*; extra == 'curand'"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return host_without_cache(tmp_path / "home")


def _module(name: str, **stubs: tuple[str, ...]) -> bytes:
    """Return an extension module that needs those sonames, their dots written as two underscores."""
    needs = {soname.replace("__", "."): symbols for soname, symbols in stubs.items()}
    return object_bytes(f"{name}.so", stubs=needs, source=f"void *PyInit_{name}(void) {{ return 0; }}")


def _cdll(venv: Venv, path: str) -> str:
    return f"import torch, ctypes; ctypes.CDLL('{venv.site_packages}/{path}')"


def _cuda13(wheels: Path, *, requires: tuple[str, ...] = ()) -> Path:
    return make_linked_torch(wheels, "2.15.0+cu132", "13.2", needs={}, requires=requires)


def test_kernels_that_a_runtime_opens_are_no_modules(tmp_path: Path, host: Host) -> None:
    """tokenspeed-mla 0.1.8: CuTe's runtime opens what its kernels need, before them."""
    wheels = tmp_path / "wheels"
    kernel = object_bytes("cute_dsl_fmha_x86_64.so", stubs={"libcute_dsl_runtime.so": ("run",)})
    venv = make_venv(
        tmp_path / "venv",
        _cuda13(wheels),
        make_library(wheels, "nvidia-cutlass-dsl", "4.8.1", "cutlass/lib/libcute_dsl_runtime.so", exports=["run"]),
        make_wheel(
            wheels,
            "tokenspeed-mla",
            "0.1.8",
            files={"tokenspeed_mla/__init__.py": "", "tokenspeed_mla/objs/cute_dsl_fmha_x86_64.so": kernel},
        ),
    )
    path = "tokenspeed_mla/objs/cute_dsl_fmha_x86_64.so"
    runtime = f"ctypes.CDLL('{venv.site_packages}/cutlass/lib/libcute_dsl_runtime.so')"
    assert real_error(venv, _cdll(venv, path), host) == f"OSError: libcute_dsl_runtime.so: {MISSING}"
    assert real_error(venv, _cdll(venv, path).replace("ctypes.", f"{runtime}; ctypes.", 1), host) == ""
    assert verdict_of(venv.prefix, host).findings == ()


def test_the_tag_inside_of_a_renamed_wheel_accuses_nothing(tmp_path: Path, host: Host) -> None:
    """Decord 0.6.0 is tagged cp36 inside and py3 outside; torchao opens a file with another Python's tag itself."""
    wheels, old = tmp_path / "wheels", "_C_mxfp8.cpython-310-x86_64-linux-gnu.so"
    built = make_wheel(
        wheels,
        "decord",
        "0.6.0",
        files={"decord/__init__.py": "", "decord/libdecord.so": object_bytes("libdecord.so")},
        tag="cp36-cp36m-manylinux2010_x86_64",
    )
    decord = built.rename(built.with_name("decord-0.6.0-py3-none-manylinux2010_x86_64.whl"))
    torchao = make_wheel(
        wheels,
        "torchao",
        "0.18.0",
        files={"torchao/__init__.py": "", f"torchao/{old}": object_bytes(old)},
        tag="cp310-abi3-manylinux_2_28_x86_64",
    )
    venv = make_venv(tmp_path / "venv", _cuda13(wheels), decord, torchao)
    assert real_error(venv, _cdll(venv, f"torchao/{old}"), host) == ""
    assert real_error(venv, _cdll(venv, "decord/libdecord.so") + "; import decord", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()


def test_a_module_whose_name_says_nothing_leaves_the_tag_as_a_warning(tmp_path: Path, host: Host) -> None:
    wheels = tmp_path / "wheels"
    files = {"thing/__init__.py": "", "thing/_C.so": _module("_C")}
    built = make_wheel(wheels, "thing", "1.0", files=files, tag="cp36-cp36m-manylinux2010_x86_64")
    venv = make_venv(tmp_path / "venv", built.rename(built.with_name("thing-1.0-py3-none-manylinux2010_x86_64.whl")))
    (line,) = outline(verdict_of(venv.prefix, host), tmp_path)
    assert line.startswith("warning ED104 thing 1.0 was built for cp36-cp36m-manylinux2010_x86_64, and this is CPython")


def test_cupy_for_cuda_12_without_cuda_12(tmp_path: Path, host: Host) -> None:
    """A name with a CUDA major excuses only where that major's libraries are there."""
    wheels = tmp_path / "wheels"
    environment = "def _preload_library(lib):\n    pass\n"
    modules = {
        f"cupy_backends/libs/cublas{SUFFIX}": _module("cublas", libcublas__so__12=("a",)),
        f"cupy_backends/libs/cusolver{SUFFIX}": _module("cusolver", libcusolver__so__11=("b",)),
        f"cupy_backends/libs/curand{SUFFIX}": _module("curand", libcurand__so__10=("c",)),
    }
    cupy = make_wheel(
        wheels,
        "cupy-cuda12x",
        "14.2.0",
        files={"cupy/__init__.py": "", "cupy/_environment.py": environment, **modules},
    )
    venv = make_venv(tmp_path / "venv", _cuda13(wheels), cupy)
    assert real_error(venv, "import torch, cupy", host) == ""
    for name, soname in (
        ("cublas", "libcublas.so.12"),
        ("cusolver", "libcusolver.so.11"),
        ("curand", "libcurand.so.10"),
    ):
        path = f"cupy_backends/libs/{name}{SUFFIX}"
        assert real_error(venv, _cdll(venv, path), host) == f"OSError: {soname}: {MISSING}"
    verdict = verdict_of(venv.prefix, host)
    curand = f"cupy_backends/libs/curand{SUFFIX} of cupy-cuda12x 14.2.0 cannot be loaded: libcurand.so.10: {MISSING}"
    assert outline(verdict, tmp_path) == [
        "warning ED306 cupy-cuda12x 14.2.0 was built for CUDA 12; torch 2.15.0+cu132 is a CUDA 13.2 build",
        f"  warning ED307 {curand}",
    ]
    text = verdict.findings[0].remediation.text
    assert text.startswith("install cupy-cuda13x instead of cupy-cuda12x, if the project publishes it, or a CUDA 12")

    # With CUDA 12's libraries there, cupy's own code opens them before its modules.
    for name, path in (
        ("nvidia-cublas-cu12", "nvidia/cublas/lib/libcublas.so.12"),
        ("nvidia-cusolver-cu12", "nvidia/cusolver/lib/libcusolver.so.11"),
        ("nvidia-curand-cu12", "nvidia/curand/lib/libcurand.so.10"),
    ):
        install(venv, make_library(wheels, name, "12.9", path, exports=["a", "b", "c"]))
    assert verdict_of(venv.prefix, host).findings == ()


def test_what_torch_no_longer_brings_is_installed_as_its_toolkit_asks(tmp_path: Path, host: Host) -> None:
    """The CUDA provider of onnxruntime-gpu needs cuRAND, and without it sessions fall back to the CPU."""
    wheels, path = tmp_path / "wheels", "onnxruntime/capi/libonnxruntime_providers_cuda.so"
    provider = object_bytes("libonnxruntime_providers_cuda.so", stubs={"libcurand.so.10": ("curandCreate",)})
    preload = "def preload_dlls():\n    import ctypes\n    return 'libcurand.so.10'\n"
    make_library(wheels, "nvidia-curand", "10.4.2.66.1", "nvidia/cu13/lib/libcurand.so.10", exports=["curandCreate"])
    make_wheel(wheels, "nvidia-curand", "11.0", files={"nvidia/cu13/lib/libcurand.so.11": object_bytes("x.so")})
    venv = make_venv(
        tmp_path / "venv",
        _cuda13(wheels, requires=("cuda-toolkit==13.2.1",)),
        make_wheel(wheels, "cuda-toolkit", "13.2.1", requires=[NVML]),
        make_wheel(wheels, "onnxruntime-gpu", "1.31.1", files={"onnxruntime/__init__.py": preload, path: provider}),
    )
    assert real_error(venv, _cdll(venv, path), host) == f"OSError: libcurand.so.10: {MISSING}"
    # Without the Python files that would open them, which libraries are in reach is not known.
    (venv.site_packages / "onnxruntime/__init__.py").unlink()
    lost = verdict_of(venv.prefix, host)
    assert outline(lost, tmp_path) == [
        "error ED201 files of 1 distribution are missing, each at a path that another wheel writes too"
    ]
    mend(lost.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        f"warning ED307 {path} of onnxruntime-gpu 1.31.1 cannot be loaded: libcurand.so.10: {MISSING}"
    ]
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps 'nvidia-curand==10.4.2.66.*'"
    ]
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    library = f"{venv.site_packages}/nvidia/cu13/lib/libcurand.so.10"
    assert real_error(venv, _cdll(venv, path).replace("ctypes.", f"ctypes.CDLL('{library}'); ctypes.", 1), host) == ""
    assert verdict_of(venv.prefix, host).findings == ()


RUNTIME_11 = "nvidia/cuda_runtime/lib/libcudart.so.11.0"
NOT_ENOUGH = "is not enough: no search path leads there"


@pytest.mark.parametrize(
    ("cuda", "needs", "text"),
    [
        (
            "",
            ("libcudart.so.11.0",),
            "Install torch for CUDA 11 and import it before old-kernels. Installing nvidia-cuda-runtime-cu11 "
            f"{NOT_ENOUGH}",
        ),
        (
            "13.2",
            ("libcurand.so.10", "libcudart.so.11.0"),
            "Install a build of old-kernels for CUDA 13. Installing nvidia-curand and nvidia-cuda-runtime-cu11 "
            f"{NOT_ENOUGH}",
        ),
    ],
    ids=["no torch", "a part of it beside torch for CUDA 13"],
)
def test_no_command_installs_what_no_search_path_finds(
    tmp_path: Path, host: Host, cuda: str, needs: tuple[str, ...], text: str
) -> None:
    wheels, path = tmp_path / "wheels", f"old_kernels/_C{SUFFIX}"
    module = object_bytes("_C.so", stubs=dict.fromkeys(needs, ()), source="void *PyInit__C(void) { return 0; }")
    files = {"old_kernels/__init__.py": "", path: module}
    kernels = make_wheel(wheels, "old-kernels", "1.0", files=files)
    venv = make_venv(tmp_path / "venv", *([_cuda13(wheels)] if cuda else []), kernels)
    load = _cdll(venv, path) if cuda else _cdll(venv, path).replace("torch, ", "")
    assert real_error(venv, load, host) == f"OSError: {needs[0]}: {MISSING}"
    # Beside torch for CUDA 13 it hangs under ED306, that the build is for CUDA 11.
    finding = verdict_of(venv.prefix, host).findings[-1]
    assert (finding.code, finding.remediation.text, finding.remediation.commands) == ("ED307", text, ())
    # A command that installs them would not help.
    install(venv, make_library(wheels, "nvidia-cuda-runtime-cu11", "11.8.89", RUNTIME_11))
    install(venv, make_library(wheels, "nvidia-curand", "10.4.2.66", "nvidia/cu13/lib/libcurand.so.10"))
    # As torch 2.9 and newer do with those of their own major.
    opened = f"ctypes.CDLL('{venv.site_packages}/nvidia/cu13/lib/libcurand.so.10'); " if cuda else ""
    load = load.replace("ctypes.", f"{opened}ctypes.", 1)
    assert real_error(venv, load, host) == f"OSError: libcudart.so.11.0: {MISSING}"


def test_what_a_search_path_finds_is_installed_without_torch(tmp_path: Path, host: Host) -> None:
    wheels, path = tmp_path / "wheels", f"kernels/_C{SUFFIX}"
    module = object_bytes(
        "_C.so",
        stubs={"libcudart.so.12": ("cudaMalloc",), "libnccl.so.2": ("ncclSend",)},
        source="void *PyInit__C(void) { return 0; }",
        runpath="$ORIGIN/../nvidia/cuda_runtime/lib:$ORIGIN/../nvidia/nccl/lib",
    )
    kernels = make_wheel(wheels, "kernels", "1.0", files={"kernels/__init__.py": "", path: module})
    venv = make_venv(tmp_path / "venv", kernels)
    for name, library, symbol in (
        ("nvidia-cuda-runtime-cu12", "nvidia/cuda_runtime/lib/libcudart.so.12", "cudaMalloc"),
        ("nvidia-nccl-cu12", "nvidia/nccl/lib/libnccl.so.2", "ncclSend"),
    ):
        make_library(wheels, name, "12.9", library, exports=[symbol], requires=["nvidia-part-cu12"])
    make_library(wheels, "nvidia-part-cu12", "12.9", "nvidia/part/lib/libpart.so.12")
    load = _cdll(venv, path).replace("torch, ", "")
    assert real_error(venv, load, host) == f"OSError: libcudart.so.12: {MISSING}"
    (finding,) = verdict_of(venv.prefix, host).findings
    # NCCL has one soname in every major: the runtime that is missing too says which.
    assert commands_of(finding, tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python nvidia-cuda-runtime-cu12 nvidia-nccl-cu12"
    ]
    mend(finding, wheels=wheels, cache=tmp_path / ".uv-cache")
    assert real_error(venv, load, host) == ""
    assert verdict_of(venv.prefix, host).findings == ()


def test_a_library_of_every_major_is_not_guessed(tmp_path: Path, host: Host) -> None:
    wheels, path = tmp_path / "wheels", f"kernels/_C{SUFFIX}"
    files = {"kernels/__init__.py": "", path: _module("_C", libnccl__so__2=("ncclSend",))}
    venv = make_venv(tmp_path / "venv", make_wheel(wheels, "kernels", "1.0", files=files))
    (finding,) = verdict_of(venv.prefix, host).findings
    assert finding.remediation.commands == ()
    assert finding.remediation.text == (
        "Install nvidia-nccl-cu11 or nvidia-nccl-cu12 or nvidia-nccl-cu13, the one for the CUDA version that kernels "
        "was built for"
    )


TE = """
import ctypes, glob, os
def _load_cuda_library(name):
    for folder in ("cu13/lib", f"{name}/lib"):
        found = glob.glob(os.path.join(os.path.dirname(__file__), "../../nvidia", folder, f"lib{name}*.so.*[0-9]"))
        if found:
            return False, [ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) for path in found]
    raise RuntimeError(f"{name} shared object not found.")
_, _CUDNN = _load_cuda_library("cudnn")
system_curand, _CURAND = _load_cuda_library("curand")
_TE = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "../wheel_lib/libtransformer_engine.so"))
"""


def test_transformer_engine_opens_cudnn_itself_and_raises_for_curand(tmp_path: Path, host: Host) -> None:
    wheels = tmp_path / "wheels"
    cudnn = {
        f"nvidia/cudnn/lib/{name}": object_bytes(name, exports=[name.partition(".")[0]])
        for name in ("libcudnn.so.9", "libcudnn_graph.so.9")
    }
    core = object_bytes("libtransformer_engine.so", stubs={"libcudnn_graph.so.9": ("libcudnn_graph",)})
    engine = {
        "transformer_engine/__init__.py": "from . import common\n",
        "transformer_engine/common/__init__.py": TE,
        "transformer_engine/wheel_lib/libtransformer_engine.so": core,
    }
    make_library(wheels, "nvidia-curand", "10.4.2.66", "nvidia/cu13/lib/libcurand.so.10")
    venv = make_venv(
        tmp_path / "venv",
        _cuda13(wheels),
        make_wheel(wheels, "nvidia-cudnn-cu13", "9.26", files=cudnn),
        make_wheel(wheels, "transformer-engine-cu13", "2.20.2", files=engine),
    )
    said = "RuntimeError: curand shared object not found."
    assert real_error(venv, "import torch, transformer_engine", host) == said
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        f"error ED307 transformer_engine/common/__init__.py of transformer-engine-cu13 2.20.2 cannot be loaded: {said}"
    ]
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert real_error(venv, "import torch, transformer_engine", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()


CATCHES = """
import os, torch
class Invalid(Exception):
    pass
def _register():
    import importlib.machinery as machinery
    loader = (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES)
    found = machinery.FileFinder(os.path.dirname(__file__), loader).find_spec("_C")
    try:
        import ctypes
        ctypes.CDLL(found.origin)
    except OSError as error:
        raise Invalid() from error
try:
    _register()
except Invalid as error:
    print("WARNING[XFORMERS]")
"""


@pytest.mark.parametrize(
    ("text", "severity"),
    [(CATCHES, "warning"), ("from . import _C\n", "error"), ("", "error")],
    ids=["caught", "at the top", "opened by nobody"],
)
def test_a_build_of_another_cuda_is_an_error_unless_its_package_catches_it(
    tmp_path: Path, host: Host, text: str, severity: str
) -> None:
    """As xformers 0.0.35 beside torch 2.15: it warns and goes on with torch's own attention."""
    wheels = tmp_path / "wheels"
    made = _module("_C", libcudart__so__12=(), libc10__so=())
    files = {"xformers/__init__.py": "from . import _cpp_lib\n", "xformers/_cpp_lib.py": text, "xformers/_C.so": made}
    venv = make_venv(tmp_path / "venv", _cuda13(wheels), make_wheel(wheels, "xformers", "0.0.35", files=files))
    raises = f"ImportError: libcudart.so.12: {MISSING}" if text.startswith("from") else ""
    assert real_error(venv, "import torch, xformers", host) == raises
    assert outline(verdict_of(venv.prefix, host), tmp_path) == [
        f"{severity} ED306 xformers 0.0.35 was built for CUDA 12; torch 2.15.0+cu132 is a CUDA 13.2 build"
    ]


EXTENDS = '# Copyright\n"""NVIDIA"""\n__path__ = __import__("pkgutil").extend_path(__path__, __name__)\n'


def test_a_namespace_that_many_share_is_no_contest(tmp_path: Path) -> None:
    """nvidia/__init__.py is empty in 15 wheels, and a licence with extend_path in nvidia-nvimgcodec-cu13."""
    for number, order in enumerate(((EXTENDS, ""), ("", EXTENDS))):
        venv = make_venv(tmp_path / f"venv-{number}")
        for at, text in enumerate(order):
            name = f"nvidia-part{at}"
            files = {"nvidia/__init__.py": text, f"nvidia/part{at}/__init__.py": ""}
            folder = tmp_path / f"wheels-{number}"
            run_uv(
                *("pip", "install", "--quiet", "--no-deps", "--python", venv.python),
                make_wheel(folder, name, "1.0", files=files),
                cache=tmp_path / ".uv-cache",
            )
        assert real_error(venv, "import nvidia.part0, nvidia.part1", host_without_cache(tmp_path / "home")) == ""
        assert verdict_of(venv.prefix).findings == ()


def test_what_others_require_is_never_told_to_be_uninstalled(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    one = make_wheel(wheels, "one", "1", files={"shared/__init__.py": "a = 1\n"})
    two = make_wheel(wheels, "two", "1", files={"shared/__init__.py": "b = 22\n"})
    venv = make_venv(tmp_path / "venv", one, make_wheel(wheels, "asks", "1", requires=["one", "two"]))
    install(venv, two)
    (finding,) = verdict_of(venv.prefix).findings
    assert (finding.code, finding.severity) == ("ED409", "warning")
    assert finding.remediation.text == (
        "one is required by asks; two is required by asks: what is required stays. Force-reinstall, last, the one "
        "whose module this environment is to use, and uninstall only what nothing requires"
    )


@pytest.mark.parametrize(
    ("path", "found"),
    [("sphinx/source/conf.py", []), ("tutorials/run.py", []), ("sphinx/conf.py", ["warning ED203"])],
    ids=["botorch and ax-platform", "tutorials", "a package's own file"],
)
def test_the_sources_of_documentation_are_no_reason_to_uninstall(tmp_path: Path, path: str, found: list[str]) -> None:
    """Botorch 0.18.1 and ax-platform 1.3.1 both pack sphinx/source/conf.py, and ax-platform requires botorch."""
    wheels = tmp_path / "wheels"
    botorch = make_wheel(wheels, "botorch", "0.18.1", files={"botorch/__init__.py": "", path: "a = 1\n"})
    ax = make_wheel(
        wheels,
        "ax-platform",
        "1.3.1",
        requires=["botorch"],
        files={"ax/__init__.py": "import botorch\n", path: "b = 22\n"},
    )
    venv = make_venv(tmp_path / "venv", botorch)
    install(venv, ax)
    verdict = verdict_of(venv.prefix)
    assert [f"{item.severity} {item.code}" for item in verdict.findings] == found
    for finding in verdict.findings:
        assert finding.remediation.text == (
            "Could not determine which of ax-platform and botorch the shared files belong to. botorch is required by "
            "ax-platform, and stays. After an uninstall of either, force-reinstall the other: the uninstall deletes "
            "the shared files"
        )
    # Nothing imports the file, and an uninstall of botorch would break ax.
    (venv.site_packages / path).unlink()
    host = host_without_cache(tmp_path / "home")
    assert real_error(venv, "import ax, botorch", host) == ""
    run_uv("pip", "uninstall", "--quiet", "--python", venv.python, "botorch", cache=tmp_path / ".uv-cache")
    assert real_error(venv, "import ax", host) == "ModuleNotFoundError: No module named 'botorch'"


def test_who_requires_an_owner_counts_though_it_is_in_a_conflict_itself(tmp_path: Path, host: Host) -> None:
    """In a stack of vLLM flashinfer-python requires cuda-python, and shares a build_backend.py with another one."""
    wheels = tmp_path / "wheels"
    shared = {"cuda_kit/__init__.py": "", "cuda_kit/driver.py": "a = 1\n"}
    venv = make_venv(
        tmp_path / "venv",
        _cuda13(wheels, requires=("cuda-bindings",)),
        make_wheel(wheels, "cuda-python", "13.5", files={**shared, "cuda_kit/driver.py": "b = 22\n"}),
        make_wheel(
            wheels,
            "flashinfer-python",
            "0.7",
            requires=["cuda-python"],
            files={"build_backend.py": "import cuda_kit\n"},
        ),
    )
    install(venv, make_wheel(wheels, "torch-c-dlpack-ext", "0.1", files={"build_backend.py": "x = 333\n"}))
    install(venv, make_wheel(wheels, "cuda-bindings", "13.5", files=shared))
    conflict = next(item for item in verdict_of(venv.prefix, host).findings if item.code == "ED203")
    assert (conflict.severity, conflict.subject, conflict.remediation.commands) == ("note", "cuda-bindings", ())
