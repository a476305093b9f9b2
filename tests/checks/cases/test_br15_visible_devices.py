"""CUDA_VISIBLE_DEVICES and MIG mistakes: fewer GPUs than the launch needs (pytorch issues 95784 and 131650)."""

from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.model.profile import GpuWanted, Profile
from tests.factories import make_facts as facts
from tests.factories.examine_venv import commands_of, environment_after, first, verdict_of
from tests.factories.make_driver import FakeGpu, host_with, make_driver
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv

EIGHT = tuple(FakeGpu(uuid=f"GPU-{at}aaa") for at in range(8))
ALL = "export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7"


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    root = tmp_path_factory.mktemp("torch")
    return make_venv(root / "venv", make_torch(root / "wheels", "2.10.0", "12.8"))


def _profile(count: int) -> Profile:
    return replace(
        facts.PROFILE,
        torch=replace(facts.PROFILE.torch, version="2.10.0"),
        python=replace(facts.PROFILE.python, versions=("3.11", "3.12", "3.13", "3.14")),
        gpu=GpuWanted(count=count),
    )


@pytest.mark.parametrize(
    ("value", "title", "command"),
    [
        (
            "0,8,1",
            "CUDA_VISIBLE_DEVICES='0,8,1' leaves 1 of 8 GPUs visible: '8' names no GPU and ends the list",
            "export CUDA_VISIBLE_DEVICES=0,1",
        ),
        (
            "0,0",
            "CUDA_VISIBLE_DEVICES='0,0' names '0' twice, which leaves no GPU visible",
            "export CUDA_VISIBLE_DEVICES=0",
        ),
        (
            "cuda:0",
            "CUDA_VISIBLE_DEVICES='cuda:0' leaves no GPU visible: 'cuda:0' names no GPU and ends the list",
            "export CUDA_VISIBLE_DEVICES=0",
        ),
        (
            "GPU-1aaa,GPU-9",
            None,
            None,
        ),
        (
            "GPU-9,GPU-1aaa",
            "CUDA_VISIBLE_DEVICES='GPU-9,GPU-1aaa' leaves no GPU visible: 'GPU-9' names no GPU and ends the list",
            "export CUDA_VISIBLE_DEVICES=GPU-1aaa",
        ),
    ],
)
def test_br15_a_mistake_in_the_list(
    tmp_path: Path, venv: Venv, value: str, title: str | None, command: str | None
) -> None:
    host = host_with(make_driver(tmp_path, gpus=EIGHT), tmp_path / "home", CUDA_VISIBLE_DEVICES=value)
    verdict = verdict_of(venv.prefix, host)
    if title is None:
        assert verdict.findings == ()
        return
    assert first(verdict, tmp_path) == ("ED606", title)
    assert commands_of(verdict.findings[0], tmp_path) == [command]
    mended = environment_after(host, *verdict.findings[0].remediation.commands)
    assert verdict_of(venv.prefix, mended).findings == ()


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ("0,1,2,3,4", "5 GPUs are visible; the profile needs 8"),
        ("", "0 GPUs are visible; the profile needs 8"),
        ("NoDevFiles", "0 GPUs are visible; the profile needs 8"),
        ("-1", "0 GPUs are visible; the profile needs 8"),
    ],
)
def test_br15_too_few_for_the_profile(tmp_path: Path, venv: Venv, value: str, title: str) -> None:
    host = host_with(make_driver(tmp_path, gpus=EIGHT), tmp_path / "home", CUDA_VISIBLE_DEVICES=value)
    verdict = verdict_of(venv.prefix, host, profile=_profile(8))
    assert first(verdict, tmp_path) == ("ED606", title)
    assert commands_of(verdict.findings[0], tmp_path) == [ALL]
    mended = environment_after(host, *verdict.findings[0].remediation.commands)
    assert verdict_of(venv.prefix, mended, profile=_profile(8)).findings == ()


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles", "0", " 3, 2", "7"])
def test_br15_a_list_that_is_meant_is_no_finding(tmp_path: Path, venv: Venv, value: str) -> None:
    host = host_with(make_driver(tmp_path, gpus=EIGHT), tmp_path / "home", CUDA_VISIBLE_DEVICES=value)
    assert verdict_of(venv.prefix, host).findings == ()


MIG = (FakeGpu(uuid="GPU-0aaa", mig=("MIG-aa", "MIG-bb")), FakeGpu(uuid="GPU-1aaa"))


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ("MIG-aa,MIG-bb", "CUDA_VISIBLE_DEVICES names 2 MIG instances; a process uses the first one only"),
        ("0", "GPU 0 is in MIG mode, and CUDA_VISIBLE_DEVICES names the GPU instead of one of its instances"),
    ],
)
def test_br15_mig(tmp_path: Path, venv: Venv, value: str, title: str) -> None:
    host = host_with(make_driver(tmp_path, gpus=MIG), tmp_path / "home", CUDA_VISIBLE_DEVICES=value)
    verdict = verdict_of(venv.prefix, host)
    assert first(verdict, tmp_path) == ("ED606", title)
    assert commands_of(verdict.findings[0], tmp_path) == ["export CUDA_VISIBLE_DEVICES=MIG-aa"]
    mended = environment_after(host, *verdict.findings[0].remediation.commands)
    assert verdict_of(venv.prefix, mended).findings == ()
