"""ED101, ED102, ED501, ED510, ED601, ED701, ED801: interpreter, cache, race, environment, driver, sources."""

from dataclasses import replace

import pytest

from envdoctor.analysis.context import DoesNotApplyError
from envdoctor.checks import (
    cold_cache,
    driver_too_old,
    environment_drift,
    interpreter_gone,
    python_drift,
    source_drift,
    tracing_race,
)
from envdoctor.checks.registry import judge
from envdoctor.model.profile import CompileWanted, DriverWanted, EnvironmentWanted, PythonWanted
from envdoctor.probes.caches.compile_caches import ColdStart, CompileCaches
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.platform import Platform
from envdoctor.probes.venv.conda import Conda, CondaPackage
from envdoctor.probes.venv.training_sources import SourceFile, Sources
from tests.factories import make_facts as facts


def test_finds_ed101_a_dangling_interpreter() -> None:
    python = replace(facts.PYTHON, resolved="", home="/opt/python3.12.6/bin", home_exists=False)
    (finding,) = interpreter_gone.run(facts.case(python))
    assert finding.title == "the interpreter of this venv cannot start"
    assert finding.evidence == (
        f"{facts.PREFIX}/bin/python does not lead to a file",
        "pyvenv.cfg: home = /opt/python3.12.6/bin, which does not exist",
    )
    assert finding.remediation.commands == (f"uv venv --allow-existing --python 3.12 {facts.PREFIX}",)


DAMAGED = replace(facts.PYTHON, is_venv=False, home="", created_by="", lacking=("/x/lib/python3.12/os.py",))
VENV = replace(DAMAGED, is_venv=True, home="/opt/conda/bin")
TORCH_OF_CONDA = CondaPackage(name="torch", version="2.5.1", build="0")
DEBIAN = Platform(kernel="6.8", container="", wsl=False, debian=True)


@pytest.mark.parametrize(
    ("sections", "target", "title", "commands"),
    [
        (
            (DAMAGED, Conda(packages=(TORCH_OF_CONDA,), base="", active="")),
            "/opt/conda/envs/ml",
            "the interpreter of this prefix cannot start",
            ("conda install --prefix /opt/conda/envs/ml --force-reinstall python=3.12",),
        ),
        (
            (VENV, Conda(packages=(), base="/opt/conda", active="")),
            facts.PREFIX,
            "the interpreter of this venv cannot start",
            ("conda install --prefix /opt/conda --force-reinstall python=3.12",),
        ),
        (
            (DAMAGED, DEBIAN),
            "/usr",
            "the interpreter of this prefix cannot start",
            ("sudo apt-get install --reinstall python3.12-minimal libpython3.12-minimal libpython3.12-stdlib",),
        ),
        ((DAMAGED,), "/usr", "the interpreter of this prefix cannot start", ()),
        (
            (DAMAGED,),
            "/root/.pyenv/versions/3.12.1",
            "the interpreter of this prefix cannot start",
            ("pyenv install --force 3.12.1",),
        ),
        (
            (DAMAGED,),
            "/root/.local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu",
            "the interpreter of this prefix cannot start",
            ("uv python install --reinstall 3.12",),
        ),
    ],
    ids=["conda", "on-conda", "debian", "another-system", "pyenv", "uv"],
)
def test_finds_ed101_and_never_makes_a_venv_over_what_is_not_one(
    sections: tuple[object, ...], target: str, title: str, commands: tuple[str, ...]
) -> None:
    case = facts.case(*sections)
    (finding,) = interpreter_gone.run(replace(case, facts=replace(case.facts, target=target)))
    assert (finding.title, finding.remediation.commands) == (title, commands)


def test_passes_ed101_a_living_interpreter() -> None:
    assert list(interpreter_gone.run(facts.case())) == []


def test_finds_ed102_another_minor_version() -> None:
    profile = replace(facts.PROFILE, python=PythonWanted(versions=("3.11", "3.13")))
    (finding,) = python_drift.run(facts.case(profile=profile))
    assert finding.title == "the interpreter is CPython 3.12.1; the profile wants 3.11 or 3.13"


