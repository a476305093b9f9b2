"""Filling a wheelhouse from an index that misbehaves, and restoring from it without one."""

import errno
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels.download import AGAIN, Download, DownloadError
from envdoctor.wheels.index import File
from envdoctor.wheels.locked_wheels import jobs_of
from envdoctor.wheels.urls import Access
from tests.factories.make_index import Fault, Index, make_index
from tests.factories.make_stack import PYTHON, Stack, make_stack
from tests.factories.make_wheel import make_wheel, sha256

LARGE = "large-1.0-py3-none-any.whl"
ACCESS = Access(environment={}, home=Path("/nonexistent"))


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Make a stack with one wheel of some size."""
    return make_stack(
        tmp_path, make_wheel(tmp_path / "wheels", "large", "1.0", files={"large.bin": os.urandom(400_000)})
    )


@pytest.fixture
def index(stack: Stack) -> Iterator[Index]:
    """Serve the stack's wheels, with nothing else configured."""
    with make_index(stack.folder / "wheels") as made:
        stack.environment |= {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "PIP_INDEX_URL": made.url}
        yield made


def _fetch(stack: Stack) -> tuple[int, str, str]:
    answer = stack.run("fetch", "-p", "small", "--wheelhouse", "house")
    at = answer.err.find("error: ")
    return answer.code, answer.out, answer.err[at:] if at >= 0 else ""


def _house(stack: Stack) -> dict[str, str]:
    return {path.name: sha256(path) for path in (stack.folder / "house").glob("*.whl")}


def test_a_fetched_wheelhouse_restores_where_no_index_is(stack: Stack, index: Index) -> None:
    code, out, _ = _fetch(stack)
    whole = "FOLDER/house holds 4 of 4 wheels (402.0 kB), verified by sha256: "
    assert (code, _plain_size(out)) == (0, _plain_size(whole + "4 fetched now, 0 there before\n"))
    assert _house(stack) == {wheel.name: sha256(wheel) for wheel in stack.wheels}
    index.requests.clear()
    code, out, _ = _fetch(stack)
    assert (code, _plain_size(out)) == (0, _plain_size(whole + "0 fetched now, 4 there before\n"))
    assert index.downloads() == []
    nothing = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "UV_CACHE_DIR": str(stack.folder / "fresh")}
    answer = stack.restore("--offline", "--wheelhouse", "house", "--json", extra=nothing)
    assert answer.code == 0, answer.err
    packages = json.loads(answer.out)["plan"]["packages"]
    assert {package["source"]["location"] for package in packages} == {"FOLDER/house"}


def _plain_size(text: str) -> str:
    head, _, rest = text.partition(" (")
    return head + rest.partition(")")[2]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_that_breaks_off_is_taken_up_again(stack: Stack, index: Index, *, ranges: bool) -> None:
    index.ranges = ranges
    index.faults[LARGE] = "truncated"
    index.cut_after = 150_000
    code, _, err = _fetch(stack)
    part = stack.folder / "house" / f".{LARGE}.part"
    if ranges:
        # Each try begins where the one before it ended.
        size = (stack.folder / "wheels" / LARGE).stat().st_size
        assert (code, err) == (0, "")
        begun = [line.split(" ")[2] for line in index.requests if LARGE in line and " bytes=" in line]
        assert begun == ["bytes=150000-", "bytes=300000-"]
        assert size > 300_000
    else:
        assert code == 4
        assert err == (
            "error: 1 wheel is missing:\n"
            f"  large 1.0: {index.url.removesuffix('simple/')}files/{LARGE}: the connection broke off "
            f"(150000 of {(stack.folder / 'wheels' / LARGE).stat().st_size} bytes came)\n\n"
            "hint: run the same command again: it goes on where it stopped\n"
        )
        assert part.stat().st_size == 150_000
        del index.faults[LARGE]
        assert _fetch(stack)[0] == 0
    assert not part.exists()
    assert _house(stack) == {wheel.name: sha256(wheel) for wheel in stack.wheels}


def test_what_an_earlier_fetch_left_is_used_only_when_it_fits(stack: Stack, index: Index) -> None:
    whole = (stack.folder / "wheels" / LARGE).read_bytes()
    house = stack.folder / "house"
    house.mkdir()
    part = house / f".{LARGE}.part"
    for left, asked in (
        (whole[:200_000], ["bytes=200000-"]),
        (b"x" * 200_000, ["bytes=200000-", ""]),
        (whole + b"x", [f"bytes={len(whole) + 1}-", ""]),
        (whole, []),
    ):
        (house / LARGE).unlink(missing_ok=True)
        part.write_bytes(left)
        index.requests.clear()
        assert _fetch(stack)[0] == 0
        assert [line.partition(LARGE)[2].strip() for line in index.requests if LARGE in line] == asked
        assert (house / LARGE).read_bytes() == whole


