"""A copy of a venv by hard links, and what an impact answer tries an install on."""

import os
import stat
from pathlib import Path

import pytest

from envdoctor.explore.scratch import scratch_copy
from envdoctor.swap.hardlinks import copy_file, hard_link, linked_copy

SITE = "lib/python3.11/site-packages"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    venv = tmp_path / "venv"
    for name in ("pyvenv.cfg", "bin/activate", "bin/nested/tool", f"{SITE}/torch/lib.so", f"{SITE}/torch.pth"):
        (venv / name).parent.mkdir(parents=True, exist_ok=True)
        (venv / name).write_text(name)
    (venv / "lib64").symlink_to("lib")
    (venv / "bin/python").symlink_to("/usr/bin/env")
    # The store of a venv that is a mount point, with the copy that is being made.
    (venv / ".envdoctor/venv/builds/under-way").mkdir(parents=True)
    os.utime(venv / SITE / "torch", (1, 2))
    return venv


def _shared(one: Path, other: Path) -> bool:
    return one.samefile(other)


def test_a_linked_copy_shares_what_is_replaced_and_copies_what_is_written(venv: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    linked_copy(venv, copy)
    shared = {
        name: _shared(venv / name, copy / name)
        for name in ("pyvenv.cfg", "bin/activate", "bin/nested/tool", f"{SITE}/torch/lib.so", f"{SITE}/torch.pth")
    }
    assert shared == {
        "pyvenv.cfg": False,
        "bin/activate": False,
        "bin/nested/tool": True,
        f"{SITE}/torch/lib.so": True,
        f"{SITE}/torch.pth": True,
    }
    assert (copy / "lib64").readlink() == Path("lib")
    assert (copy / "bin/python").readlink() == Path("/usr/bin/env")
    assert sorted(entry.name for entry in copy.iterdir()) == ["bin", "lib", "lib64", "pyvenv.cfg"]
    assert (copy / SITE / "torch").stat().st_mtime == 2


def test_a_read_only_folder_is_filled_and_can_be_changed_by_its_owner(venv: Path, tmp_path: Path) -> None:
    (venv / SITE / "torch").chmod(0o555)
    linked_copy(venv, tmp_path / "copy")
    assert stat.S_IMODE((tmp_path / "copy" / SITE / "torch").stat().st_mode) == 0o755
    assert (tmp_path / "copy" / SITE / "torch/lib.so").read_text() == f"{SITE}/torch/lib.so"


def test_a_link_across_file_systems_is_not_made_and_another_error_is_one(tmp_path: Path) -> None:
    assert hard_link("/proc/self/status", str(tmp_path / "status")) is False
    (tmp_path / "there").write_text("")
    (tmp_path / "taken").write_text("")
    with pytest.raises(FileExistsError):
        hard_link(str(tmp_path / "there"), str(tmp_path / "taken"))


def test_a_scratch_copy_leaves_the_store_out_and_leads_its_links_to_itself(venv: Path) -> None:
    os.mkfifo(venv / "pipe")
    with scratch_copy(venv) as scratch:
        copy = Path(scratch.copy)
        assert sorted(entry.name for entry in copy.iterdir()) == ["bin", "lib", "lib64", "pyvenv.cfg"]
        assert (copy / "lib64").resolve() == copy.resolve() / "lib"
        assert scratch.left_out == [str(venv / "pipe")]
        assert not _shared(venv / f"{SITE}/torch.pth", copy / f"{SITE}/torch.pth")
        assert (copy / f"{SITE}/torch/lib.so").read_text() == f"{SITE}/torch/lib.so"
    assert not copy.exists()


def test_holes_stay_holes(tmp_path: Path) -> None:
    """A file of terabytes that holds two words is copied as that."""
    source = tmp_path / "sparse"
    with source.open("wb") as file:
        file.write(b"one")
        file.seek(1 << 40)
        file.write(b"two")
    source.chmod(0o640)
    copy_file(str(source), str(tmp_path / "copy"))
    status = (tmp_path / "copy").stat()
    assert (status.st_size, status.st_mode & 0o777) == ((1 << 40) + 3, 0o640)
    assert status.st_blocks * 512 < 1 << 20
    with (tmp_path / "copy").open("rb") as file:
        assert file.read(4) == b"one\0"
        file.seek(1 << 40)
        assert file.read() == b"two"


def test_a_write_that_takes_a_part_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As write(2) may on any file system: no test can make a real one do it and then go on."""
    source, copy = tmp_path / "sparse", tmp_path / "copy"
    source.write_bytes(os.urandom(100_000))
    os.truncate(source, 1 << 22)
    with monkeypatch.context() as patched:
        for name in ("write", "pwrite"):
            real = getattr(os, name)
            patched.setattr(os, name, lambda file, data, *at, real=real: real(file, data[: len(data) // 2 + 1], *at))
        copy_file(str(source), str(copy))
    assert copy.read_bytes() == source.read_bytes()
