"""The libraries of `import torch`, remembered: for as long as what decided them stays, and in no gate."""

import json
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.probes.loading.libraries import Libraries
from tests.factories.make_cuda import host_without_cache, make_library, make_linked_torch, object_bytes
from tests.factories.make_reading import read
from tests.factories.make_venv import Venv, make_venv, rewrite

CUDNN = "nvidia/cudnn/lib/libcudnn.so.9"


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    wheels = tmp_path / "wheels"
    cudnn = make_library(wheels, "nvidia-cudnn-cu12", "9.10.2.21", CUDNN, exports=["cudnnCreate"], runpath="$ORIGIN:")
    torch = make_linked_torch(wheels, "2.11.0", "12.8", needs={"libcudnn.so.9": ("cudnnCreate",)})
    made = make_venv(tmp_path / "venv", cudnn, torch)
    # What changed in the last tenth of a second is not remembered.
    time.sleep(0.2)
    return made


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return host_without_cache(tmp_path / "home")


def _libraries(venv: Venv, host: Host, *, gate: bool = False) -> Libraries:
    return read(venv.prefix, host, Options(only_remembered=gate)).fact(Libraries)


def _memo(host: Host) -> Path:
    (memo,) = (host.home / ".cache/envdoctor/libraries").iterdir()
    return memo


def test_a_gate_takes_what_a_check_remembered_and_writes_nothing(venv: Venv, host: Host) -> None:
    found = _libraries(venv, host, gate=True)
    assert "libcudnn.so.9" in {item.soname for item in found.providers}
    assert not (host.home / ".cache").exists()
    assert _libraries(venv, host) == found
    document = json.loads(_memo(host).read_bytes().partition(b"\n")[2])
    document["found"]["notes"] = ["read from the memo"]
    body = json.dumps(document).encode()
    _memo(host).write_bytes(b"%08x\n%b" % (zlib.crc32(body), body))
    remembered = replace(found, notes=("read from the memo",))
    assert _libraries(venv, host) == remembered
    assert _libraries(venv, replace(host, cwd=venv.prefix), gate=True) == remembered


def test_a_library_that_goes_is_missed_at_once(venv: Venv, host: Host) -> None:
    assert "libcudnn.so.9" not in {item.soname for item in _libraries(venv, host).unresolved}
    (venv.site_packages / CUDNN).unlink()
    assert "libcudnn.so.9" in {item.soname for item in _libraries(venv, host).unresolved}


def test_another_owner_of_the_same_file_is_told(venv: Venv, host: Host, tmp_path: Path) -> None:
    def owner() -> str:
        return next(item.owner for item in _libraries(venv, host).providers if item.soname == "libcudnn.so.9")

    assert owner() == "nvidia-cudnn-cu12"
    (folder,) = venv.site_packages.glob("nvidia_cudnn_cu12*.dist-info")
    folder.rename(tmp_path / "gone")
    assert owner() == ""


def test_what_names_the_current_folder_counts_there_alone(venv: Venv, host: Host) -> None:
    # cuDNN itself asks for a library now, and looks for it in the current folder.
    asking = object_bytes("libcudnn.so.9", exports=["cudnnCreate"], stubs={"libgone.so.1": ()}, runpath="$ORIGIN:")
    rewrite(venv.site_packages / CUDNN, asking)
    time.sleep(0.2)
    other = host.home.parent / "other"
    other.mkdir()
    for folder in (host.cwd, other):
        found = _libraries(venv, replace(host, cwd=folder)).unresolved
        (searched,) = [item.searched for item in found if item.soname == "libgone.so.1"]
        assert f"{folder}/" in searched