def test_passes_ed102_any_of_the_wanted() -> None:
    profile = replace(facts.PROFILE, python=PythonWanted(versions=("3.11", "3.12")))
    assert list(python_drift.run(facts.case(profile=profile))) == []


COMPILING = replace(
    facts.PROFILE,
    compile=CompileWanted(threads=3, cache_minimum_entries=100, cache_bytes=(300_000_000, 400_000_000), cold_minutes=6),
)


def test_finds_ed501_a_cold_cache_as_a_warning_with_its_cost() -> None:
    caches = CompileCaches(caches=(facts.cache_folder("inductor"), facts.cache_folder("triton", 3, 9000)))
    (finding,) = cold_cache.run(facts.case(caches, profile=COMPILING))
    assert finding.severity == "warning"
    assert finding.title == (
        "the compile cache is smaller than expected: 3 files, 9 kB, and the profile expects 300.0 MB and 100 files; "
        "expect about 6 minutes of compilation"
    )
    assert finding.evidence[-1] == "profile good: compile.cold_minutes = 6"
    assert finding.remediation.commands == (f"envdoctor cache warm --profile good --venv {facts.PREFIX}",)


def test_ed501_prefers_the_profiles_own_history() -> None:
    caches = CompileCaches(
        caches=(facts.cache_folder("inductor"),),
        cold_starts=(
            ColdStart(profile="other", seconds=9.0, at="2026-11-01T10:00:00Z"),
            ColdStart(profile="good", seconds=150.0, at="2026-11-02T10:00:00Z"),
        ),
    )
    (finding,) = cold_cache.run(facts.case(caches, profile=COMPILING))
    assert finding.title == (
        "the compile cache is cold: it holds no compiled graph or kernel, and the profile expects 300.0 MB and "
        "100 files; expect about 2.5 minutes of compilation"
    )
    assert finding.evidence[-1] == "its warm-up of 2026-11-02T10:00:00Z took 150 s to compile"


def test_ed501_says_where_the_profile_wants_the_cache() -> None:
    caches = CompileCaches(caches=(facts.cache_folder("inductor"),))
    elsewhere = replace(COMPILING, compile=replace(COMPILING.compile, cache_location="/data/cache", cold_minutes=0))
    (finding,) = cold_cache.run(facts.case(caches, profile=elsewhere))
    assert finding.evidence[1:] == ("profile good wants it at /data/cache",)
    there = replace(elsewhere.compile, cache_location=caches.caches[0].path)
    (finding,) = cold_cache.run(facts.case(caches, profile=replace(elsewhere, compile=there)))
    assert len(finding.evidence) == 1


def test_passes_ed501_a_warm_cache() -> None:
    caches = CompileCaches(
        caches=(facts.cache_folder("inductor", 90, 300_000_000), facts.cache_folder("triton", 10, 53_000_000))
    )
    assert list(cold_cache.run(facts.case(caches, profile=COMPILING))) == []


def test_ed501_does_not_apply_where_nothing_is_expected() -> None:
    with pytest.raises(DoesNotApplyError, match="^the profile expects nothing of the compile cache$"):
        list(cold_cache.run(facts.case(profile=facts.PROFILE)))


def test_finds_ed510_a_global_flag_under_several_threads() -> None:
    (finding,) = tracing_race.run(facts.case(profile=COMPILING))
    assert finding.title == (
        "torch 2.10.0+cu128 keeps its FX tracing flag process-global, and the profile runs 3 compile threads"
    )
    assert finding.evidence == (f"{facts.SITE}/torch/fx/_symbolic_trace.py:41", "profile good: compile.threads = 3")
    assert (finding.severity, finding.confidence) == ("warning", "high")


