"""What holds for every check, read from the registry."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.analysis.context import CheckContext
from envdoctor.checks.areas import AREAS
from envdoctor.checks.registry import Check, all_checks, judge
from envdoctor.errors import ProfileError
from envdoctor.model.fingerprint import Unread
from envdoctor.model.profile import DriverWanted, Waiver
from envdoctor.probes.loading.torch_build import ABSENT
from envdoctor.probes.machine.platform import Platform
from tests.factories import make_facts as facts

DOCKER = Platform(kernel="6.8", container="docker", wsl=False)
NOT, NO_DRIVER, COLD = "not checked:", "the GPU driver (none here)", "the compile cache (cold)"
CDI, ENGINE = "GPUs need `--device nvidia.com/gpu=all`", "start it with its engine's GPU option"
TESTS = Path(__file__).parent
HEADS = ("What it finds:", "Why it matters:", "Example:", "Fix:")


def test_codes_and_names_are_unique() -> None:
    codes = [check.code for check in all_checks()]
    names = [check.name for check in all_checks()]
    assert sorted(set(codes)) == sorted(codes)
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: check.code)
def test_every_check_is_documented(check: Check) -> None:
    assert re.fullmatch(r"ED\d{3}", check.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", check.name)
    assert check.area in AREAS
    at = [check.documentation.index(head) for head in HEADS]
    assert at == sorted(at)


def _codes_in_test_names(prefix: str) -> set[str]:
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith(prefix):
                found |= set(re.findall(r"ed\d{3}", node.name))
    return found


@pytest.mark.parametrize("state", ["finds", "passes"])
def test_every_check_has_a_failing_and_a_passing_state(state: str) -> None:
    codes = {check.code.lower() for check in all_checks()}
    assert codes - _codes_in_test_names(f"test_{state}_") == set()


def test_a_healthy_environment_has_no_finding() -> None:
    verdict = judge(facts.case())
    assert verdict.findings == ()
    assert verdict.exit_code() == 0
    assert {line.area: line.state for line in verdict.areas} == {
        "Interpreter": "ok",
        "Distributions": "ok",
        "torch build": "ok",
        "Installed files": "not-applicable",
        "Shared libraries": "ok",
        "Compile cache": "not-applicable",
        "Environment": "ok",
        "Driver / GPU": "not-applicable",
        "Sources": "not-applicable",
    }
    assert verdict.not_checked == ("not checked: the GPU driver (none here), the compile cache (cold)",)


@pytest.mark.parametrize(
    ("sections", "driver", "not_checked"),
    [
        ((facts.distributions(),), None, "no packages here: only the interpreter was checked"),
        ((ABSENT,), None, "no torch here: torch and its libraries were not checked"),
        ((facts.TORCH,), "no NVIDIA driver: this CUDA build would run on the CPU", f"not checked: {NO_DRIVER}, {COLD}"),
        ((DOCKER,), "no NVIDIA driver in this docker container (GPUs need `--gpus all`)", None),
        ((replace(DOCKER, container="podman"),), f"no NVIDIA driver in this podman container ({CDI})", None),
        ((replace(DOCKER, container="container"),), f"no NVIDIA driver in this container ({ENGINE})", None),
        ((replace(facts.TORCH, cuda="", hip="7.2.1"),), "AMD drivers are not checked", f"{NOT} the AMD driver, {COLD}"),
        ((replace(facts.TORCH, cuda="", xpu="20250302"),), "Intel GPU drivers are not checked", None),
        ((replace(facts.TORCH, cuda=""),), facts.GPU.reason, f"not checked: {COLD}"),
    ],
)
def test_nothing_is_green_that_is_not_there(
    sections: tuple[object, ...], driver: str | None, not_checked: str | None
) -> None:
    verdict = judge(facts.case(*sections))
    line = next(line for line in verdict.areas if line.area == "Driver / GPU")
    if driver is not None:
        assert (line.state, line.summary) == ("not-applicable", driver)
    if not_checked is not None:
        assert verdict.not_checked == (not_checked,)


def test_musl_is_said_beside_the_interpreter() -> None:
    alpine = replace(DOCKER, musl=True)
    line = next(line for line in judge(facts.case(alpine)).areas if line.area == "Interpreter")
    assert line.summary == "CPython 3.12.1, venv by uv 0.13.9, on musl: no wheel for glibc can be loaded"


def test_a_driver_of_another_maker_is_never_judged_by_nvidias() -> None:
    old = replace(facts.GPU, state="present", module_version="450.80.02", library_version="450.80.02")
    profile = replace(facts.PROFILE, driver=DriverWanted(minimum="570.0"))
    rocm = replace(facts.TORCH, cuda="", hip="7.2.1", version="2.10.0+rocm7.2")
    told = judge(facts.case(old, rocm, profile=profile))
    assert "ED701" not in {finding.code for finding in told.findings}
    reasons = {skip.code: skip.reason for skip in told.skipped if not skip.matters}
    assert (reasons["ED701"], reasons["ED606"]) == ("AMD drivers are not checked", "AMD GPUs are not checked")


def test_an_unread_section_is_could_not_tell_and_never_ok() -> None:
    gap = Unread(section="InstalledFiles", reason="/srv/venv: Permission denied")
    verdict = judge(CheckContext(facts=facts.fingerprint(unread=(gap,))))
    told = {(skip.code, skip.reason) for skip in verdict.skipped if skip.matters}
    assert {("ED201", "InstalledFiles: " + gap.reason), ("ED202", "InstalledFiles: " + gap.reason)} <= told
    assert verdict.exit_code() == 3
    line = next(line for line in verdict.areas if line.area == "Installed files")
    assert (line.state, line.summary) == ("unknown", f"could not tell: {gap.reason}")


@pytest.mark.parametrize(
    ("waiver", "left"),
    [
        (Waiver(code="ED404", reason="measured on this build"), 0),
        (Waiver(code="torch-build-drift", reason="measured on this build"), 0),
        (Waiver(code="ED404", reason="measured on this build", subject="torch"), 0),
        (Waiver(code="ED404", reason="measured on this build", subject="another"), 1),
        (Waiver(code="ED401", reason="measured on this build"), 1),
    ],
)
def test_a_waiver_takes_a_finding_out_and_shows_its_reason(waiver: Waiver, left: int) -> None:
    other = facts.PROFILE.torch.__class__(version="2.11.0+cu128", cuda="12.8")
    profile = replace(facts.PROFILE, torch=other)
    verdict = judge(facts.case(profile=profile, pins=("torch==2.10.0",)), [waiver])
    assert len(verdict.findings) == left
    assert [entry.reason for entry in verdict.waived] == ["measured on this build"] * (1 - left)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("ED4031", "did you mean ED403? `envdoctor checks` lists the codes"),
        ("anything", "`envdoctor checks` lists the codes"),
    ],
)
def test_a_waiver_of_no_check_is_refused(code: str, hint: str) -> None:
    profile = replace(facts.PROFILE, waivers=(Waiver(code="ED403", reason="x"), Waiver(code=code, reason="x")))
    with pytest.raises(ProfileError) as caught:
        judge(facts.case(profile=profile, pins=("torch==2.10.0",)))
    assert caught.value.message == f"profile good: waivers[1].code: there is no check `{code}`"
    assert caught.value.hint == hint


def test_an_area_is_not_shown_as_whole_for_what_was_waived_or_is_missing() -> None:
    def line(*sections: object, waivers: tuple[Waiver, ...] = ()) -> tuple[str, str]:
        verdict = judge(facts.case(*sections), waivers)
        return next((item.state, item.summary) for item in verdict.areas if item.area == "Installed files")

    gone = replace(
        facts.FILES,
        owners=(facts.owner("numpy", files=10, missing=1),),
        faults=(facts.missing("numpy", "numpy/__init__.py"),),
    )
    assert line(gone) == ("error", "10 files: 1 missing")
    assert line(gone, waivers=(Waiver(code="ED202", reason="known"),)) == ("note", "10 files: 1 missing")
    launcher = replace(
        facts.FILES,
        owners=(facts.owner("tqdm", files=10, missing=1),),
        faults=(replace(facts.missing("tqdm", "x"), path="bin/tqdm"),),
    )
    assert line(launcher) == ("ok", "10 files as their RECORDs say, by size, but for 1 that no import needs")
