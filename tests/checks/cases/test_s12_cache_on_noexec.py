"""A compile cache on a noexec mount, on a read-only or a full one (S12; pytorch issue 91005)."""

import ctypes
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.facts.host import Host
from envdoctor.model.profile import CompileWanted
from tests.factories import make_facts as facts
from tests.factories.examine_venv import environment_after, outline, verdict_of
from tests.factories.make_cache import shared_object
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv
from tests.factories.small_disk import leave, read_only, roomy, small_disk, writable


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    root = tmp_path_factory.mktemp("s12")
    return make_venv(root / "venv", make_torch(root / "wheels", "2.9.0+cu128", "12.8"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    try:
        with small_disk(tmp_path / "m") as folder:
            yield folder
    except OSError as error:
        pytest.skip(str(error))


def _on(disk: Path, root: Path) -> Host:
    return bare_host(
        root / "home", TORCHINDUCTOR_CACHE_DIR=str(disk / "not/yet"), TRITON_CACHE_DIR=str(disk / "triton")
    )


def _remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)


def test_s12_what_is_compiled_cannot_be_mapped_on_a_noexec_mount(venv: Venv, disk: Path, tmp_path: Path) -> None:
    _remount(disk, "noexec")
    (disk / "k.so").write_bytes(shared_object())
    with pytest.raises(OSError, match="failed to map segment from shared object"):
        ctypes.CDLL(str(disk / "k.so"))
    host = _on(disk, tmp_path)
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        "warning ED502 the inductor, triton cache is on a mount with noexec: the first kernel fails to map its code"
    ]
    finding = verdict.findings[0]
    assert [line.replace(str(tmp_path), "[TMP]") for line in finding.evidence] == [
        "inductor: [TMP]/m/not/yet (TORCHINDUCTOR_CACHE_DIR) on [TMP]/m, tmpfs: noexec",
        "triton: [TMP]/m/triton (TRITON_CACHE_DIR) on [TMP]/m, tmpfs: noexec",
    ]
    assert finding.remediation.commands == (
        'export TORCHINDUCTOR_CACHE_DIR="$HOME/.cache/inductor"',
        'export TRITON_CACHE_DIR="$HOME/.cache/triton"',
    )
    healed = environment_after(host, *finding.remediation.commands)
    there = Path(healed.environ["TRITON_CACHE_DIR"])
    there.mkdir(parents=True)
    (there / "k.so").write_bytes(shared_object())
    assert ctypes.CDLL(str(there / "k.so"))
    assert verdict_of(venv.prefix, healed).findings == ()


def test_s12_a_profile_that_compiles_makes_it_an_error(venv: Venv, disk: Path, tmp_path: Path) -> None:
    _remount(disk, "noexec")
    profile = replace(facts.PROFILE, compile=CompileWanted(threads=1))
    found = [(one.code, one.severity) for one in verdict_of(venv.prefix, _on(disk, tmp_path), profile=profile).findings]
    assert ("ED502", "error") in found


def test_s12_the_default_places_count_too(venv: Venv, disk: Path, tmp_path: Path) -> None:
    _remount(disk, "noexec")
    host = replace(bare_host(tmp_path / "home"), tmp=disk)
    assert outline(verdict_of(venv.prefix, host), tmp_path) == [
        "warning ED502 the inductor cache is on a mount with noexec: the first kernel fails to map its code"
    ]


@pytest.mark.parametrize("state", ["read-only", "full", "without inodes"])
def test_s12_nothing_can_be_written_there(venv: Venv, disk: Path, tmp_path: Path, state: str) -> None:
    host = _on(disk, tmp_path)
    assert verdict_of(venv.prefix, host).findings == ()
    if state == "read-only":
        read_only(disk)
    elif state == "full":
        (disk / "filling").write_bytes(b"x")
        leave(disk, 0)
    else:
        _remount(disk, "nr_inodes=1")
    effect = {
        "read-only": "a read-only mount",
        "full": "a full filesystem",
        "without inodes": "a filesystem without free inodes",
    }
    assert outline(verdict_of(venv.prefix, host), tmp_path) == [
        f"warning ED502 the inductor, triton cache is on {effect[state]}: nothing that is compiled can be written"
    ]
    writable(disk)
    roomy(disk)
    _remount(disk, "nr_inodes=0")
    assert verdict_of(venv.prefix, host).findings == ()


def test_passes_ed502_without_torch(disk: Path, tmp_path: Path) -> None:
    _remount(disk, "noexec")
    assert verdict_of(make_venv(tmp_path / "bare").prefix, _on(disk, tmp_path)).findings == ()