def test_finds_ed510_could_not_be_told_as_a_note() -> None:
    build = replace(facts.TORCH, fx_flag="unknown", fx_evidence="the file is gone")
    (finding,) = tracing_race.run(facts.case(build, profile=COMPILING))
    assert finding.title == "could not determine whether torch 2.10.0+cu128 has the FX tracing race"
    assert (finding.severity, finding.confidence) == ("note", "low")


def test_passes_ed510_a_thread_local_flag() -> None:
    assert list(tracing_race.run(facts.case(replace(facts.TORCH, fx_flag="thread-local"), profile=COMPILING))) == []


@pytest.mark.parametrize("threads", [0, 1])
def test_ed510_does_not_apply_to_one_thread(threads: int) -> None:
    with pytest.raises(DoesNotApplyError, match="^the profile compiles from one thread$"):
        list(tracing_race.run(facts.case(profile=replace(facts.PROFILE, compile=CompileWanted(threads=threads)))))


def test_finds_ed601_unset_other_and_forbidden_variables() -> None:
    wanted = EnvironmentWanted(set={"A": "1", "B": "2"}, forbidden=("LD_LIBRARY_PATH", "PYTHONPATH"))
    given = facts.variables("A", B="3", LD_LIBRARY_PATH="/usr/local/cuda-12.1/lib64")
    (finding,) = environment_drift.run(facts.case(given, profile=replace(facts.PROFILE, environment=wanted)))
    assert finding.title == "3 environment variables differ from the profile"
    assert finding.evidence == (
        "A is not set; the profile sets '1'",
        "B is '3'; the profile sets '2'",
        "LD_LIBRARY_PATH is '/usr/local/cuda-12.1/lib64'; the profile forbids it",
    )
    assert finding.remediation.commands == ("unset LD_LIBRARY_PATH",)
    assert finding.remediation.text == (
        "Unset what the profile forbids: `envdoctor run` refuses it. Launch CMD through `envdoctor run --profile good "
        f"--venv {facts.PREFIX} -- CMD`, which sets the profile's environment"
    )


def test_ed601_what_is_forbidden_is_unset_and_not_launched_through_run_which_refuses_it() -> None:
    wanted = EnvironmentWanted(set={"A": "1"}, forbidden=("LD_LIBRARY_PATH", "PYTHONPATH"))
    given = facts.variables(A="1", LD_LIBRARY_PATH="/old", PYTHONPATH="/leak")
    (finding,) = environment_drift.run(facts.case(given, profile=replace(facts.PROFILE, environment=wanted)))
    assert finding.remediation.text == "Unset what the profile forbids: `envdoctor run` refuses it"
    assert finding.remediation.commands == ("unset LD_LIBRARY_PATH PYTHONPATH",)


def test_ed601_a_variable_that_was_not_looked_for_is_not_called_unset() -> None:
    profile = replace(facts.PROFILE, environment=EnvironmentWanted(set={"A": "1"}))
    verdict = judge(facts.case(facts.variables(), profile=profile, pins=("torch==2.10.0",)))
    told = [(skip.code, skip.reason) for skip in verdict.skipped if skip.matters]
    assert told == [("ED601", "Environment: A was not looked for")]


def test_ed601_a_value_that_was_not_kept_is_compared_with_nothing_and_its_presence_is_known() -> None:
    wanted = EnvironmentWanted(set={"HF_ENDPOINT": "https://mirror"}, forbidden=("UV_PUBLISH_TOKEN",))
    given = Environment(variables=(), withheld=("HF_ENDPOINT", "UV_PUBLISH_TOKEN"))
    (finding,) = environment_drift.run(facts.case(given, profile=replace(facts.PROFILE, environment=wanted)))
    assert finding.evidence == (
        "UV_PUBLISH_TOKEN is set, to what may be a password or an address; the profile forbids it",
    )


def test_passes_ed601_the_profiles_environment() -> None:
    wanted = EnvironmentWanted(set={"A": "1"}, forbidden=("LD_LIBRARY_PATH",))
    given = facts.variables(A="1")
    assert list(environment_drift.run(facts.case(given, profile=replace(facts.PROFILE, environment=wanted)))) == []


