"""Wheels that are hashed in uv's cache while a venv is built: what that proves of the venv, and what it does not."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from envdoctor.probes.loading.comparison import comparison
from envdoctor.probes.venv.parsed_record import RecordsAhead
from envdoctor.stack.hashed_ahead import HashedAhead, ReadWhileBuilt
from envdoctor.stack.verify import Verified
from envdoctor.stack.verify_copy import known_contents, verify_copy
from envdoctor.standards.lock import LockedPackage
from tests.factories.make_reading import bare_host
from tests.factories.make_venv import Venv, edit_in_place, make_venv, rewrite
from tests.factories.make_wheel import make_wheel

MODULE = "thing/__init__.py"
LOCKED = {"thing": LockedPackage(name="thing", version="1.0", hashes=("0" * 64,))}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _built(folder: Path, cache: Path, over: Event | None = None) -> tuple[Venv, HashedAhead]:
    """Build a venv, and read meanwhile what comes into the cache."""
    ahead = HashedAhead(cache, over or Event())
    wheel = make_wheel(folder / "wheels", "thing", "1.0", files={MODULE: b"fix = 1\n", "thing/data.bin": b"x" * 5000})
    venv = make_venv(folder / "venv", wheel, cache=cache)
    ahead.look()
    assert ahead.read == []
    time.sleep(0.35)
    ahead.look()
    return venv, ahead


def _verify(venv: Venv, ahead: HashedAhead) -> tuple[Verified, set[str]]:
    """Return the verification, and the files that were read at the end."""
    host = bare_host(venv.prefix.parent / "home")
    found = ReadWhileBuilt(records=RecordsAhead(), files=ahead.read)
    verified, reading = verify_copy(venv.prefix, venv.prefix, LOCKED, host, lambda _: None, {}, found)
    return verified, {item.row[0] for item in comparison(reading).pending}


def test_what_was_read_in_the_cache_is_not_read_at_the_end_and_is_remembered(tmp_path: Path, cache: Path) -> None:
    venv, ahead = _built(tmp_path, cache)
    linked = {
        str(path.relative_to(venv.site_packages))
        for path in venv.site_packages.rglob("*")
        if path.is_file() and path.stat().st_nlink > 1
    }
    verified, at_the_end = _verify(venv, ahead)
    assert (verified.faults, verified.remembered) == ((), 0)
    assert MODULE in linked
    assert at_the_end.isdisjoint(linked)
    assert "thing-1.0.dist-info/INSTALLER" in at_the_end
    known = known_contents(bare_host(tmp_path / "home"), "changed")
    assert len(known) >= len(linked)


@pytest.mark.parametrize("change", [edit_in_place, rewrite])
def test_what_is_changed_after_it_was_read_is_read_again(
    tmp_path: Path, cache: Path, change: Callable[[Path, bytes], object]
) -> None:
    venv, ahead = _built(tmp_path, cache)
    change(venv.site_packages / MODULE, b"fix = 2\n")
    verified, at_the_end = _verify(venv, ahead)
    assert [str(fault) for fault in verified.faults] == [f"thing: {MODULE}: does not have the recorded hash"]
    assert MODULE in at_the_end


def test_a_wheel_with_other_bytes_than_its_record_says_is_found(tmp_path: Path, cache: Path) -> None:
    ahead = HashedAhead(cache, Event())
    wheel = make_wheel(tmp_path / "wheels", "thing", "1.0", files={MODULE: b"fix = 1\n"})
    venv = make_venv(tmp_path / "venv", wheel, cache=cache)
    edit_in_place(venv.site_packages / MODULE, b"fix = 2\n")  # the file in the cache is the same one
    ahead.look()
    time.sleep(0.35)
    ahead.look()
    assert MODULE in {"/".join(Path(item.path).parts[-2:]) for item in ahead.read}
    verified, _ = _verify(venv, ahead)
    assert [str(fault) for fault in verified.faults] == [f"thing: {MODULE}: does not have the recorded hash"]


def test_nothing_is_read_after_the_build_has_ended(tmp_path: Path, cache: Path) -> None:
    over = Event()
    over.set()
    venv, ahead = _built(tmp_path, cache, over)
    assert ahead.read == []
    assert _verify(venv, ahead)[0].faults == ()


def test_what_was_in_the_cache_before_and_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    archive = tmp_path / "archive-v0"
    (archive / "old").mkdir(parents=True)
    (archive / "old" / "a.py").write_text("1")
    ahead = HashedAhead(tmp_path, Event())
    new = archive / "new"
    new.mkdir()
    os.mkfifo(new / "pipe")
    (new / "link").symlink_to("/etc/hostname")
    (new / "closed").mkdir(mode=0)
    (new / "a.py").write_text("1")
    os.utime(new / "a.py", (1_700_000_000, 1_700_000_000))  # a whole second: many files have that time
    (new / "b.py").write_text("2")
    ahead.look()
    time.sleep(0.35)
    ahead.look()
    assert [Path(item.path).name for item in ahead.read] == ["b.py"]
