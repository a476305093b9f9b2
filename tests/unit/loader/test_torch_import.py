"""`import torch` on tiny torches: what the interpreter really does, and what the model says it will."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from envdoctor.errors import ElfError
from envdoctor.loader.binding import Binder
from envdoctor.loader.disk import Disk
from envdoctor.loader.torch_import import TorchImport, TorchTarget, simulate_import
from tests.factories.make_cuda import PLAIN_INIT
from tests.factories.make_elf import make_shared, make_stub, patched
from tests.factories.make_torch_loader import init_text, make_nvidia, make_torch
from tests.unit.loader.real_loader import host_roots

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
NOT_FOUND = "cannot open shared object file: No such file or directory"
CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
error = None
try:
    import torch
except Exception as failure:
    error = [type(failure).__name__, str(failure)]
with open("/proc/self/maps") as maps:
    lines = [line.split(None, 5) for line in maps]
print(json.dumps([error, sorted({line[5].rstrip("\\n") for line in lines if len(line) == 6})]))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a site with everything in it, made once; the tests work on copies."""
    made = tmp_path_factory.mktemp("whole") / "site"
    make_nvidia(made)
    make_torch(made, extension=SUFFIX)
    return made


@pytest.fixture
def site(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "site", symlinks=True))


def remove(site: Path, *sonames: str) -> None:
    for soname in sonames:
        next(site.glob(f"nvidia/*/lib/{soname}")).unlink()


@dataclass(frozen=True)
class Outcome:
    """How the import ends, and which files of the site are mapped then."""

    error: tuple[str, str] | None
    mapped: frozenset[str]


def sys_path(site: Path) -> list[str]:
    return [*(entry for entry in sys.path if "site-packages" not in entry and entry), str(site)]


def really(site: Path, env: Mapping[str, str], path: Sequence[str]) -> Outcome:
    command = [sys.executable, "-I", "-c", CHILD, json.dumps(path)]
    done = subprocess.run(command, env=dict(env), cwd=site, check=True, capture_output=True, text=True)
    error, mapped = json.loads(done.stdout)
    inside = [item for item in mapped if item.startswith(str(site.parent.resolve()) + "/")]
    return Outcome(tuple(error) if error else None, frozenset(inside))


def played(site: Path, env: Mapping[str, str], path: Sequence[str], cuda: str | None = "12.8") -> TorchImport:
    target = TorchTarget(torch=str(site / "torch"), sys_path=tuple(path), executable=sys.executable, cuda=cuda)
    disk = Disk()
    return simulate_import(target, host_roots(env, site, disk), disk, binder=Binder())


def predicted(site: Path, prediction: TorchImport) -> Outcome:
    failure = prediction.failure
    inside = [item.real for item in prediction.mapped if item.real.startswith(str(site.parent.resolve()) + "/")]
    return Outcome((failure.exception, failure.message) if failure else None, frozenset(inside))


