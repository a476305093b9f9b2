"""Whatever was changed on the way (a wheel, the cache, the lock): it is refused, named, and nothing is installed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.factories.make_index import make_index
from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import Venv, make_venv, tree_state
from tests.factories.make_wheel import make_wheel, record_hash, sha256

PLAIN = "plain-3.0-py3-none-any.whl"


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Make a stack with an old venv in place."""
    made = make_stack(tmp_path)
    make_venv(made.venv, make_wheel(tmp_path / "old", "plain", "2.0"), cache=tmp_path / "another-cache")
    return made


def _refused(stack: Stack, *options: str) -> tuple[str, str]:
    """Restore; hold everything outside the store and the cache against its former state; return message and hint."""
    before = _state(stack)
    answer = stack.restore(*options)
    assert _state(stack) == before
    assert (answer.code, answer.out) == (4, ""), answer.err
    assert not (stack.store / "builds").exists() or list((stack.store / "builds").iterdir()) == []
    error, _, hint = answer.err[answer.err.rindex("error: ") :].partition("\n\nhint: ")
    return error.removeprefix("error: ").removesuffix("\nFOLDER/venv is as it was"), hint.strip()


def _state(stack: Stack) -> dict[str, str]:
    ours = (".envdoctor", "uv-cache", "home")
    return {path: told for path, told in tree_state(stack.folder).items() if not path.startswith(ours)}


def _over_http(stack: Stack, change: Callable[[], object] | None = None) -> tuple[str, str]:
    with make_index(stack.folder / "wheels") as index:
        stack.environment |= {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "PIP_INDEX_URL": index.url}
        if change:
            change()
        message, hint = _refused(stack)
    return message.replace(index.url.removesuffix("simple/"), "BASE/"), hint


EVIL: dict[str, tuple[dict[str, bytes | str], dict[str, str], str]] = {
    "escapes": ({"plain/__init__.py": "", "../../../evil.py": "x\n"}, {}, "../../../evil.py leads out of the venv"),
    "absolute": ({"plain/__init__.py": "", "/tmp/evil.py": "x\n"}, {}, "/tmp/evil.py leads out of the venv"),
    "data": (
        {"plain-3.0.data/data/../../../evil": "x\n"},
        {},
        "plain-3.0.data/data/../../../evil leads out of the venv",
    ),
    "symlink": ({"plain/__init__.py": ""}, {"plain/link": "/etc/passwd"}, "plain/link is a symbolic link"),
}


@pytest.mark.parametrize(
    ("served", "kind"), [*(("folder", kind) for kind in EVIL), ("index", "escapes"), ("index", "symlink")]
)
def test_a_locked_wheel_whose_entries_leave_the_venv(stack: Stack, kind: str, served: str) -> None:
    files, symlinks, problem = EVIL[kind]
    evil = make_wheel(stack.folder / "wheels", "plain", "3.0", files=files, symlinks=symlinks)
    stack.lock(*stack.wheels[:2], evil)
    if served == "index":
        told, hint = _over_http(stack)
        place = "BASE/simple/"
    else:
        told, hint = _refused(stack)
        place = "FOLDER/wheels"
    assert told == f"plain 3.0 was not found: {place} has {PLAIN} with a locked hash, but its entry {problem}"
    assert hint == "do not install it by hand either: find out where the wheel comes from, and lock another"
    # uv was not asked to unpack anything of it.
    assert list(stack.cache.rglob("plain-3.0.dist-info")) == []


def test_a_symlink_that_its_record_vouches_for(stack: Stack) -> None:
    evil = make_wheel(
        stack.folder / "wheels",
        "plain",
        "3.0",
        files={"plain/__init__.py": "", "plain/link": "/etc/passwd"},
        symlinks={"plain/link2": "/etc/passwd"},
        record_says={"plain/link": record_hash(b"/etc/passwd")},
    )
    stack.lock(*stack.wheels[:2], evil)
    told, _ = _over_http(stack)
    assert told.endswith("with a locked hash, but its entry plain/link2 is a symbolic link")


def test_a_changed_wheel_in_a_folder(stack: Stack) -> None:
    locked = sha256(stack.folder / "wheels" / PLAIN)
    changed = make_wheel(stack.folder / "wheels", "plain", "3.0", files={"plain/__init__.py": "evil = 1\n"})
    told, hint = _refused(stack)
    assert told == f"plain 3.0 was not found: FOLDER/wheels has {PLAIN}, but with sha256 {sha256(changed)}"
    assert f"sha256 {locked}" in hint


