"""What counts as a change of a venv that is about to be exchanged, and what does not."""

import os
import shutil
from pathlib import Path

import pytest

from envdoctor.errors import RestoreError
from envdoctor.facts.host import Host
from envdoctor.model.frozen import replace
from envdoctor.swap.caches_inside import CachesInside
from envdoctor.swap.seen import SeenVenv

SITE = "lib/python3.11/site-packages"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    for folder in (f"{SITE}/torch", f"{SITE}/fxgraph", "lib/cache/inductor/ab", "share/.triton"):
        (tmp_path / "venv" / folder).mkdir(parents=True)
    (tmp_path / "venv" / SITE / "torch/x.py").write_text("X = 1")
    return tmp_path / "venv"


def _host(**variables: str) -> Host:
    return replace(Host.current(), environ=variables)


def _changed(seen: SeenVenv) -> str:
    try:
        seen.refuse_changed()
    except RestoreError as error:
        return error.message.partition("meanwhile: ")[2]
    return ""


def test_a_file_of_another_number_alone_is_the_same(venv: Path) -> None:
    """As a file system in user space shows it, which gives files other numbers when they are looked up."""
    path, seen = venv / SITE / "torch/x.py", SeenVenv(venv, _host())
    before = path.stat()
    shutil.copy2(path, venv.parent / "x.py")
    (venv.parent / "x.py").rename(path)
    assert path.stat().st_ino != before.st_ino
    assert _changed(seen) == ""
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert _changed(seen) == f"{SITE}/torch/x.py"


@pytest.mark.parametrize(
    ("folder", "counts"),
    [
        (f"{SITE}/torch/__pycache__", False),
        ("share/.triton", False),
        ("lib/cache/inductor/ab", False),
        (f"{SITE}/fxgraph", True),
        ("lib/cache", True),
    ],
)
def test_what_is_written_while_a_training_runs(venv: Path, folder: str, counts: bool) -> None:  # noqa: FBT001
    seen = SeenVenv(venv, _host(TORCHINDUCTOR_CACHE_DIR=f"{venv}/lib/cache/inductor"))
    (venv / folder).mkdir(exist_ok=True)
    (venv / folder / "kernel").write_text("1")
    assert _changed(seen) == (f"{folder}/kernel" if counts else "")


@pytest.mark.parametrize("named", ["", "/lib", "/lib/python3.11", f"/{SITE}", f"/{SITE}/torch"])
def test_a_variable_makes_no_cache_of_the_packages(venv: Path, named: str) -> None:
    caches = CachesInside(venv, _host(TORCHINDUCTOR_CACHE_DIR=f"{venv}{named}"))
    assert not caches.hold(f"{SITE}/torch/x.py")
    assert caches.hold("share/.triton/kernel")


def test_what_cannot_be_read_is_a_state_like_another(venv: Path) -> None:
    at, made = os.open(venv / "share", os.O_RDONLY), 0
    while made < 20:
        os.mkdir("d" * 250, dir_fd=at)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at, made = deeper, made + 1
    os.close(at)
    seen = SeenVenv(venv, _host())
    assert _changed(seen) == ""
    (venv / "share/mine").write_text("")
    assert _changed(seen) == "share/mine"
    shutil.rmtree(venv / "share")