@dataclass(frozen=True)
class Scene:
    """How a case must end; `{site}` and `{path}` stand for the site folder and the repr of sys.path."""

    error: tuple[str, str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cuda: str | None = "12.8"
    also_on_path: Sequence[str] = ()


Build = Callable[[Path], Scene]
CASES: list[Build] = []


def case(build: Build) -> Build:
    CASES.append(build)
    return build


@case
def healthy(site: Path) -> Scene:
    assert (site / "torch/lib/libtorch_cuda.so").exists()
    return Scene()


@case
def healthy_without_cuda(site: Path) -> Scene:
    shutil.rmtree(site)
    make_torch(site, extension=SUFFIX, cuda=None)
    return Scene(cuda=None)


@case
def no_cudnn(site: Path) -> Scene:
    remove(site, "libcudnn.so.9")
    return Scene(("ImportError", f"libcudnn.so.9: {NOT_FOUND}"))


@case
def the_first_of_four_in_breadth_first_order(site: Path) -> Scene:
    remove(site, "libcudnn.so.9", "libcusparseLt.so.0", "libnccl.so.2", "libnvJitLink.so.12")
    return Scene(("ImportError", f"libcudnn.so.9: {NOT_FOUND}"))


@case
def no_cudart_is_said_by_the_preload(site: Path) -> Scene:
    remove(site, "libcudart.so.12")
    return Scene(("ValueError", "libcudart.so.*[0-9] not found in the system path {path}"))


@case
def no_cudart_and_an_earlier_one_missing_too(site: Path) -> Scene:
    remove(site, "libcudart.so.12", "libcublasLt.so.12")
    return Scene(("ValueError", "libcublasLt.so.*[0-9] not found in the system path {path}"))


@case
def cudart_elsewhere_on_the_path_is_preloaded(site: Path) -> Scene:
    remove(site, "libcudart.so.12")
    make_shared(site.parent / "other/nvidia/cuda_runtime/lib/libcudart.so.12")
    return Scene(also_on_path=["other"])


@case
def the_folder_of_the_cuda_major_is_preloaded(site: Path) -> Scene:
    remove(site, "libcublasLt.so.12", "libcublas.so.12")
    make_shared(site / "nvidia/cu12/lib/libcublas.so.12")
    make_shared(site / "nvidia/cu12/lib/libcublasLt.so.12")
    return Scene()


@case
def without_nvtx_nothing_is_missed(site: Path) -> Scene:
    remove(site, "libnvToolsExt.so.1")
    return Scene()


@case
def without_nvrtc_the_preload_stops_unnoticed(site: Path) -> Scene:
    remove(site, "libnvrtc.so.12", "libnvrtc-builtins.so.12.8")
    return Scene()


@case
def no_global_deps_at_all(site: Path) -> Scene:
    (site / "torch" / "lib/libtorch_global_deps.so").unlink()
    return Scene(("OSError", "{site}/torch/lib/libtorch_global_deps.so: " + NOT_FOUND))


@case
def a_need_that_is_none_of_cudas(site: Path) -> Scene:
    needed = [make_stub(site.parent, "libgomp-torch.so.1")]
    make_shared(site / "torch/lib/libtorch_global_deps.so", needed=needed)
    return Scene(("OSError", f"libgomp-torch.so.1: {NOT_FOUND}"))


@case
def no_extension_module(site: Path) -> Scene:
    (site / "torch" / f"_C{SUFFIX}").unlink()
    return Scene(("ModuleNotFoundError", "No module named 'torch._C'"))


@case
def a_file_cut_short_in_between(site: Path) -> Scene:
    (site / "nvidia/nccl/lib/libnccl.so.2").write_bytes(b"\x7fELF")
    return Scene(("ImportError", "{site}/torch/lib/../../nvidia/nccl/lib/libnccl.so.2: file too short"))


@case
def a_library_for_another_machine(site: Path) -> Scene:
    path = site / "nvidia/nccl/lib/libnccl.so.2"
    patched(path, path, {18: b"\xb7\x00"})
    return Scene(("ImportError", f"libnccl.so.2: {NOT_FOUND}"))


@case
def an_older_nccl_lacks_a_symbol(site: Path) -> Scene:
    newer = make_stub(site.parent / "newer", "libnccl.so.2", exports=["ncclCommResume"])
    make_shared(
        site / "torch/lib/libtorch_cuda.so",
        needed=[newer],
        undefined=["ncclCommResume"],
        rpath="$ORIGIN/../../nvidia/nccl/lib",
    )
    return Scene(("ImportError", "{site}/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume"))


@case
def library_path_leads_cusparse_to_an_old_nvjitlink(site: Path) -> Scene:
    version = "libnvJitLink.so.12"
    new = site / "nvidia/nvjitlink/lib/libnvJitLink.so.12"
    make_shared(new, exports=["AddData_12_1", "Complete_12_4"], version=version)
    make_shared(
        site / "nvidia/cusparse/lib/libcusparse.so.12",
        needed=[new],
        undefined=["Complete_12_4"],
        runpath="$ORIGIN/../../nvjitlink/lib:$ORIGIN",
    )
    make_shared(site.parent / "cuda-12.1/libnvJitLink.so.12", exports=["AddData_12_1"], version=version)
    # Without the preload (torch before 2.6) the toolkit's file is bound, and lacks the symbol.
    text = init_text().replace("            _preload_cuda_deps()\n", "            pass\n")
    (site / "torch/__init__.py").write_text(text)
    reason = f"undefined symbol: Complete_12_4, version {version}"
    path = "{site}/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12"
    return Scene(("ImportError", f"{path}: {reason}"), env={"LD_LIBRARY_PATH": f"{site.parent}/cuda-12.1:"})


@case
def the_preload_mends_that(site: Path) -> Scene:
    make_shared(site.parent / "cuda-12.1/libnvJitLink.so.12", soname="libnvJitLink.so.12")
    return Scene(env={"LD_LIBRARY_PATH": f"{site.parent}/cuda-12.1:"})


@case
def a_torch_without_global_deps_opens_its_libraries_in_order(site: Path) -> Scene:
    lib = site / "torch/lib"
    shutil.rmtree(site)
    make_shared(lib / "libtorch_cpu.so", undefined=["from_c10"])
    make_shared(lib / "libc10.so", exports=["from_c10"])
    make_shared(lib / "libtorch_cuda.so", needed=[make_stub(site.parent, "libcudnn.so.9")])
    (site / "torch/__init__.py").write_text(PLAIN_INIT.replace("from .version import __version__, cuda\n", ""))
    return Scene(("ImportError", f"libcudnn.so.9: {NOT_FOUND}"))


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_the_import_ends_as_predicted(build: Build, site: Path, tmp_path: Path) -> None:
    scene = build(site)
    path = [*(str(tmp_path / entry) for entry in scene.also_on_path), *sys_path(site)]
    real = really(site, scene.env, path)
    error = scene.error and (scene.error[0], scene.error[1].format(site=site, path=path))
    assert real.error == error
    assert predicted(site, played(site, scene.env, path, scene.cuda)) == real


def test_every_missing_name_is_reported_and_who_asked(site: Path, tmp_path: Path) -> None:
    gone = ["libcudnn.so.9", "libcusparseLt.so.0", "libnccl.so.2", "libnvJitLink.so.12"]
    remove(site, *gone)
    prediction = played(site, {}, sys_path(site))
    missing = [(item.name, os.path.basename(str(item.requester)), item.kind) for item in prediction.missing]  # noqa: PTH119
    assert missing == [
        ("libcudnn.so.9", "libtorch_cuda.so", "not found"),
        ("libcusparseLt.so.0", "libtorch_cuda.so", "not found"),
        ("libnccl.so.2", "libtorch_cuda.so", "not found"),
        ("libnvJitLink.so.12", "libcusparse.so.12", "not found"),
    ]
    looked_in = [attempt.directory.removeprefix(f"{site}/") for attempt in prediction.missing[0].tried]
    assert looked_in[:2] == ["torch/lib/../../nvidia/cudnn/lib", "torch/lib/../../nvidia/nvshmem/lib"]
    assert prediction.missing[0].tried[0].of == f"{site}/torch/lib/libtorch_cuda.so"
    assert {item.name for item in prediction.lazy if item.result.failure} == {"libcuda.so.1"}


def test_how_each_object_was_found(site: Path, tmp_path: Path) -> None:
    prediction = played(site, {}, sys_path(site))
    found = {item.soname: (item.found_via, item.label) for item in prediction.objects}
    assert found["libcudart.so.12"] == ("RPATH", "libtorch_global_deps.so")
    assert found["libcudnn.so.9"] == ("absolute path", "preload")
    assert found["libtorch_cpu.so"] == ("RPATH", "torch._C")
    assert {note.outcome for note in prediction.preloads} == {"opened", "already loaded"}
    assert [note.pattern for note in prediction.preloads if note.outcome == "already loaded"] == ["libcudart.so.*[0-9]"]


def test_several_candidates_are_told_and_the_first_is_taken(site: Path, tmp_path: Path) -> None:
    make_shared(site / "nvidia/cu12/lib/libcurand.so.10")
    notes = {note.pattern: note for note in played(site, {}, sys_path(site)).preloads}
    candidates = [path.removeprefix(f"{site}/nvidia/") for path in notes["libcurand.so.*[0-9]"].candidates]
    assert candidates == ["curand/lib/libcurand.so.10", "cu12/lib/libcurand.so.10"]


def test_a_torch_without_init_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ElfError) as caught:
        played(tmp_path, {}, [])
    assert caught.value.message == f"{tmp_path}/torch/__init__.py: cannot be read: No such file or directory"