def test_a_changed_wheel_on_an_index_that_states_the_right_hash(stack: Stack) -> None:
    with make_index(stack.folder / "wheels", {PLAIN: "changed"}) as index:
        stack.environment |= {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "PIP_INDEX_URL": index.url}
        told, hint = _refused(stack)
    locked = sha256(stack.folder / "wheels" / PLAIN)
    got = told.partition("hashes to ")[2][:64]
    assert told == (f"the wheel of plain==3.0 is not the locked one: it hashes to {got}, the lock allows {locked}")
    assert got != locked
    assert hint == (
        "do not install it; find out which source serves other bytes (a rebuilt wheel, a mirror, a tampered cache)"
    )


def test_a_changed_wheel_in_a_wheelhouse(stack: Stack) -> None:
    assert stack.run("fetch", "-p", "small", "--wheelhouse", "house").code == 0
    house = stack.folder / "house" / PLAIN
    content = bytearray(house.read_bytes())
    content[10] ^= 1
    house.write_bytes(content)
    stack.environment["PIP_FIND_LINKS"] = ""
    told, _ = _refused(stack, "--wheelhouse", "house", "--offline")
    assert told == (
        f"plain 3.0 was not found: FOLDER/house has {PLAIN}, but with sha256 {sha256(house)}; "
        "it is neither in uv's cache nor in a local source, and --offline forbids to fetch it"
    )


def test_a_poisoned_cache(stack: Stack) -> None:
    # An edit in place, in any venv that uv hardlinked, changes the cache.
    stack.environment["UV_LINK_MODE"] = "hardlink"
    other = stack.folder / "other"
    assert stack.run("restore", "-p", "small", "--venv", str(other), "--yes").code == 0
    edited = Venv(prefix=other).site_packages / "plain/__init__.py"
    assert os.stat(edited).st_nlink > 1  # noqa: PTH116
    with edited.open("a") as file:
        file.write("# patched\n")
    told, hint = _refused(stack)
    assert told == (
        "the new venv is not what the lock says: plain: plain/__init__.py: has 30 bytes, not the recorded 20"
    )
    assert hint == "uv's cache may hold changed files: `uv cache clean plain`, then run it again"


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (
            lambda text: text.replace("plain==3.0", "plain==3.1"),
            4,
            "plain 3.1 was not found: no configured source has it",
        ),
        (
            lambda text: text[: text.index("--hash") + 14] + ("0" * 64) + text[text.index("--hash") + 78 :],
            4,
            f"plain 3.0 was not found: FOLDER/wheels has {PLAIN}, but with sha256 LOCKED",
        ),
        (
            lambda text: text.split("--hash")[0].rstrip("\\ \n") + "\n",
            2,
            "FOLDER/lockfiles/small.txt: `plain==3.0` carries no usable sha256",
        ),
        (
            lambda text: "plain @ file:///tmp/evil.whl\n" + text,
            2,
            "FOLDER/lockfiles/small.txt: `plain @ file:///tmp/evil.whl` is not an exact pin",
        ),
        (
            lambda text: "-r http://evil.invalid\n" + text,
            2,
            "FOLDER/lockfiles/small.txt: `-r http://evil.invalid` is not an exact pin",
        ),
        (
            lambda text: "torch==1.0 --hash=sha256:" + "0" * 64 + "\n" + text,
            2,
            "FOLDER/lockfiles/small.txt: torch is pinned twice (1.0 and 2.13.0+cpu)",
        ),
    ],
    ids=["version", "hash", "no hash", "a URL", "an option", "a second pin"],
)
def test_a_changed_lock(stack: Stack, change: Callable[[str], str], code: int, message: str) -> None:
    lock = stack.folder / "lockfiles" / "small.txt"
    locked = sha256(stack.folder / "wheels" / PLAIN)
    lock.write_text(change(lock.read_text()))
    before = _state(stack)
    answer = stack.restore()
    assert _state(stack) == before
    assert (answer.code, answer.out) == (code, "")
    told = answer.err[answer.err.rindex("error: ") :].partition("\n\nhint: ")[0].replace(locked, "LOCKED")
    assert told.removesuffix("\nFOLDER/venv is as it was") == f"error: {message}"
