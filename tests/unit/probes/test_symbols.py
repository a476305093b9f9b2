"""Opening every extension module in the model: what it says, and for how long it is remembered."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.catalog.symbol_families import library_stems, wanted_abi
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.probes.loading.demangle import demangle
from envdoctor.probes.loading.symbols import Symbols
from tests.factories.make_cuda import host_without_cache, make_linked_torch, object_bytes, real_error
from tests.factories.make_reading import read
from tests.factories.make_venv import Venv, make_venv, rewrite
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import ROOT

MODULE = "thing/_thing.so"
GONE = "no earlier check of these files is remembered"


def _symbols(venv: Venv, host: Host, *, only_remembered: bool = False) -> Symbols:
    return read(venv.prefix, host, Options(only_remembered=only_remembered)).fact(Symbols)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    root = tmp_path_factory.mktemp("symbols")
    needs = {"libhelper.so.1": ("helped",)}
    module = object_bytes("_thing.so", stubs=needs, runpath="$ORIGIN/lib:$ORIGIN/../other")
    files = {
        "thing/__init__.py": "",
        MODULE: module,
        "thing/lib/libhelper.so.1": object_bytes("libhelper.so.1", exports=["helped"]),
        "other/data.txt": "",
    }
    torch = make_linked_torch(root / "wheels", "2.11.0", "12.8", needs={})
    venv = make_venv(root / "venv", make_wheel(root / "wheels", "thing", "1.0", files=files), torch)
    # What changed in the last tenth of a second is not remembered.
    time.sleep(0.2)
    return venv


@pytest.fixture
def venv(made: Venv, tmp_path: Path) -> Venv:
    prefix = tmp_path / "venv"
    shutil.copytree(made.prefix, prefix, symlinks=True)
    time.sleep(0.2)
    return Venv(prefix=prefix)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return host_without_cache(tmp_path / "home")


def test_what_loads_is_no_fault_and_is_remembered(venv: Venv, host: Host) -> None:
    assert _symbols(venv, host, only_remembered=True).reason == GONE
    found = _symbols(venv, host)
    assert (found.looked, found.objects, found.left_out, found.faults) == (True, 1, 0, ())
    assert _symbols(venv, host, only_remembered=True) == found
    # Another current folder changes nothing here: no search path is relative.
    assert _symbols(venv, replace(host, cwd=venv.prefix), only_remembered=True) == found


@pytest.fixture
def looking_here(tmp_path: Path, host: Host) -> tuple[Venv, Host]:
    """Make a module that looks in the current folder first, as libcusparseLt does; the host stands in a project."""
    module = object_bytes("_thing.so", stubs={"libhelper.so.1": ()}, runpath=":$ORIGIN")
    files = {"thing/__init__.py": "", MODULE: module, "thing/libhelper.so.1": object_bytes("libhelper.so.1")}
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1.0", files=files))
    for folder in ("project", "other"):
        (tmp_path / folder).mkdir()
    time.sleep(0.2)
    return venv, replace(host, cwd=tmp_path / "project")


def test_a_file_written_in_the_current_folder_changes_nothing(looking_here: tuple[Venv, Host]) -> None:
    venv, host = looking_here
    (host.cwd / "before.log").write_text("written as the check starts")
    found = _symbols(venv, host)
    (host.cwd / "train.log").write_text("step 1")
    assert _symbols(venv, host, only_remembered=True) == found
    assert _symbols(venv, replace(host, cwd=host.cwd.parent / "other"), only_remembered=True) == found
    # Relative to the venv's own folder: there the name is taken.
    assert _symbols(venv, replace(host, cwd=venv.site_packages / "thing"), only_remembered=True).reason == GONE


def test_a_library_of_that_name_in_the_current_folder_counts_there_alone(looking_here: tuple[Venv, Host]) -> None:
    venv, host = looking_here
    other = replace(host, cwd=host.cwd.parent / "other")
    assert _symbols(venv, host).faults == ()
    rewrite(other.cwd / "libhelper.so.1", b"a note")
    assert _symbols(venv, other, only_remembered=True).reason == GONE
    time.sleep(0.2)
    (fault,) = _symbols(venv, other).faults
    assert fault.message == f"{other.cwd}/libhelper.so.1: file too short"
    assert _symbols(venv, other, only_remembered=True).faults == (fault,)
    assert _symbols(venv, host, only_remembered=True).reason == GONE


def _edit(venv: Venv) -> None:
    rewrite(venv.site_packages / "thing/lib/libhelper.so.1", object_bytes("libhelper.so.1", exports=["other"]))


def _remove(venv: Venv) -> None:
    (venv.site_packages / "thing/lib/libhelper.so.1").unlink()


def _touch_torch(venv: Venv) -> None:
    rewrite(venv.site_packages / "torch/__init__.py", (venv.site_packages / "torch/__init__.py").read_text() + "\n")


@pytest.mark.parametrize("change", [_edit, _remove, _touch_torch])
def test_a_change_of_what_decided_it_is_noticed(venv: Venv, host: Host, change: Callable[[Venv], None]) -> None:
    _symbols(venv, host)
    change(venv)
    assert _symbols(venv, host, only_remembered=True).reason == GONE


def test_another_question_is_asked_anew(venv: Venv, host: Host) -> None:
    found = _symbols(venv, host)
    other = replace(host, environ={**host.environ, "LD_LIBRARY_PATH": "/somewhere"})
    assert _symbols(venv, other, only_remembered=True).reason == GONE
    assert _symbols(venv, host, only_remembered=True) == found


@pytest.mark.parametrize("damage", [b"", b"00000000\n{}", b"\xff" * 100, b"a3830dba\n[]"])
def test_a_damaged_memo_counts_for_nothing(venv: Venv, host: Host, damage: bytes) -> None:
    found = _symbols(venv, host)
    (memo,) = (host.home / ".cache/envdoctor/symbols").iterdir()
    memo.write_bytes(damage)
    assert _symbols(venv, host, only_remembered=True).reason == GONE
    assert _symbols(venv, host) == found


def test_a_memo_that_others_can_write_counts_for_nothing(venv: Venv, host: Host) -> None:
    found = _symbols(venv, host)
    (memo,) = (host.home / ".cache/envdoctor/symbols").iterdir()
    memo.chmod(0o622)
    assert _symbols(venv, host, only_remembered=True).reason == GONE
    assert _symbols(venv, host) == found
    assert _symbols(venv, host, only_remembered=True) == found


def test_a_cache_that_cannot_be_written_costs_only_time(venv: Venv, host: Host) -> None:
    host.home.joinpath(".cache").write_text("a file")
    assert _symbols(venv, host).looked
    assert _symbols(venv, host, only_remembered=True).reason == GONE


def test_a_removed_symbol_is_the_interpreters_own_error(venv: Venv, host: Host) -> None:
    _edit(venv)
    (fault,) = _symbols(venv, host).faults
    code = "import torch, ctypes, os, thing; ctypes.CDLL(os.path.join(os.path.dirname(thing.__file__), '_thing.so'))"
    assert real_error(venv, code, host) == f"OSError: {fault.message}"
    assert (fault.name, fault.path.rpartition("site-packages/")[2], fault.owner) == ("helped", MODULE, "thing")


def test_a_glibc_of_the_future(tmp_path: Path, host: Host) -> None:
    module = object_bytes("_new.so", stubs={"libc.so.6": ("quantum@GLIBC_9.99",)})
    wheel = make_wheel(tmp_path / "wheels", "new", "1.0", files={"new/__init__.py": "", "new/_new.so": module})
    venv = make_venv(tmp_path / "venv", wheel)
    (fault,) = _symbols(venv, host).faults
    code = "import ctypes, os, new; ctypes.CDLL(os.path.join(os.path.dirname(new.__file__), '_new.so'))"
    assert real_error(venv, code, host) == f"OSError: {fault.message}"
    assert (fault.kind, fault.name, fault.provider_offers[:8]) == ("version not found", "GLIBC_9.99", "GLIBC_2.")


def test_one_of_several_builds_that_loads_excuses_the_others(tmp_path: Path, host: Host) -> None:
    files: dict[str, bytes | str] = {
        f"codec/core{major}.so": object_bytes("core.so", stubs={f"libav.so.{major}": ()}, runpath="$ORIGIN")
        for major in (5, 6)
    }
    files |= {"codec/__init__.py": "", "codec/libav.so.6": object_bytes("libav.so.6")}
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "codec", "1.0", files=files))
    assert _symbols(venv, host).faults == ()
    (venv.site_packages / "codec/libav.so.6").unlink()
    assert [fault.name for fault in _symbols(venv, host).faults] == ["libav.so.5", "libav.so.6"]


def test_objects_behind_a_failed_import_are_counted_and_not_judged(tmp_path: Path, host: Host) -> None:
    wheels = tmp_path / "wheels"
    torch = make_linked_torch(wheels, "2.11.0", "12.8", needs={"libcudnn.so.9": ()})
    module = object_bytes("_C.so", stubs={"libc10.so": ()})
    other = make_wheel(wheels, "vision", "1.0", files={"vision/__init__.py": "", "vision/_C.so": module})
    found = _symbols(make_venv(tmp_path / "venv", torch, other), host)
    assert (found.objects, found.left_out, found.faults) == (0, 1, ())


@pytest.mark.parametrize(
    ("symbol", "words"),
    [
        ("ncclCommResume", "ncclCommResume"),
        ("_ZN3c104cuda9SetDeviceEa", "c10::cuda::SetDevice(signed char)"),
        ("_Znonsense", "_Znonsense"),
        ("_Z\udcff", "_Z\udcff"),
    ],
)
def test_demangled(symbol: str, words: str) -> None:
    assert demangle(symbol) == words


def test_only_the_systems_libraries_are_opened_for_it(tmp_path: Path) -> None:
    for name in ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6"):
        shutil.copy(next(Path("/usr/lib").glob(f"*-linux-gnu/{name}")), tmp_path / name)
    code = (
        f"import sys; sys.path[0] = {str(ROOT)!r}\n"
        "from envdoctor.probes.loading.demangle import demangle\n"
        "print(demangle('_Z1fv'), open('/proc/self/maps').read(), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    name, maps = done.stdout.split("\n", 1)
    mapped = {line.rpartition("/")[2] for line in maps.splitlines() if str(tmp_path) in line}
    assert (name, mapped & {"libstdc++.so.6", "libgcc_s.so.1"}) == ("f()", set())


@pytest.mark.parametrize(
    ("symbol", "stem"),
    [
        ("ncclCommResume", "libnccl"),
        ("cublasLtMatmul", "libcublasLt"),
        ("cublasCreate_v2", "libcublas"),
        ("cusparseLtInit", "libcusparseLt"),
        ("__nvJitLinkComplete_12_4", "libnvJitLink"),
        ("_ZN3c104cuda9SetDeviceEa", "libc10_cuda"),
        ("_ZNK3c1010TensorImpl5sizesEv", "libc10"),
        ("_ZN2at4_ops3add4callEv", "libtorch_cpu"),
        ("_ZTIN5torch8autograd4NodeE", "libtorch_cpu"),
        ("PyUnicode_New", ""),
        ("_ZN4atom3fooEv", ""),
    ],
)
def test_the_library_a_symbol_belongs_to(symbol: str, stem: str) -> None:
    assert (*library_stems(symbol), "")[0] == stem


@pytest.mark.parametrize(
    ("symbol", "declaration", "abi"),
    [
        ("_ZN3c105ErrorC2ENS_14SourceLocationESs", "", "pre-cxx11"),
        ("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", "f(char const*, std::string const&)", "pre-cxx11"),
        ("_ZNSt7__cxx114listE", "std::__cxx11::list", "cxx11"),
        ("_ZN3c104cuda9SetDeviceEa", "c10::cuda::SetDevice(signed char)", ""),
    ],
)
def test_the_string_a_symbol_was_compiled_with(symbol: str, declaration: str, abi: str) -> None:
    assert wanted_abi(symbol, declaration) == abi
