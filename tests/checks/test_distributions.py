"""ED401, ED402, ED403, ED404, ED405: what is installed, against the lock."""

from dataclasses import replace

import pytest

from envdoctor.analysis.context import DoesNotApplyError
from envdoctor.checks import (
    duplicate_distribution,
    extra_distribution,
    missing_distribution,
    torch_build_drift,
    version_drift,
)
from envdoctor.checks.registry import judge
from envdoctor.model.profile import TorchWanted
from envdoctor.probes.loading.torch_build import ABSENT
from tests.factories import make_facts as facts

NCCL = "nvidia/nccl/lib/libnccl.so.2"


def test_finds_ed401_versions_that_drifted() -> None:
    installed = facts.distributions(
        facts.distribution("torch", "2.10.0"),
        facts.distribution("transformers", "5.8.1"),
        facts.distribution("tokenizers", "0.22.2"),
        facts.distribution("numpy", "2.4.5"),
    )
    pins = ("numpy==2.4.4", "tokenizers==0.22.2", "torch==2.11.0+cu128", "transformers==5.6.0")
    (finding,) = version_drift.run(facts.case(installed, profile=facts.PROFILE, pins=pins))
    assert finding.title == (
        "2 distributions have another version than the lock pins: numpy 2.4.5 instead of 2.4.4 and 1 more"
    )
    assert finding.evidence == ("numpy: 2.4.5 installed, 2.4.4 locked", "transformers: 5.8.1 installed, 5.6.0 locked")
    assert finding.remediation.commands == (f"envdoctor restore --profile good --venv {facts.PREFIX}",)


def test_passes_ed401_equal_versions_and_pins_of_another_python() -> None:
    installed = facts.distributions(facts.distribution("numpy", "2.4.4"), facts.distribution("a", "1.0.0"))
    pins = ("numpy==2.4.4", "a==1.0", "numpy==1.26.4 ; python_version < '3.12'")
    assert list(version_drift.run(facts.case(installed, pins=pins))) == []


def test_finds_ed402_what_is_locked_and_not_there() -> None:
    (finding,) = missing_distribution.run(facts.case(pins=("torch==2.10.0", "accelerate==1.13.0")))
    assert finding.title == "accelerate 1.13.0 is locked and not installed"
    assert finding.evidence == ("accelerate 1.13.0 is pinned by the lock; no dist-info of that name on sys.path",)
    assert finding.remediation.commands == (
        f"uv pip install --python {facts.PREFIX}/bin/python --no-deps accelerate==1.13.0",
    )


def test_passes_ed402_when_all_are_there() -> None:
    assert list(missing_distribution.run(facts.case(pins=("torch==2.10.0",)))) == []


def test_ed402_does_not_apply_without_a_lock() -> None:
    with pytest.raises(DoesNotApplyError, match="^no profile was given$"):
        list(missing_distribution.run(facts.case()))


def test_finds_ed403_each_extra_by_what_its_removal_would_take_along() -> None:
    installed = facts.distributions(
        facts.distribution("torch", "2.10.0"),
        facts.distribution("nvidia-nccl-cu12", "2.27.5"),
        facts.distribution("nvidia-nccl-cu13", "2.28.9"),
        facts.distribution("nvidia-cufft-cu12", "11.3"),
        facts.distribution("requests", "2.33.1", site="/home/me/leak", origin="PYTHONPATH"),
        facts.distribution("flashinfer-python", "0.6.8"),
        facts.distribution("pip", "26.3"),
    )
    files = replace(
        facts.FILES,
        contested=(
            facts.contested(
                NCCL, ("nvidia-nccl-cu12", "2.27.5"), ("nvidia-nccl-cu13", "2.28.9"), on_disk=("nvidia-nccl-cu13",)
            ),
        ),
    )
    libraries = replace(facts.LIBRARIES, providers=(facts.provider("libcufft.so.11", "nvidia-cufft-cu12", "12"),))
    found = list(
        extra_distribution.run(
            facts.case(installed, files, libraries, pins=("torch==2.10.0", "nvidia-nccl-cu12==2.27.5"))
        )
    )
    assert [(finding.severity, finding.title, finding.evidence) for finding in found] == [
        (
            "warning",
            "1 distribution is not in the lock (overwriting)",
            ("nvidia-nccl-cu13 2.28.9: its removal deletes 1 file also owned by nvidia-nccl-cu12",),
        ),
        (
            "warning",
            "1 distribution is not in the lock (load-bearing)",
            ("nvidia-cufft-cu12 11.3: its removal takes libcufft.so.11 away from torch",),
        ),
        (
            "warning",
            "1 distribution is not in the lock (shadowing)",
            ("requests 2.33.1: it comes from /home/me/leak (PYTHONPATH)",),
        ),
        (
            "note",
            "1 distribution is not in the lock (harmless)",
            ("flashinfer-python 0.6.8", "no locked distribution shares a file or a library with it"),
        ),
    ]
    assert [finding.remediation.commands for finding in found] == [(), (), (), ()]


