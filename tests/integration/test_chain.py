"""The whole chain: capture a venv, fetch its wheels, carry them with the lock to another user, restore offline."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.factories.make_index import make_index
from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import make_venv
from tests.factories.make_wheel import make_wheel

NOBODY = 65534
_AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def _another_user() -> list[str]:
    """Return what runs a command as another user: really, or in a namespace where this Python is closed to others."""
    mapped = ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}"]
    for prefix in (_AS_NOBODY, mapped):
        try:
            command = [*prefix, "test", "-r", os.path.realpath(sys.executable)]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return prefix
        except OSError:
            continue
    return []


OTHER = _another_user()


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """Give a folder that another user can reach and owns."""
    folder = Path(tempfile.mkdtemp(prefix="carried "))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def captured(tmp_path: Path) -> Stack:
    """Capture a venv: four wheels that an index has, one that only this machine has, with a script."""
    stack = make_stack(tmp_path, make_wheel(tmp_path / "wheels", "served", "1.0", tag="py3-none-any"))
    files = {"own/__init__.py": "", "own-1.0.data/scripts/own-tool": "#!python\nprint('own')\n"}
    own = make_wheel(tmp_path / "own", "own", "1.0", files=files)
    make_venv(stack.venv, *stack.wheels, own, cache=stack.cache)
    with make_index(tmp_path / "wheels") as index:
        stack.environment |= {"PIP_FIND_LINKS": "", "PIP_NO_INDEX": "", "PIP_INDEX_URL": index.url}
        for arguments in (("capture", "mine", "--venv", "venv"), ("fetch", "-p", "mine", "--wheelhouse", "wh")):
            answer = stack.run(*arguments)
            assert answer.code == 0, answer.err
    # Nothing of this machine is there any more.
    shutil.rmtree(tmp_path / "wheels")
    shutil.rmtree(tmp_path / "own")
    return stack


@pytest.mark.parametrize(
    "as_whom",
    [
        "the same user",
        pytest.param(
            "another user",
            marks=pytest.mark.skipif(not OTHER, reason="this system lets nobody be another user"),
        ),
    ],
)
def test_captured_fetched_carried_and_restored_offline(captured: Stack, elsewhere: Path, as_whom: str) -> None:
    before = _run(captured, captured.folder, [], "fingerprint", "venv")["digest"]
    for name in ("profiles/mine.toml", "lockfiles/mine.txt"):
        (elsewhere / name).parent.mkdir()
        shutil.copy(captured.folder / name, elsewhere / name)
    shutil.copytree(captured.folder / "wh", elsewhere / "a wheelhouse")
    (elsewhere / "home").mkdir()
    prefix: list[str] = []
    if as_whom == "another user":
        prefix = OTHER
        for path in [elsewhere, *elsewhere.rglob("*")] if OTHER is _AS_NOBODY else []:
            os.chown(path, NOBODY, NOBODY)
    options = ("--offline", "--wheelhouse", "a wheelhouse", "--yes", "--json")
    restored = _run(captured, elsewhere, prefix, "restore", "-p", "mine", "--venv", "new/venv", *options)
    packages = restored["plan"]["packages"]
    assert {one["name"] for one in packages} == {"torch", "some-tool", "plain", "served", "own"}
    assert {one["source"]["location"] for one in packages} == {str(elsewhere / "a wheelhouse")}
    checked = _run(captured, elsewhere, prefix, "check", "new/venv", "-p", "mine", "--deep", "--json")
    assert checked["findings"] == []
    assert _run(captured, elsewhere, prefix, "fingerprint", "new/venv")["digest"] == before
    tool = subprocess.run([*prefix, elsewhere / "new/venv/bin/own-tool"], capture_output=True, text=True, check=True)
    assert tool.stdout == "own\n"
    if prefix is _AS_NOBODY:
        assert {path.lstat().st_uid for path in (elsewhere / "new").rglob("*")} == {NOBODY}


def _run(stack: Stack, folder: Path, prefix: list[str], *arguments: str) -> Mapping[str, object]:
    own = {"HOME": str(folder / "home"), "UV_CACHE_DIR": str(folder / "cache"), "TMPDIR": str(folder)}
    done = subprocess.run(
        [*prefix, *stack.command(*arguments)],
        cwd=folder,
        env={**stack.environment, **own, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: Mapping[str, object] = json.loads(done.stdout)
    return found
