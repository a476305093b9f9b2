"""`why` over a tiny CUDA stack, against what the interpreter itself says."""

import json
import subprocess
from pathlib import Path

import pytest

from envdoctor.errors import UsageError
from envdoctor.explore.environment import explore
from envdoctor.explore.why import why
from envdoctor.facts.target import resolve
from envdoctor.model.why import (
    Answer,
    Copy,
    DistributionAnswer,
    FileAnswer,
    LibraryAnswer,
    Needer,
    RecordHolder,
    Requirer,
    SearchedPlace,
    Shared,
)
from tests.factories.make_cuda import object_bytes
from tests.factories.make_cuda_stack import EXTENSION, CudaWheels, make_cuda_wheels
from tests.factories.make_reading import bare_host
from tests.factories.make_venv import Venv, install, make_venv, uninstall
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import run_envdoctor

NCCL = "nvidia/nccl/lib/libnccl.so.2"
OWNER = RecordHolder(name="nvidia-nccl-cu12", version="12.8")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> CudaWheels:
    return make_cuda_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def venv(tmp_path: Path, wheels: CudaWheels) -> Venv:
    return make_venv(tmp_path / "venv", *wheels.all())


def _ask(venv: Venv, name: str, **environ: str) -> Answer:
    return why(explore(resolve(venv.prefix), bare_host(venv.prefix.parent / "home", **environ)), name)


def _site(venv: Venv, path: str = "") -> str:
    return str((venv.site_packages / path).relative_to(venv.prefix))


def test_a_loaded_library(venv: Venv) -> None:
    assert _ask(venv, "libnccl.so.2").library == LibraryAnswer(
        soname="libnccl.so.2",
        state="loaded",
        used_when="",
        problem="",
        path=_site(venv, NCCL),
        holders=(OWNER,),
        places=(SearchedPlace(via="torch's preload list", folder=_site(venv, NCCL), outcome="found"),),
        needed_by=(Needer(path=_site(venv, "torch/lib/libtorch_cuda.so"), owner="torch", imported=True),),
        copies=(),
    )


def test_a_library_found_by_rpath_is_told_place_by_place(venv: Venv) -> None:
    library = _ask(venv, "libtorch_cpu.so").library
    assert library is not None
    assert {place.via for place in library.places} == {"RPATH of libtorch_python.so"}
    assert [place.outcome for place in library.places] == ["not there"] * (len(library.places) - 1) + ["found"]
    assert library.places[0].folder == _site(venv, "nvidia/cudnn/lib")
    assert library.places[-1].folder == _site(venv, "torch/lib")


def test_a_missing_library_that_only_another_package_needs(venv: Venv, tmp_path: Path) -> None:
    code = object_bytes("ops.so", stubs={"libsox.so.3": (), "libresolv.so.2": ()})
    install(venv, make_wheel(tmp_path / "more", "kernels", "1.0", files={"kernels/ops.so": code}))
    needer = Needer(path=_site(venv, "kernels/ops.so"), owner="kernels", imported=False)
    library = _ask(venv, "libsox.so.3").library
    assert library is not None
    assert (library.state, library.path, library.needed_by) == ("missing", "", (needer,))
    assert library.problem == "libsox.so.3: cannot open shared object file: No such file or directory"
    assert {place.outcome for place in library.places} == {"not there"}
    system = _ask(venv, "libresolv.so.2").library
    assert system is not None
    assert (system.state, system.problem, system.holders) == ("not used", "", ())
    assert Path(system.path).is_file()
    text = run_envdoctor("why", "libsox.so.3", "--venv", venv.prefix, folder=tmp_path).out
    assert f"library libsox.so.3: missing: {library.problem}\n" in text
    text = run_envdoctor("why", "libresolv.so.2", "--venv", venv.prefix, folder=tmp_path).out
    assert "library libresolv.so.2: outside this environment, but no part of `import torch`\n" in text


def test_a_library_that_a_first_use_opens(venv: Venv) -> None:
    library = _ask(venv, "libtorch_cuda_linalg.so").library
    assert library is not None
    assert (library.state, library.used_when) == ("first use", "torch.linalg on a GPU")
    assert library.needed_by == (Needer(path=_site(venv, "torch/lib/libtorch_cuda.so"), owner="torch", imported=True),)


def test_a_missing_library(venv: Venv) -> None:
    uninstall(venv, "nvidia-nccl-cu12")
    library = _ask(venv, "libnccl.so.2").library
    assert library is not None
    assert (library.state, library.path, library.holders) == ("missing", "", ())
    assert library.problem == "libnccl.so.2: cannot open shared object file: No such file or directory"
    assert [place.folder for place in library.places][:1] == [_site(venv, "nvidia/cudnn/lib")]
    assert {place.outcome for place in library.places} == {"not there"}
    assert [needer.path for needer in library.needed_by] == [_site(venv, "torch/lib/libtorch_cuda.so")]


