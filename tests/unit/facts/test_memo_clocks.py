"""Clocks that differ, are coarse or go back: nothing that a memo says is believed across them."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.facts.answer_memo import AnswerMemo, state_of
from envdoctor.facts.context import Options
from envdoctor.facts.memo_file import read_own, settled, write_memo
from envdoctor.probes.venv import digest_memo, verified_contents
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.verified_contents import Read
from envdoctor.wheels.wheel_names import WheelNames
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import edit_in_place, make_venv
from tests.factories.make_wheel import make_wheel

SECOND = 1_000_000_000
READ = 1_800_000_000 * SECOND + 500_000_000


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (READ - SECOND // 5 + 1, True),
        (READ - SECOND // 20, False),
        (READ, False),
        (READ + 3600 * SECOND + 1, False),
        # Whole seconds: the file system keeps no finer times, so the same one may be given again for two seconds.
        (READ - READ % SECOND, False),
        (READ - READ % SECOND - SECOND, False),
        (READ - READ % SECOND - 2 * SECOND, True),
        (READ - READ % SECOND + SECOND, False),
    ],
)
def test_a_time_counts_once_no_later_change_can_have_it(changed: int, expected: bool) -> None:  # noqa: FBT001
    assert settled(changed, READ) is expected
    long_ago = READ - 10_000 * SECOND
    for times in ((changed, long_ago), (long_ago, changed)):
        assert digest_memo.settled(digest_memo.pack_key(1, 2, 3, *times), READ) is expected
    assert digest_memo.settled_contents(digest_memo.pack_key(1, 2, 3, changed, long_ago), READ) is expected


@pytest.mark.parametrize("modified", [READ - 10 * SECOND - 7, READ - 10 * SECOND - READ % SECOND, READ + SECOND + 1])
def test_contents_are_remembered_for_other_venvs_by_fine_times_of_the_past_alone(tmp_path: Path, modified: int) -> None:
    at, host = tmp_path / "file", bare_host(tmp_path / "home")
    at.write_bytes(b"abc")
    key = digest_memo.pack_key(1, 2, 3, modified, READ - 5 * SECOND)
    verified_contents.save({}, [Read(key=key, sha256=b"x" * 43, path=str(at))], READ, host)
    assert (len(verified_contents.load(host)) == 1) is (modified == READ - 10 * SECOND - 7)


def test_a_memo_of_the_future_is_not_read(tmp_path: Path) -> None:
    memo = tmp_path / "memo"
    write_memo(memo, b"x")
    assert read_own(memo, 10) == b"x"
    ahead = time.time() + 3600
    os.utime(memo, (ahead, ahead))
    with pytest.raises(PermissionError) as raised:
        read_own(memo, 10)
    assert raised.value.strerror == "it was written in the future: the clock went back"


@pytest.mark.parametrize("reader", [AnswerMemo, WheelNames])
def test_whoever_reads_a_memo_of_the_future_starts_again(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    memo = tmp_path / "memo"
    write_memo(memo, b'{"a": "b"}')
    assert vars(reader(memo))["_known"] == {"a": "b"}
    os.utime(memo, (time.time() + 60, time.time() + 60))
    assert vars(reader(memo))["_known"] == {}


def test_after_the_clock_went_back_every_file_is_hashed_again_and_the_reason_said(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "thing", "1.0", files={"thing/__init__.py": "x = 1\n"})
    venv = make_venv(tmp_path / "venv", wheel)
    host = bare_host(tmp_path / "home", UV_CACHE_DIR=str(tmp_path / ".uv-cache"))
    time.sleep(0.2)
    read(venv.prefix, host, Options(deep=True)).fact(DeepFiles)
    (memo,) = (tmp_path / "home/.cache/envdoctor/digests").glob("*.memo")
    os.utime(memo, (time.time() + 3600, time.time() + 3600))
    edit_in_place(venv.site_packages / "thing/__init__.py", b"y")
    found = read(venv.prefix, host, Options(deep=True)).fact(DeepFiles)
    assert [item.owner for item in found.altered] == ["thing"]
    told = f"the digests of earlier runs cannot be read: {memo}: it was written in the future: the clock went back"
    assert found.notes == (told,)
    # What was written just now is of the present again.
    assert read(venv.prefix, host, Options(deep=True)).fact(DeepFiles).notes == ()


@pytest.mark.parametrize("ahead", [0.0, 3600.0], ids=["just now", "in the future"])
def test_a_file_of_this_moment_or_of_the_future_is_in_no_state_twice(tmp_path: Path, ahead: float) -> None:
    at = tmp_path / "file"
    at.write_bytes(b"")
    os.utime(at, (time.time() + ahead, time.time() + ahead))
    assert state_of(at) != state_of(at)
    assert state_of("/bin/sh") == state_of("/bin/sh")
    assert state_of(tmp_path / "none") is None
