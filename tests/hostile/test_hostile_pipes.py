"""A pipe, or a file without end, where a command looks for one of its own kind: nothing waits for it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.app.lock import _text
from envdoctor.capture.training_code import source_hashes
from envdoctor.errors import UsageError
from envdoctor.probes.caches.entry_damage import damage
from envdoctor.stack.room import _recorded
from envdoctor.swap.unmanaged_files import unrecorded
from envdoctor.wheels import pip_config, uv_config
from tests.factories.forked import forked


def _pip(path: Path) -> object:
    return pip_config.read({"PIP_CONFIG_FILE": str(path)}, path.parent)


def _uv(path: Path) -> object:
    return uv_config.read({"UV_CONFIG_FILE": str(path)}, path.parent, path.parent, path.parent)


@pytest.mark.parametrize("reader", [_pip, _uv, _text], ids=["pip.conf", "uv.toml", "requirements"])
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_configuration_that_is_not_a_file(tmp_path: Path, reader: Callable[[Path], object], kind: str) -> None:
    path = tmp_path / "odd.toml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.touch()
        os.truncate(path, 1 << 40)

    def refused() -> str:
        with pytest.raises(UsageError) as found:
            reader(path)
        return found.value.message

    # pip's own way of saying "no configuration" is a device that is not a file.
    assert str(path) in forked(refused, seconds=10)


def test_a_record_that_is_a_pipe(tmp_path: Path) -> None:
    info = tmp_path / "venv/lib/python3.12/site-packages/thing-1.0.dist-info"
    info.mkdir(parents=True)
    os.mkfifo(info / "RECORD")

    def size() -> str:
        with pytest.raises(OSError, match="not a regular file"):
            _recorded(info / "RECORD")
        return "refused"

    assert forked(size, seconds=10) == "refused"
    assert forked(lambda: unrecorded(tmp_path / "venv"), seconds=10) is not None


def test_a_source_and_an_entry_that_are_pipes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train.py")
    assert forked(lambda: damage(tmp_path / "train.py", "fx graph"), seconds=10) in (
        "empty",
        "cannot be read: not a regular file",
    )
    with pytest.raises(UsageError, match="matches no file"):
        source_hashes(tmp_path, ("train.py",), {})


def test_a_project_whose_tool_is_not_a_table(tmp_path: Path) -> None:
    for text in ("tool = 1\n", "tool = ['uv']\n", "[tool]\nuv = 'x'\n"):
        (tmp_path / "pyproject.toml").write_text(text)
        uv_config.read({}, tmp_path / "home", tmp_path, tmp_path / "root")