def test_passes_ed403_the_lock_and_a_venvs_seeds() -> None:
    installed = facts.distributions(facts.distribution("torch", "2.10.0"), facts.distribution("pip", "26.3"))
    assert list(extra_distribution.run(facts.case(installed, pins=("torch==2.10.0",)))) == []


def test_finds_ed404_another_build_of_the_same_public_version() -> None:
    profile = replace(facts.PROFILE, torch=TorchWanted(version="2.11.0+cu128", cuda="12.8", git_version="70d99e998b49"))
    build = replace(
        facts.TORCH, version="2.11.0+cu130", cuda="13.0", git_version="deadbeef", distribution_version="2.11.0"
    )
    (finding,) = torch_build_drift.run(facts.case(build, profile=profile))
    assert finding.title == "torch is 2.11.0+cu130; the profile wants 2.11.0+cu128"
    assert finding.evidence == (
        "version: 2.11.0+cu130 instead of 2.11.0+cu128",
        "CUDA: 13.0 instead of 12.8",
        "git commit: deadbeef instead of 70d99e998b49",
        f"read from {facts.SITE}/torch/version.py (the distribution calls itself 2.11.0)",
    )


def test_finds_ed404_no_torch_although_its_metadata_is_there() -> None:
    build = replace(ABSENT, distribution_version="2.10.0")
    (finding,) = torch_build_drift.run(facts.case(build, profile=facts.PROFILE))
    assert finding.title == "torch is not installed; the profile wants 2.10.0+cu128"
    assert finding.evidence == (
        "no torch/__init__.py in any folder of sys.path",
        "although the metadata of torch 2.10.0 is there",
    )


def test_passes_ed404_the_wanted_build() -> None:
    assert list(torch_build_drift.run(facts.case(profile=facts.PROFILE))) == []


def test_finds_ed405_two_metadata_folders() -> None:
    stale = facts.distribution("torch", "", folder="torch-1.12.1.dist-info", has_metadata=False, has_record=False)
    installed = facts.distributions(replace(stale, shadowed=True), facts.distribution("torch", "2.10.0"))
    (finding,) = duplicate_distribution.run(facts.case(installed))
    assert finding.title == "torch has 2 metadata folders"
    assert finding.evidence == (
        f"{facts.SITE}/torch-1.12.1.dist-info (site-packages): version none, holds neither METADATA nor RECORD",
        f"{facts.SITE}/torch-2.10.0.dist-info (site-packages): version 2.10.0, holds METADATA and RECORD",
        "torch/version.py says 2.10.0+cu128",
    )
    assert finding.remediation.commands == (f"rm -r {facts.SITE}/torch-1.12.1.dist-info",)


def test_finds_ed405_a_leak_in_front_that_is_kept_out() -> None:
    leak = facts.distribution("torch", "2.6.0", site="/leak", origin="PYTHONPATH")
    installed = facts.distributions(leak, facts.distribution("torch", "2.10.0", shadowed=True))
    (finding,) = duplicate_distribution.run(facts.case(installed))
    assert finding.title == "torch has 2 metadata folders; the one in /leak comes first"
    assert finding.remediation.commands == ("unset PYTHONPATH",)


def test_passes_ed405_one_folder_each() -> None:
    assert list(duplicate_distribution.run(facts.case())) == []


def test_ed404_another_stack_explains_what_else_the_lock_finds() -> None:
    other = facts.distributions(
        facts.distribution("torch", "2.13.0+cpu"), facts.distribution("numpy", "1.0"), facts.distribution("extra", "1")
    )
    build = replace(facts.TORCH, version="2.13.0+cpu", cuda="", distribution_version="2.13.0+cpu")
    profile = replace(facts.PROFILE, python=replace(facts.PROFILE.python, versions=("3.11",)))
    pins = ("torch==2.10.0+cu128", "numpy==2.4.4", "tqdm==4.67.1", "absent==1")
    verdict = judge(facts.case(other, build, profile=profile, pins=pins))
    assert [(item.code, at in verdict.consequences) for at, item in enumerate(verdict.findings)] == [
        ("ED404", False),
        ("ED102", True),
        ("ED401", True),
        ("ED402", True),
        ("ED403", True),
    ]
    assert verdict.findings[0].evidence[-1] == (
        "4 of 4 locked distributions are not installed at their version: another stack"
    )


def test_ed404_one_build_swapped_in_explains_nothing_else() -> None:
    items = [facts.distribution(name, "1") for name in ("a", "b", "c")]
    other = facts.distributions(facts.distribution("torch", "2.10.0"), *items, facts.distribution("numpy", "1.0"))
    build = replace(facts.TORCH, version="2.10.0", cuda="13.0")
    pins = ("torch==2.10.0+cu128", "numpy==2.4.4", "a==1", "b==1", "c==1")
    verdict = judge(facts.case(other, build, profile=facts.PROFILE, pins=pins))
    assert verdict.consequences == {}
