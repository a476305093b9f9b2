"""Extension modules, GPU code and compiled objects: what their files say, without loading them."""

import importlib.machinery
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.probes.caches.compiled_objects import CompiledObjects
from envdoctor.probes.loading.extension_modules import ExtensionModules
from envdoctor.probes.loading.gpu_code import GpuCode
from envdoctor.probes.machine.library_path import LibraryPath, Preload
from envdoctor.probes.venv.companions import CompanionBuild, Companions, Window
from envdoctor.probes.venv.startup_hooks import Hook, StartupHooks
from tests.factories.make_elf import make_shared, make_stub
from tests.factories.make_fatbin import PTX, SM, make_fat
from tests.factories.make_reading import bare_host, read
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel

MINOR = f"{sys.version_info[0]}{sys.version_info[1]}"


def _with(root: Path, *files: str) -> Venv:
    wheel = make_wheel(root / "wheels", "thing", "1", files=dict.fromkeys(files, b"x"))
    return make_venv(root / "venv", wheel)


def test_every_suffix_this_interpreter_imports_fits(tmp_path: Path) -> None:
    venv = _with(
        tmp_path, *(f"thing/one{at}{suffix}" for at, suffix in enumerate(importlib.machinery.EXTENSION_SUFFIXES))
    )
    assert read(venv.prefix).fact(ExtensionModules).foreign == ()


@pytest.mark.parametrize(
    ("files", "foreign"),
    [
        (["thing/_C.cpython-310-x86_64-linux-gnu.so"], 1),
        (["thing/_C.cpython-310-x86_64-linux-gnu.so", f"thing/_C.cpython-{MINOR}-x86_64-linux-gnu.so"], 0),
        (["thing/_C.cpython-310-x86_64-linux-gnu.so", "thing/_C.abi3.so"], 0),
        (["thing/_C.cpython-310-x86_64-linux-gnu.so", "thing/_C.py"], 0),
        (["thing/_C.cpython-310-x86_64-linux-gnu.so", "thing/_D.py"], 1),
        ([f"thing/_C.cpython-{MINOR}t-x86_64-linux-gnu.so"], 1),
        ([f"thing/_C.cpython-{MINOR}-aarch64-linux-gnu.so"], 1),
        ([f"thing/_C.cpython-{MINOR}-x86_64-linux-musl.so"], 1),
        (["thing/_C.cp310-win_amd64.pyd"], 1),
        (["thing/_C.pypy310-pp73-x86_64-linux-gnu.so"], 1),
        (["thing/lib/libthing-1.2.so", "thing/plain.so"], 0),
    ],
)
def test_a_foreign_tag_counts_unless_a_sibling_fits(tmp_path: Path, files: list[str], foreign: int) -> None:
    found = read(_with(tmp_path, *files).prefix).fact(ExtensionModules)
    assert [item.path for item in found.foreign] == files[:1] * foreign
    assert {item.owner for item in found.foreign} <= {"thing"}


def _torch_with(root: Path, source: str, *, cuda: str | None = "12.8") -> Venv:
    library = make_shared(root / "libtorch_python.so", source=source)
    files = {"torch/lib/libtorch_python.so": library.read_bytes()}
    return make_venv(root / "venv", make_torch(root / "wheels", "2.10.0", cuda, files=files))


LIST = "sm_75 sm_80 sm_90 compute_120"


def test_the_architectures_are_the_builds_own_list(tmp_path: Path) -> None:
    noise = 'const char *noise[] = {"sm_", "no kernel for sm_90 here", "sm_86", "compute capability"};\n'
    venv = _torch_with(tmp_path, noise + f'const char *flags(void) {{ return "{LIST}"; }}')
    found = read(venv.prefix).fact(GpuCode)
    assert found == GpuCode(
        architectures=tuple(LIST.split()), told_from=f"{venv.site_packages}/torch/lib/libtorch_python.so"
    )


def test_a_list_of_one(tmp_path: Path) -> None:
    venv = _torch_with(tmp_path, 'const char *flags(void) { return "sm_90a"; }')
    assert read(venv.prefix).fact(GpuCode).architectures == ("sm_90a",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no such file"),
        (b"", "cannot mmap an empty file"),
        (b"not an ELF file at all" * 10, "no 64-bit little-endian ELF file"),
        (b"\x7fELF", "unpack_from requires a buffer of at least 64 bytes"),
    ],
)
def test_what_could_not_be_told_is_said(tmp_path: Path, content: bytes | None, reason: str) -> None:
    files = {} if content is None else {"torch/lib/libtorch_python.so": content}
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8", files=files))
    found = read(venv.prefix).fact(GpuCode)
    assert found.architectures == ()
    library = f"{venv.site_packages}/torch/lib/libtorch_python.so"
    kernels = f"{venv.site_packages}/torch/lib/libtorch_cuda.so"
    assert found.told_from.startswith(f"{library}: {reason}")
    assert found.told_from.endswith(f"; {kernels}: cannot open shared object file: No such file or directory")