@pytest.mark.parametrize(
    ("fault", "reason", "hint"),
    [
        (
            "missing",
            "the index names BASEfiles/plain-3.0-py3-none-any.whl, but does not serve it (404)",
            "run the same command again: it goes on where it stopped",
        ),
        (
            "forbidden",
            "BASEfiles/plain-3.0-py3-none-any.whl: it answered 403 Forbidden",
            "run the same command again: it goes on where it stopped",
        ),
        (
            "cut",
            "BASEfiles/plain-3.0-py3-none-any.whl: the connection broke off "
            "(Remote end closed connection without response)",
            "run the same command again: it goes on where it stopped",
        ),
        (
            "changed",
            "BASEfiles/plain-3.0-py3-none-any.whl is not the locked wheel: it hashes to GOT, the lock allows LOCKED",
            "do not install it; find out which source serves other bytes (a rebuilt wheel, a mirror, tampering)",
        ),
    ],
)
def test_one_wheel_that_fails_leaves_the_others_going(
    stack: Stack, index: Index, fault: Fault, reason: str, hint: str
) -> None:
    plain = "plain-3.0-py3-none-any.whl"
    index.faults[plain] = fault
    code, out, err = _fetch(stack)
    assert code == 4
    assert out.startswith("FOLDER/house holds 3 of 4 wheels (")
    locked = sha256(stack.folder / "wheels" / plain)
    got = err.partition("hashes to ")[2][:64]
    told = err.replace(index.url.removesuffix("simple/"), "BASE").replace(locked, "LOCKED")
    assert told.replace(got or "GOT", "GOT") == f"error: 1 wheel is missing:\n  plain 3.0: {reason}\n\nhint: {hint}\n"
    assert sorted(_house(stack)) == sorted(wheel.name for wheel in stack.wheels if wheel.name != plain)
    del index.faults[plain]
    assert _fetch(stack)[0] == 0


def test_a_package_that_no_place_has_is_named_with_what_to_do(stack: Stack) -> None:
    missing = stack.folder / "wheels" / "plain-3.0-py3-none-any.whl"
    kept = missing.rename(stack.folder / missing.name)
    code, _, err = _fetch(stack)
    assert code == 4
    assert err == (
        "error: 1 wheel is missing:\n"
        "  plain 3.0: no configured place has it\n\n"
        f"hint: download its CPython {PYTHON} wheel (sha256 {sha256(kept)}) on a machine with access, "
        "put it into FOLDER/house, and run the same command again: it verifies the wheel\n"
    )
    kept.rename(stack.folder / "house" / kept.name)
    assert _fetch(stack)[:1] == (0,)


@pytest.mark.parametrize("indexed", [True, False], ids=["on an index", "in a folder"])
def test_a_wheel_for_another_machine_is_named(stack: Stack, request: pytest.FixtureRequest, *, indexed: bool) -> None:
    other = make_wheel(stack.folder / "wheels", "elsewhere", "1.0", tag="cp39-cp39-linux_s390x")
    stack.lock(*stack.wheels, other)
    place = request.getfixturevalue("index").url if indexed else "FOLDER/wheels"
    code, _, err = _fetch(stack)
    assert (code, err) == (
        4,
        "error: 1 wheel is missing:\n"
        f"  elsewhere 1.0: {place} has {other.name}, with a locked hash, for another Python or machine\n\n"
        f"hint: the lock has none for this Python and machine: lock it again with `--python {PYTHON} --machine "
        f"{os.uname().machine}`\n",
    )


def test_a_file_of_the_same_name_is_not_overwritten(stack: Stack) -> None:
    other = make_wheel(stack.folder / "house", "plain", "3.0", files={"plain.py": "other = 1\n"})
    before = other.read_bytes()
    code, _, err = _fetch(stack)
    assert (code, other.read_bytes()) == (4, before)
    assert err == (
        "error: 1 wheel is missing:\n"
        f"  plain 3.0: FOLDER/house/plain-3.0-py3-none-any.whl has sha256 {sha256(other)}, "
        "which the lock does not allow\n\n"
        "hint: it may be another lock's wheel of the same name: use another wheelhouse, or move it away\n"
    )
    other.write_bytes(before[:100])
    code, _, err = _fetch(stack)
    assert (code, other.read_bytes()) == (4, before[:100])
    assert err == (
        "error: 1 wheel is missing:\n"
        "  plain 3.0: FOLDER/house/plain-3.0-py3-none-any.whl is not a readable zip archive of up to 16 GiB\n\n"
        f"hint: it may be cut off: move it away, then {AGAIN}\n"
    )