def _driver(version: str, cuda: str = "12.8") -> object:
    return replace(facts.GPU, state="present", reason="", module_version=version, cuda_version=cuda)


def test_finds_ed701_a_driver_of_an_older_cuda_major() -> None:
    build = replace(facts.TORCH, version="2.11.0+cu130", cuda="13.0")
    (finding,) = driver_too_old.run(facts.case(_driver("570.86.10"), build))
    assert finding.title == ("driver 570.86.10 is too old for torch 2.11.0+cu130: CUDA 13 needs 580.65.06 or newer")
    assert finding.evidence == (
        "kernel module 570.86.10, user-space library unknown",
        "the driver supports CUDA up to 12.8",
    )


def test_the_build_for_an_older_driver_comes_with_its_companions() -> None:
    build = replace(facts.TORCH, version="2.11.0+cu130", cuda="13.0")
    names = (("torch", "2.11.0"), ("torchvision", "0.26.0"), ("nvidia-nccl-cu13", "2.28.9"))
    installed = facts.distributions(*(facts.distribution(*pair) for pair in names))
    (finding,) = driver_too_old.run(facts.case(_driver("570.86.10"), build, installed))
    python = f"--python {facts.PREFIX}/bin/python"
    words = (
        f"{python} --torch-backend auto --reinstall-package torch --reinstall-package torchvision torch==2.11.0 "
        "torchvision==0.26.0"
    )
    assert finding.remediation.commands == (
        f"uv pip install --dry-run {words} && uv pip uninstall {python} nvidia-nccl-cu13 && uv pip install {words}",
    )


@pytest.mark.parametrize(
    ("wanted", "title"),
    [
        (DriverWanted(minimum="580.1"), "driver 570.86.10 is older than the profile's 580.1"),
        (DriverWanted(below="570"), "driver 570.86.10 is not below the profile's 570"),
    ],
)
def test_finds_ed701_a_driver_outside_the_profiles_range(wanted: DriverWanted, title: str) -> None:
    (finding,) = driver_too_old.run(facts.case(_driver("570.86.10"), profile=replace(facts.PROFILE, driver=wanted)))
    assert finding.title == title


def test_passes_ed701_an_older_minor_of_the_same_major() -> None:
    # CUDA 12.4's driver runs a 12.8 build: minor-version compatibility. Comparing 12.8 > 12.4 would be a false alarm.
    wanted = DriverWanted(minimum="525.60.13", below="600")
    case = facts.case(_driver("550.54.14", "12.4"), profile=replace(facts.PROFILE, driver=wanted))
    assert list(driver_too_old.run(case)) == []


def test_ed701_does_not_apply_without_a_driver() -> None:
    with pytest.raises(DoesNotApplyError, match="^no NVIDIA kernel module, device file or driver library$"):
        list(driver_too_old.run(facts.case()))


SOURCED = replace(facts.PROFILE, sources={"a.py": "a" * 64, "b.py": "b" * 64, "c.py": "c" * 64})


def test_finds_ed801_missing_and_changed_sources() -> None:
    sources = Sources(
        root="/srv",
        files=(
            SourceFile(path="a.py", sha256="a" * 64, problem=""),
            SourceFile(path="b.py", sha256="d" * 64, problem=""),
            SourceFile(path="c.py", sha256="", problem="missing"),
        ),
    )
    (finding,) = source_drift.run(facts.case(sources, profile=SOURCED))
    assert finding.title == "2 source files differ from the profile's"
    assert finding.evidence == ("b.py: sha256 dddddddddddd instead of bbbbbbbbbbbb", "c.py: missing")


def test_passes_ed801_equal_sources() -> None:
    files = tuple(SourceFile(path=f"{letter}.py", sha256=letter * 64, problem="") for letter in "abc")
    assert list(source_drift.run(facts.case(Sources(root="/srv", files=files), profile=SOURCED))) == []