def test_a_library_that_names_none_and_a_cpu_build(tmp_path: Path) -> None:
    venv = _torch_with(tmp_path, "int nothing;")
    library = f"{venv.site_packages}/torch/lib/libtorch_python.so"
    assert read(venv.prefix).fact(GpuCode).told_from.startswith(f"{library} names no architectures; ")
    cpu = _torch_with(tmp_path / "cpu", f'const char *flags(void) {{ return "{LIST}"; }}', cuda=None)
    assert read(cpu.prefix).fact(GpuCode) == GpuCode(architectures=(), told_from="")


def test_where_the_list_is_gone_the_kernels_tell(tmp_path: Path) -> None:
    kernels = make_fat(tmp_path / "libtorch_cuda.so", [[(SM, 90), (PTX, 120)]])
    files = {"torch/lib/libtorch_cuda.so": kernels.read_bytes(), "torch/lib/libtorch_python.so": b""}
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8", files=files))
    found = read(venv.prefix).fact(GpuCode)
    lib = f"{venv.site_packages}/torch/lib"
    assert found.architectures == ("sm_90", "compute_120")
    assert found.told_from == f"{lib}/libtorch_cuda.so ({lib}/libtorch_python.so: cannot mmap an empty file)"


def test_kernels_that_hold_no_code(tmp_path: Path) -> None:
    files = {"torch/lib/libtorch_cuda.so": make_shared(tmp_path / "libtorch_cuda.so").read_bytes()}
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8", files=files))
    lib = f"{venv.site_packages}/torch/lib"
    assert read(venv.prefix).fact(GpuCode) == GpuCode(
        architectures=(),
        told_from=f"{lib}/libtorch_python.so: no such file; {lib}/libtorch_cuda.so holds no GPU code",
    )


def _extension(folder: Path, *needed: str, ninja: str = "") -> Path:
    stubs = [make_stub(folder.parents[2] / "stubs", name) for name in needed]
    path = make_shared(folder / f"{folder.name}.so", needed=stubs)
    if ninja:
        (folder / "build.ninja").write_text(ninja)
    return path