def test_a_library_with_two_owners_says_whose_bytes_they_are(venv: Venv, wheels: CudaWheels) -> None:
    install(venv, wheels.foreign)
    library = _ask(venv, "libnccl.so.2").library
    assert library is not None
    assert library.holders == (
        RecordHolder(name="nvidia-nccl-cu12", version="12.8", holds=False),
        RecordHolder(name="nvidia-nccl-cu13", version="2.28.9"),
    )


def test_another_file_of_that_name_is_told(venv: Venv, wheels: CudaWheels, tmp_path: Path) -> None:
    files = {"bundled/libnccl.so.2": (venv.site_packages / NCCL).read_bytes() + b"\0"}
    install(venv, make_wheel(tmp_path / "wheels", "bundled", "1.0", files=files))
    library = _ask(venv, "libnccl.so.2").library
    assert library is not None
    assert library.copies == (
        Copy(path=_site(venv, "bundled/libnccl.so.2"), holders=(RecordHolder(name="bundled", version="1.0"),)),
    )


@pytest.mark.parametrize("spelling", [NCCL, f"./{NCCL}", "{site}/" + NCCL, "{relative}/" + NCCL])
def test_a_path_may_be_written_in_any_way(venv: Venv, spelling: str) -> None:
    answer = _ask(venv, spelling.format(site=venv.site_packages, relative=_site(venv)))
    assert answer.file == FileAnswer(path=_site(venv, NCCL), exists=True, holders=(OWNER,), needs=("libc.so.6",))
    assert answer.library is not None
    assert (answer.library.state, answer.module, answer.distribution) == ("loaded", None, None)


def test_a_missing_path_still_has_an_owner(venv: Venv) -> None:
    (venv.site_packages / "torch/version.py").unlink()
    answer = _ask(venv, "torch/version.py")
    holder = RecordHolder(name="torch", version="2.10.0")
    path = _site(venv, "torch/version.py")
    assert answer.file == FileAnswer(path=path, exists=False, holders=(holder,), needs=())


def test_a_distribution(venv: Venv, wheels: CudaWheels) -> None:
    install(venv, wheels.foreign)
    found = _ask(venv, "NVIDIA_nccl.cu12").distribution
    assert found is not None
    size = sum(path.stat().st_size for path in venv.dist_info("nvidia-nccl-cu12").iterdir())
    assert found == DistributionAnswer(
        name="nvidia-nccl-cu12",
        version="12.8",
        folder=_site(venv, "nvidia_nccl_cu12-12.8.dist-info"),
        origin="site-packages",
        installer="uv",
        editable_from=f"file://{wheels.wheels['nvidia-nccl-cu12']}",
        files=len(list(venv.dist_info("nvidia-nccl-cu12").iterdir())) + 1,
        bytes=size + (venv.site_packages / NCCL).stat().st_size,
        missing=0,
        changed=1,
        sonames=("libnccl.so.2",),
        required_by=(
            Requirer(
                name="torch",
                version="2.10.0",
                requirement="nvidia-nccl-cu12==12.8; sys_platform == 'linux'",
                applies=True,
            ),
        ),
        shared=(Shared(other="nvidia-nccl-cu13", paths=(_site(venv, NCCL),)),),
        libraries=(),
    )
    foreign = _ask(venv, "nvidia-nccl-cu13").distribution
    assert foreign is not None
    assert foreign.libraries == ("libnccl.so.2",)


def test_requirements_behind_extras_apply_once_the_extra_is_asked_for(tmp_path: Path) -> None:
    kit = make_wheel(tmp_path / "w", "kit", "1", requires=["blas; extra == 'blas'", "fft; extra == 'fft'"])
    wheels = [make_wheel(tmp_path / "w", "top", "1", requires=["kit[blas]"]), kit]
    wheels += [make_wheel(tmp_path / "w", name, "1") for name in ("blas", "fft")]
    venv = make_venv(tmp_path / "venv", *wheels)
    blas, fft = (_ask(venv, name).distribution for name in ("blas", "fft"))
    assert blas is not None
    assert fft is not None
    assert [one.applies for one in (*blas.required_by, *fft.required_by)] == [True, False]