def test_a_wheel_whose_entries_escape_is_fetched_but_not_kept(stack: Stack) -> None:
    evil = make_wheel(stack.folder / "wheels", "plain", "3.0", files={"../../evil.py": "evil\n"})
    stack.lock(*stack.wheels[:2], evil)
    code, _, err = _fetch(stack)
    assert code == 4
    assert err == (
        "error: 1 wheel is missing:\n"
        "  plain 3.0: plain-3.0-py3-none-any.whl must not be installed: "
        "its entry ../../evil.py leads out of the venv\n\n"
        "hint: never install it: find out where the wheel comes from, and lock another\n"
    )
    assert sorted(_house(stack)) == ["some_tool-1.2-py3-none-any.whl", "torch-2.13.0+cpu-py3-none-any.whl"]


def test_two_fetches_at_once_and_one_that_is_stopped(stack: Stack, index: Index) -> None:
    index.faults[LARGE] = "slow"
    first = subprocess.Popen(
        stack.command("fetch", "-p", "small", "--wheelhouse", "house"),
        cwd=stack.folder, env=stack.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while LARGE not in index.downloads() and time.monotonic() < deadline:
        time.sleep(0.01)
    code, _, err = _fetch(stack)
    assert (code, err) == (
        4,
        "error: another fetch is filling FOLDER/house\n\nhint: wait until it is done, then run this again\n",
    )
    first.send_signal(signal.SIGTERM)
    out, told = first.communicate(timeout=60)
    assert (first.returncode, out, told.splitlines()[-1]) == (130, "", "error: interrupted")
    assert (stack.folder / "house" / f".{LARGE}.part").stat().st_size > 0
    assert LARGE not in _house(stack)
    del index.faults[LARGE]
    assert _fetch(stack)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ["fetch"],
            "no profile to fetch",
            "`envdoctor profiles` lists them: `envdoctor fetch --profile NAME --wheelhouse DIR`",
        ),
        (
            ["fetch", "-p", "small"],
            "no folder to fetch into",
            "name one: `envdoctor fetch --profile small --wheelhouse DIR`",
        ),
        (
            ["fetch", "-p", "small", "--wheelhouse", "lockfiles/small.txt"],
            "--wheelhouse lockfiles/small.txt is not a folder",
            "name the folder that the wheels go into",
        ),
        (
            ["restore", "-p", "small", "--wheelhouse", "none"],
            "the wheelhouse FOLDER/none is not a directory",
            "fill one where an index is: `envdoctor fetch --profile small --wheelhouse FOLDER/none`",
        ),
        (
            ["restore", "-p", "small", "--wheelhouse", "a,b"],
            "the wheelhouse FOLDER/a,b has a comma in its path, which uv takes for two",
            "rename it",
        ),
    ],
)
def test_bad_input(stack: Stack, arguments: list[str], message: str, hint: str) -> None:
    (stack.folder / "a,b").mkdir()
    answer = stack.run(*arguments)
    assert (answer.code, answer.out, answer.err) == (2, "", f"error: {message}\n\nhint: {hint}\n")


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path, "plain", "1")
    (tmp_path / "house").mkdir()

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    started = Download(
        file=File(filename=wheel.name, url=wheel.as_uri()),
        hashes=(sha256(wheel),),
        folder=tmp_path / "house",
        access=ACCESS,
        tick=lambda _: None,
        stop=threading.Event(),
    )
    with pytest.raises(DownloadError) as caught:
        started.run()
    assert caught.value.reason == f"the disk that holds {tmp_path / 'house'} is full"


def test_what_uv_says_of_the_torch_index_becomes_a_job(stack: Stack) -> None:
    package = LockedPackage(name="torch", version="2.11.0+cu128", hashes=("a" * 64,))
    url = "https://host/whl/cu128/torch-2.11.0%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl"
    told = {
        "packages": [
            {"name": "Torch", "wheels": [{"url": url + "x", "hashes": {"sha256": "b" * 64}}]},
            {"name": "torch", "wheels": [{"url": url, "size": 7, "hashes": {"sha256": "a" * 64}}]},
        ]
    }
    assert {name: job.file for name, job in jobs_of(told, [package]).items()} == {
        "torch": File(
            filename="torch-2.11.0+cu128-cp312-cp312-manylinux_2_28_x86_64.whl", url=url, sha256="a" * 64, size=7
        )
    }


def test_what_capture_kept_is_fetched_too(stack: Stack, index: Index) -> None:
    own = make_wheel(stack.folder / "lockfiles" / "small.wheels", "own", "1.0")
    stack.lock(*stack.wheels, own)
    code, _, err = _fetch(stack)
    assert code == 0, err
    assert _house(stack) == {wheel.name: sha256(wheel) for wheel in (*stack.wheels, own)}
    own.unlink()
    elsewhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "UV_CACHE_DIR": str(stack.folder / "fresh")}
    answer = stack.restore("--offline", "--wheelhouse", "house", extra=elsewhere)
    assert answer.code == 0, answer.err
