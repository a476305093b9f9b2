"""The three profiles and locks that are shipped: every invariant, over every entry."""

import re
from pathlib import Path

import pytest
from packaging.version import Version

from envdoctor.documents import profile_store
from envdoctor.standards.lock import Lock
from envdoctor.wheels.locking import LockPlatform

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("21k-toks", "cpu-smoke", "pypi-cu128")


def _lock(name: str) -> Lock:
    return profile_store.find(name, ROOT).lock


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_and_a_profile_name_no_host(name: str) -> None:
    for path in (ROOT / "profiles" / f"{name}.toml", ROOT / "lockfiles" / f"{name}.txt"):
        assert re.findall(r"\w+://|\b[\w-]+\.(?:org|com|io|net)\b", path.read_text()) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_profile_wants_the_torch_that_its_lock_has(name: str) -> None:
    profile = profile_store.find(name, ROOT).profile
    for version in profile.python.versions:
        torch = _lock(name).select(LockPlatform(python=version, machine="x86_64").markers())["torch"]
        # The default index's version has no local part; the build's own version file has.
        assert Version(profile.torch.version).public == Version(torch.version).public
        assert Version(torch.version).local in (None, Version(profile.torch.version).local)


@pytest.mark.parametrize("name", NAMES)
def test_every_expected_provider_is_locked(name: str) -> None:
    names = {package.name for package in _lock(name).packages}
    assert set(profile_store.find(name, ROOT).profile.libraries.values()) <= names


@pytest.mark.parametrize("name", ["21k-toks", "pypi-cu128"])
def test_a_cuda_12_lock_holds_no_other_cuda(name: str) -> None:
    assert [package.name for package in _lock(name).packages if "cu13" in package.name] == []


def test_the_cpu_lock_holds_no_cuda_at_all() -> None:
    names = [package.name for package in _lock("cpu-smoke").packages]
    assert [name for name in names if name.startswith(("nvidia", "cuda", "triton"))] == []


def test_the_cpu_lock_fits_four_pythons_and_two_machines() -> None:
    lock = _lock("cpu-smoke")
    torch = next(package for package in lock.packages if package.name == "torch")
    assert len(torch.hashes) == 8
    for python in ("3.11", "3.12", "3.13", "3.14"):
        for machine in ("x86_64", "aarch64"):
            assert len(lock.select(LockPlatform(python=python, machine=machine).markers())) == 55


def test_the_lock_accepts_one_of_tritons_two_builds() -> None:
    triton = next(package for package in _lock("21k-toks").packages if package.name == "triton")
    assert triton.hashes == ("74caf5e34b66d9f3a429af689c1c7128daba1d8208df60e81106b115c00d6fca",)


def test_the_good_stack_is_what_was_attested() -> None:
    lock = _lock("21k-toks").select(LockPlatform(python="3.12", machine="x86_64").markers())
    assert len(lock) == 89
    assert {name: lock[name].version for name in ("torch", "transformers", "accelerate", "nvidia-nccl-cu12")} == {
        "torch": "2.11.0+cu128",
        "transformers": "5.6.0",
        "accelerate": "1.13.0",
        "nvidia-nccl-cu12": "2.28.9",
    }
    assert lock["torch"].hashes == ("d252cf975fb18c94a85336323ad425f473df56dab35a44b00399bd70c7a3b997",)