SHADOWS = {
    "package_before_extension/__init__.py": "",
    f"package_before_extension{EXTENSION}": "",
    f"extension_before_source{EXTENSION}": "",
    "extension_before_source.py": "",
    "tagged_first.abi3.so": "",
    f"tagged_first{EXTENSION}": "",
    "abi3_before_plain.so": "",
    "abi3_before_plain.abi3.so": "",
    "other_python.cpython-27-x86_64-linux-gnu.so": "",
    "spread/one.py": "",
    "inner/__init__.py": "",
    "inner/space/deep.py": "",
    "front.py": "",
    "front_space/late.py": "",
    "late_package/keep.txt": "",
}
NAMES = [
    "torch",
    "torch.version",
    "torch._C",
    "package_before_extension",
    "extension_before_source",
    "tagged_first",
    "abi3_before_plain",
    "other_python",
    "spread",
    "spread.one",
    "spread.two",
    "inner.space",
    "inner.space.deep",
    "front",
    "front_space",
    "front_space.late",
    "late_package",
    "json",
    "json.decoder",
    "sys",
    "_ctypes",
    "nothing_here",
    "torch.nothing_here",
    "front.nothing",
    "dotted..name",
]
_FIND = """
import importlib.machinery, json, sys
found = {}
for name in json.loads(sys.argv[1]):
    path, spec = None, None
    try:
        for part in name.split('.'):
            spec = importlib.machinery.PathFinder.find_spec(part, path) if part else None
            if spec is None and path is None and name in sys.builtin_module_names:
                spec = importlib.machinery.BuiltinImporter.find_spec(part)
            if spec is None:
                break
            path = list(spec.submodule_search_locations or [])
    except ValueError:
        spec = None
    found[name] = None if spec is None else (spec.origin or path[0])
print(json.dumps(found))
"""


def test_the_same_file_as_the_interpreter_takes(venv: Venv, tmp_path: Path) -> None:
    for path in SHADOWS:
        at = venv.site_packages / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text("")
    leaked = tmp_path / "leaked"
    added = tmp_path / "added"
    for path in ("front/__init__.py", "front_space/early.txt", "spread/two.py", "late_package/__init__.py"):
        for folder in (leaked, added):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("")
    (venv.site_packages / "more.pth").write_text(f"{added}\n")
    environ = {"PYTHONPATH": str(leaked), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONSAFEPATH": "1"}
    command = [venv.python, "-c", _FIND, json.dumps(NAMES)]
    said = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, cwd=tmp_path)
    wanted = json.loads(said.stdout)
    environment = explore(resolve(venv.prefix), bare_host(tmp_path / "home", PYTHONPATH=str(leaked)))
    found: dict[str, str | None] = {}
    for name in NAMES:
        try:
            module = why(environment, name).module
        except UsageError:
            module = None
        shown = "built-in" if module and module.taken.kind == "built in" else module and module.taken.path
        found[name] = str(venv.prefix / shown) if shown and shown != "built-in" else shown
    assert found == wanted


def test_what_stands_behind_is_told(venv: Venv, tmp_path: Path) -> None:
    leaked = tmp_path / "leaked/torch"
    leaked.mkdir(parents=True)
    (leaked / "__init__.py").write_text("")
    module = _ask(venv, "torch", PYTHONPATH=str(leaked.parent)).module
    assert module is not None
    assert (module.taken.path, module.taken.origin, module.taken.holders) == (
        str(leaked / "__init__.py"),
        "PYTHONPATH",
        (),
    )
    assert [(place.path, place.holders) for place in module.also] == [
        (_site(venv, "torch/__init__.py"), (RecordHolder(name="torch", version="2.10.0"),))
    ]


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("libnccl.so", "did you mean `libnccl.so.2`"),
        ("nvidia-nccl-cu1", "did you mean `nvidia-nccl-cu12`"),
        ("tourch", "did you mean `torch`"),
        ("zzzzzzzz", "name a soname (libcudnn.so.9), a module (torch._C), a path, or a distribution"),
    ],
)
def test_an_unknown_name_is_bad_input_with_the_nearest(venv: Venv, asked: str, hint: str) -> None:
    outcome = run_envdoctor("why", asked, "--venv", venv.prefix, folder=venv.prefix.parent)
    message = f"error: [TMP]/venv has no library, module or distribution called `{asked}`"
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"{message}\n\nhint: {hint}")


TEXT = """\
envdoctor why libnccl.so.2  [TMP]/venv

library libnccl.so.2: loaded by `import torch`
  taken from      lib/[PYTHON]/site-packages/nvidia/nccl/lib/libnccl.so.2
  owned by        nvidia-nccl-cu12 12.8 (the bytes on disk are not its own)
                  nvidia-nccl-cu13 2.28.9
  looked for in   lib/[PYTHON]/site-packages/nvidia/nccl/lib/libnccl.so.2 (torch's preload list): found
  needed by       lib/[PYTHON]/site-packages/torch/lib/libtorch_cuda.so (torch)
"""


def test_the_text_and_the_document(venv: Venv, wheels: CudaWheels) -> None:
    install(venv, wheels.foreign)
    outcome = run_envdoctor("why", "libnccl.so.2", "--venv", venv.prefix, folder=venv.prefix.parent)
    python = venv.site_packages.parent.name
    assert (outcome.code, outcome.out.replace(python, "[PYTHON]"), outcome.err) == (0, TEXT, "")
    outcome = run_envdoctor("why", "libnccl.so.2", "--json", "--venv", venv.prefix, folder=venv.prefix.parent)
    document = json.loads(outcome.out)
    assert list(document) == [
        "schema_version", "tool", "target", "asked", "library", "file", "module", "distribution",
    ]  # fmt: skip
    assert document["library"]["holders"][0] == {"name": "nvidia-nccl-cu12", "version": "12.8", "holds": False}