def cudnn_with_parts(site: Path, *parts: str) -> None:
    """Replace the shim and the graph part by objects that name their parts in their strings, as cuDNN's do."""
    lib = site / "nvidia/cudnn/lib"
    named = {"libcudnn.so.9": ("graph", "ops"), "libcudnn_graph.so.9": ("engines_precompiled", "heuristic")}
    for name, needs in named.items():
        strings = "\n".join(f'const char part_{part}[] = "libcudnn_{part}.so";' for part in needs)
        make_shared(lib / name, runpath="$ORIGIN", source=strings)
    for part in parts:
        make_shared(lib / f"libcudnn_{part}.so.9", runpath="$ORIGIN")


def test_parts_of_cudnn_are_opened_by_the_shim_and_by_the_graph_part(site: Path, tmp_path: Path) -> None:
    cudnn_with_parts(site, "ops", "heuristic")
    foreign = make_shared(tmp_path / "sys/libcudnn_engines_precompiled.so.9")
    inside = {item.name: item for item in played(site, {}, sys_path(site)).lazy if "cudnn" in item.name}
    outside = played(site, {"LD_LIBRARY_PATH": str(foreign.parent)}, sys_path(site)).lazy
    beside = f"{site}/nvidia/cudnn/lib"
    assert {name: item.path for name, item in inside.items()} == {
        "libcudnn_graph.so.9": f"{beside}/libcudnn_graph.so.9",
        "libcudnn_ops.so.9": f"{beside}/libcudnn_ops.so.9",
        "libcudnn_heuristic.so.9": f"{beside}/libcudnn_heuristic.so.9",
        "libcudnn_engines_precompiled.so.9": None,
    }
    engine = inside["libcudnn_engines_precompiled.so.9"]
    assert engine.opener.endswith("libcudnn_graph.so.9")
    assert engine.result.failure is not None
    assert engine.result.failure.message == f"libcudnn_engines_precompiled.so.9: {NOT_FOUND}"
    # The distribution's own cuDNN fills the gap as soon as the loader can see it: two releases in one process.
    assert {item.name: item.path for item in outside}["libcudnn_engines_precompiled.so.9"] == str(foreign)


@pytest.mark.parametrize(
    ("gone", "broken"),
    [
        ("libcusolver.so.11", {"libtorch_cuda_linalg.so": "libcusolver.so.11"}),
        ("libnvrtc.so.12", {"libnvrtc.so.12": "libnvrtc.so.12"}),
        ("libnvToolsExt.so.1", {}),
    ],
)
def test_the_import_works_and_the_first_use_fails(gone: str, broken: dict[str, str], site: Path) -> None:
    remove(site, gone)
    prediction = played(site, {}, sys_path(site))
    assert prediction.failure is None
    failures = {item.name: item.result.failure for item in prediction.lazy if item.name != "libcuda.so.1"}
    assert {name: failure.name for name, failure in failures.items() if failure} == broken


def test_a_missing_driver_is_told_apart(site: Path, tmp_path: Path) -> None:
    lacking = [item for item in played(site, {}, sys_path(site)).lazy if item.result.failure]
    assert [item.name for item in lacking] == ["libcuda.so.1"]
    driver = make_shared(tmp_path / "driver/libcuda.so.1")
    present = played(site, {"LD_LIBRARY_PATH": str(driver.parent)}, sys_path(site)).lazy
    assert {item.name: item.path for item in present}["libcuda.so.1"] == str(driver)
