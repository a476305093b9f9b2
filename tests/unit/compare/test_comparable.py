"""What fingerprints and profiles say in a comparison, over facts made by hand."""

from dataclasses import replace

import pytest

from envdoctor.compare.comparable import of_fingerprint, of_profile
from envdoctor.compare.difference import compare
from envdoctor.model.fingerprint import Fingerprint, Unread
from envdoctor.model.profile import (
    CompileWanted,
    EnvironmentWanted,
    GitState,
    LockWanted,
    Profile,
    PythonWanted,
    TorchWanted,
)
from envdoctor.probes.caches.compile_caches import CompileCaches
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.venv.distribution_digests import Content, Contents
from envdoctor.probes.venv.startup_hooks import Hook, StartupHooks
from envdoctor.probes.venv.training_sources import SourceFile, Sources
from envdoctor.standards.lock import parse
from tests.factories import make_facts as facts

TORCH = Content(name="torch", version="2.10.0", sha256="0" * 64, editable=False)
LOCK = parse(f"torch==2.10.0 --hash=sha256:{'0' * 64}\n", "good")
PROFILE = Profile(
    schema=1,
    name="good",
    summary="",
    python=PythonWanted(versions=("3.11", "3.12")),
    torch=TorchWanted(version="2.10.0+cu128", cuda="12.8", git_version=facts.TORCH.git_version),
    lock=LockWanted(file="good.txt"),
    libraries={"libcudnn.so.9": "nvidia-cudnn-cu12"},
    environment=EnvironmentWanted(set={"OMP_NUM_THREADS": "1"}, forbidden=("LD_PRELOAD",)),
    compile=CompileWanted(cache_bytes=(900, 1100)),
    sources={"train.py": "a" * 64},
    git=GitState(commit="c" * 40),
)
MATCHING: tuple[object, ...] = (
    replace(facts.LIBRARIES, providers=(facts.provider("libcudnn.so.9", "nvidia-cudnn-cu12"),)),
    facts.variables(OMP_NUM_THREADS="1"),
    CompileCaches(caches=(facts.cache_folder("inductor", 3, 1000),)),
    Sources(root="/src", files=(SourceFile(path="train.py", sha256="a" * 64, problem=""),)),
)


def _facts(*sections: object, contents: Contents | None = None, unread: tuple[Unread, ...] = ()) -> Fingerprint:
    chosen = {type(section): section for section in (*MATCHING, *sections)}
    made = facts.fingerprint(*chosen.values(), unread=unread)
    return replace(made, sections=(*made.sections, contents or Contents(items=(TORCH,))))


def _lines(a: Fingerprint, b: Fingerprint | Profile) -> list[str]:
    other = (
        of_fingerprint(b, "b", "venv")
        if isinstance(b, Fingerprint)
        else of_profile(b, LOCK, facts.PYTHON.markers(), "b")
    )
    found = compare(of_fingerprint(a, "a", "venv"), other)
    return [f"{item.area}: {item.subject}: {item.a} -> {item.b}" for item in found.differences] + [
        f"unread {area}: {reason}" for area, reason in found.unread.items()
    ]


def test_the_same_facts_are_equal_to_themselves_and_to_their_profile() -> None:
    assert _lines(_facts(), _facts()) == []
    assert _lines(_facts(), PROFILE) == []


@pytest.mark.parametrize(
    ("section", "line"),
    [
        (replace(facts.TORCH, version="2.10.0+cu130"), "torch: torch: 2.10.0+cu130 -> 2.10.0+cu128"),
        (replace(facts.TORCH, cuda=""), "torch: CUDA of torch: none -> 12.8"),
        (replace(facts.TORCH, git_version="f" * 40), "torch: commit of torch: ffffffffffff -> 449b17684101"),
        (
            replace(facts.LIBRARIES, providers=(facts.provider("libcudnn.so.9", "nvidia-cudnn-cu13"),)),
            "libraries: libcudnn.so.9: nvidia-cudnn-cu13 1.0 -> nvidia-cudnn-cu12",
        ),
        (
            replace(facts.LIBRARIES, unresolved=(facts.unresolved("libcudnn.so.9"),)),
            "libraries: libcudnn.so.9: not found -> nvidia-cudnn-cu12",
        ),
        (
            replace(facts.FILES, owners=(facts.owner("torch", "2.10.0", missing=2, resized=1),)),
            "files: torch: 2 missing, 1 resized of 10 files -> as recorded",
        ),
        (
            replace(facts.FILES, contested=(facts.contested("x.so", ("torch", "1"), ("z", "2"), on_disk=("z",)),)),
            "files: torch: lib/python3.12/site-packages/x.so has the bytes of z -> as recorded",
        ),
        (
            facts.distributions(facts.distribution("torch", "2.10.1")),
            "packages: torch: 2.10.1 -> 2.10.0",
        ),
        (
            facts.distributions(facts.distribution("torch", "2.10.0"), facts.distribution("more", "1")),
            "packages: more: 1 -> ",
        ),
        (
            Sources(root="/src", files=(SourceFile(path="train.py", sha256="b" * 64, problem=""),)),
            "sources: train.py: sha256 bbbbbbbbbbbb -> sha256 aaaaaaaaaaaa",
        ),
        (
            Sources(root="/src", files=(SourceFile(path="train.py", sha256="", problem="missing"),)),
            "sources: train.py: missing -> sha256 aaaaaaaaaaaa",
        ),
        (facts.variables(), "environment: OMP_NUM_THREADS: not set -> 1"),
        (
            facts.variables(OMP_NUM_THREADS="1", LD_PRELOAD="/x.so"),
            "environment: LD_PRELOAD: /x.so -> must not be set",
        ),
        (
            CompileCaches(caches=(facts.cache_folder("inductor"),)),
            "caches: inductor and triton: cold -> 0.0 MB to 0.0 MB",
        ),
    ],
)
def test_what_differs_from_a_profile(section: object, line: str) -> None:
    assert _lines(_facts(section), PROFILE) == [line]