def test_only_the_folder_that_this_torch_would_use_is_read(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8"))
    host = bare_host(tmp_path / "home")
    root = host.home / ".cache/torch_extensions"
    used = _extension(root / f"py{MINOR}_cu128/fused", "libc10.so", "libcudart.so.13")
    _extension(root / f"py{MINOR}_cu126/fused", "libcudart.so.13")
    _extension(root / "py310_cu128/fused", "libcudart.so.13")
    (found,) = read(venv.prefix, host).fact(CompiledObjects).objects
    assert (found.path, found.cuda_major, found.needed) == (
        str(used),
        "13",
        ("libc10.so", "libcudart.so.13", "libc.so.6"),
    )
    elsewhere = bare_host(tmp_path / "home", TORCH_EXTENSIONS_DIR=str(root))
    assert len(read(venv.prefix, elsewhere).fact(CompiledObjects).objects) == 3


def test_flashinfers_folder_of_the_installed_version(tmp_path: Path) -> None:
    venv = make_venv(
        tmp_path / "venv",
        make_torch(tmp_path / "wheels", "2.10.0", "12.8"),
        make_wheel(tmp_path / "wheels", "flashinfer-python", "0.6.13"),
    )
    host = bare_host(tmp_path / "home")
    root = host.home / ".cache/flashinfer"
    used = _extension(root / "0.6.13/90a/cached_ops/norm", "libcudart.so.12")
    _extension(root / "0.6.8/90a/cached_ops/norm", "libcudart.so.13")
    (found,) = read(venv.prefix, host).fact(CompiledObjects).objects
    assert (found.kind, found.path, found.cuda_major) == ("flashinfer", str(used), "12")


def test_whose_headers_an_extension_was_built_with(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8"))
    host = bare_host(tmp_path / "home")
    root = host.home / f".cache/torch_extensions/py{MINOR}_cu128"
    ninja = "cflags = -DX -isystem {0}/include -isystem {0}/include/torch/csrc/api/include -std=c++17\n"
    _extension(root / "mine", ninja=ninja.format(venv.site_packages / "torch"))
    _extension(root / "theirs", ninja=ninja.format("/old/lib/python3.12/site-packages/torch"))
    (root / "theirs/theirs_cuda.cu").write_text("// the user's own")
    _extension(root / "unsaid")
    told = {
        Path(item.path).stem: (item.built_for, item.for_this_torch, item.alone)
        for item in read(venv.prefix, host).fact(CompiledObjects).objects
    }
    assert told == {
        "mine": (str(venv.site_packages / "torch"), True, True),
        "theirs": ("/old/lib/python3.12/site-packages/torch", False, False),
        "unsaid": ("", True, False),
    }


def test_what_is_no_object_is_said_and_not_followed(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8"))
    host = bare_host(tmp_path / "home")
    root = host.home / f".cache/torch_extensions/py{MINOR}_cu128"
    root.mkdir(parents=True)
    (root / "broken").mkdir()
    (root / "broken/broken_v1.so").write_bytes(b"\x7fELF and nothing more")
    (root / "loop").symlink_to(root)
    (root / "fifo").mkdir()
    subprocess.run(["mkfifo", root / "fifo/fifo.so"], check=True)
    found = read(venv.prefix, host).fact(CompiledObjects)
    assert found.objects == ()
    assert [line.partition(":")[0] for line in found.unreadable] == [str(root / "broken/broken_v1.so")]


def test_what_nobody_compiled_into_the_cache_is_left_alone(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8"))
    folder = tmp_path / "ext"
    made = _extension(folder / "fused_adam", "libcudart.so.13")
    # The user's own: in the folder itself, and in a project's.
    (folder / "src").mkdir()
    for other in (folder / "fused_adam.so", folder / "src/fused_adam.so"):
        other.write_bytes(made.read_bytes())
    host = bare_host(tmp_path / "home", TORCH_EXTENSIONS_DIR=str(folder))
    assert [item.path for item in read(venv.prefix, host).fact(CompiledObjects).objects] == [str(made)]


def test_more_objects_than_are_looked_at_are_said(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", "12.8"))
    host = bare_host(tmp_path / "home")
    root = host.home / f".cache/torch_extensions/py{MINOR}_cu128"
    made = _extension(root / "a000", "libc10.so")
    for number in range(1, 257):
        (root / f"a{number:03}").mkdir()
        (root / f"a{number:03}/a{number:03}.so").hardlink_to(made)
    found = read(venv.prefix, host).fact(CompiledObjects)
    assert (len(found.objects), found.read_all) == (256, False)
    (root / "a256/a256.so").unlink()
    assert read(venv.prefix, host).fact(CompiledObjects).read_all


def test_the_windows_are_read_from_the_table(tmp_path: Path) -> None:
    table = '# generated\ndeps = {\n    "accelerate": "accelerate>=1.1.0",\n    "Pillow": "Pillow>=10.0.1,<=15.0",\n}\n'
    venv = make_venv(
        tmp_path / "venv",
        make_wheel(
            tmp_path / "wheels", "transformers", "5.6.0", files={"transformers/dependency_versions_table.py": table}
        ),
        make_wheel(
            tmp_path / "wheels",
            "torchvision",
            "0.26.0",
            files={"torchvision/version.py": "__version__ = '0.26.0+cu130'\ncuda = None\n"},
        ),
    )
    found = read(venv.prefix).fact(Companions)
    assert found == Companions(
        windows=(
            Window(name="accelerate", requirement="accelerate>=1.1.0"),
            Window(name="Pillow", requirement="Pillow>=10.0.1,<=15.0"),
        ),
        windows_from=f"{venv.site_packages}/transformers/dependency_versions_table.py",
        builds=(
            CompanionBuild(
                name="torchvision", version="0.26.0+cu130", path=f"{venv.site_packages}/torchvision/version.py"
            ),
        ),
    )


def test_start_up_hooks_are_listed_with_their_owner(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path / "wheels",
        "owned",
        "1",
        files={"owned.pth": "import owned\n# a comment\n/some/path\n", "owned.py": ""},
    )
    venv = make_venv(tmp_path / "venv", wheel)
    site = venv.site_packages
    (site / "paths.pth").write_text("/another/path\n")
    (site / "tab.pth").write_text("import\tos\nimportant\n")
    (site / "sitecustomize.py").write_text("raise SystemExit('must never run')\n")
    leak = tmp_path / "leak"
    # The first of two runs, and usercustomize only where the user site is on.
    (leak / "sitecustomize").mkdir(parents=True)
    (leak / "sitecustomize/__init__.py").touch()
    (leak / "usercustomize.py").touch()
    (leak / "ignored.pth").write_text("import os\n")  # site.py reads .pth files of site folders alone
    own = ("_virtualenv.pth",)
    found = read(venv.prefix, bare_host(tmp_path / "home", PYTHONPATH=str(leak))).fact(StartupHooks)
    assert tuple(hook for hook in found.hooks if not hook.path.endswith(own)) == (
        Hook(path=f"{site}/owned.pth", lines=("import owned",), owner="owned", origin="site-packages"),
        Hook(path=f"{site}/tab.pth", lines=("import\tos",), owner="", origin="site-packages"),
        Hook(path=f"{leak}/sitecustomize/__init__.py", lines=(), owner="", origin="PYTHONPATH"),
    )


def _nccl(root: Path) -> Venv:
    files = {"nvidia/nccl/lib/libnccl.so.2": b"nccl", "nvidia/cuda_cupti/lib/libcheckpoint.so": b"x"}
    return make_venv(root / "venv", make_wheel(root / "wheels", "nvidia-nccl-cu12", "1", files=files))


def test_elements_of_the_library_path(tmp_path: Path) -> None:
    venv = _nccl(tmp_path)
    system, cwd = tmp_path / "system", tmp_path / "home"
    system.mkdir()
    for name in ("libnccl.so.2", "libcheckpoint.so", "libother.so.1"):
        (system / name).write_bytes(b"another")
    own = venv.site_packages / "nvidia/nccl/lib"
    host = bare_host(cwd, LD_LIBRARY_PATH=f"{system};{own}:/gone:")
    (cwd / "libstray.so.1").touch()
    found = read(venv.prefix, host).fact(LibraryPath)
    assert [(item.element, item.present, item.shadows) for item in found.folders] == [
        (str(system), True, ("libnccl.so.2",)),
        (str(own), True, ()),
        ("/gone", False, ()),
        ("", True, ()),
    ]
    assert found.current_folder_libraries == ("libstray.so.1",)
    unset = read(venv.prefix, bare_host(cwd)).fact(LibraryPath)
    assert (unset.folders, unset.current_folder_libraries) == ((), ())
    empty = read(venv.prefix, bare_host(cwd, LD_LIBRARY_PATH="")).fact(LibraryPath)
    assert empty.folders == ()


def test_a_link_to_the_environments_own_file_shadows_nothing(tmp_path: Path) -> None:
    venv = _nccl(tmp_path)
    links = tmp_path / "links"
    links.mkdir()
    (links / "libnccl.so.2").symlink_to(venv.site_packages / "nvidia/nccl/lib/libnccl.so.2")
    host = bare_host(tmp_path / "home", LD_LIBRARY_PATH=str(links))
    assert read(venv.prefix, host).fact(LibraryPath).folders[0].shadows == ()


def test_preloads(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    there, empty, text = (tmp_path / name for name in ("libthere.so", "libempty.so", "libtext.so"))
    there.write_bytes(b"\x7fELF...")
    empty.touch()
    text.write_text("INPUT(libx.so)")
    host = bare_host(tmp_path / "home", LD_PRELOAD=f"{there}:/gone/x.so libbare.so $LIB/y.so {empty} {text} {tmp_path}")
    assert read(venv.prefix, host).fact(LibraryPath).preloads == (
        Preload(element=str(there), problem=""),
        Preload(element="/gone/x.so", problem="does not exist"),
        Preload(element="libbare.so", problem=""),
        Preload(element="$LIB/y.so", problem=""),
        Preload(element=str(empty), problem="is empty"),
        Preload(element=str(text), problem="is not a shared library"),
        Preload(element=str(tmp_path), problem="cannot be read: not a regular file"),
    )


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"version.json": json.dumps({"cuda": {"name": "CUDA SDK", "version": "13.0.2"}})}, "13.0"),
        ({"include/cuda.h": "#ifndef X\n#define CUDA_VERSION 12010\n"}, "12.1"),
        ({"version.json": "{}", "include/cuda.h": "#define CUDA_VERSION 12080\n"}, "12.8"),
        ({"version.json": "not json"}, ""),
        ({}, ""),
    ],
)
def test_the_toolkits_version(tmp_path: Path, files: dict[str, str], version: str) -> None:
    venv = make_venv(tmp_path / "venv")
    home = tmp_path / "cuda"
    (home / "include").mkdir(parents=True)
    for name, content in files.items():
        (home / name).write_text(content)
    host = bare_host(tmp_path / "home", CUDA_PATH=str(home))
    found = read(venv.prefix, host).fact(LibraryPath)
    assert (found.cuda_home, found.cuda_home_from, found.cuda_home_version) == (str(home), "CUDA_PATH", version)
    both = replace(host, environ={**host.environ, "CUDA_HOME": "/gone"})
    assert read(venv.prefix, both).fact(LibraryPath).cuda_home_from == "CUDA_HOME"