@pytest.mark.parametrize(
    ("section", "line"),
    [
        (replace(facts.PYTHON, version="3.13.0"), "torch: Python: 3.12.1 -> 3.13.0"),
        (replace(facts.PYTHON, machine="aarch64"), "torch: processor: x86_64 -> aarch64"),
        (
            StartupHooks(hooks=(Hook(path="/v/z.pth", lines=("import z",), owner="", origin="site-packages"),)),
            "start-up: z.pth:  -> import z",
        ),
        (facts.variables(OMP_NUM_THREADS="2"), "environment: OMP_NUM_THREADS: 1 -> 2"),
        (
            replace(facts.GPU, state="present", module_version="570.1", reason=""),
            "machine: driver: none -> 570.1",
        ),
        (
            replace(
                facts.LIBRARIES,
                providers=(facts.provider("libcudnn.so.9", "", path="/usr/lib/libcudnn.so.9"),),
            ),
            "libraries: libcudnn.so.9: nvidia-cudnn-cu12 1.0 -> /usr/lib/libcudnn.so.9, of no distribution",
        ),
        (
            facts.distributions(facts.distribution("torch", "2.10.0", editable=True, direct_url="file:///src")),
            "packages: torch: 2.10.0 -> 2.10.0 (editable, file:///src)",
        ),
    ],
)
def test_what_differs_between_two_venvs(section: object, line: str) -> None:
    assert _lines(_facts(), _facts(section)) == [line]


@pytest.mark.parametrize(
    "section",
    [
        facts.variables(OMP_NUM_THREADS="1", PATH="/x", RANK="3", UV_CACHE_DIR="/y", VIRTUAL_ENV="/z"),
        replace(facts.PYTHON, version="3.12.9", executable="/else/python"),
        CompileCaches(caches=(facts.cache_folder("inductor", 5, 1050),)),
    ],
)
def test_what_is_no_difference(section: object) -> None:
    assert _lines(_facts(), _facts(section)) == []


def test_other_contents_under_one_version() -> None:
    other = Contents(items=(replace(TORCH, sha256="1" * 64),))
    assert _lines(_facts(), _facts(contents=other)) == ["files: torch: contents 000000000000 -> contents 111111111111"]


def test_a_stack_without_torch_says_nothing_of_libraries() -> None:
    none = Libraries(simulated=False, reason="no torch", import_error="", providers=(), unresolved=(), notes=())
    assert _lines(_facts(none), _facts(none)) == []


def test_what_could_not_be_read_is_not_compared() -> None:
    gap = Unread(section="InstalledFiles", reason="denied")
    assert _lines(_facts(), _facts(unread=(gap,))) == ["unread files: B: InstalledFiles: denied"]


def test_damage_of_a_base_interpreters_copy_is_not_that_of_the_venvs_own() -> None:
    # pip is in both: the base's lost files, the venv's own is whole.
    owners = (facts.owner("torch", "2.10.0", missing=2), facts.owner("numpy", "1.0", missing=1))
    away = (replace(facts.missing("torch", "x"), path="/usr/lib/python3/dist-packages/torch/x.py"),)
    here = (facts.missing("numpy", "lib/python3.12/site-packages/numpy/x.py"),)
    changed = replace(facts.FILES, owners=owners, faults=(*away, *here))
    contents = Contents(items=(TORCH, replace(TORCH, name="numpy")))
    files = of_fingerprint(_facts(changed, contents=contents), "a", "venv").areas["files"].traits
    shown = {name: one.shown for name, one in files.items()}
    assert (shown["torch"][:9], shown["numpy"]) == ("contents ", "1 missing of 10 files")
