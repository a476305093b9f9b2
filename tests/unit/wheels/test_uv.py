"""What stands where uv should be, and is not uv; and no folder for what it is asked."""

import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.errors import RestoreError
from envdoctor.wheels.uv import Uv
from envdoctor.wheels.uv_cache import cache_folder


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("no program\n", "FILE cannot be started: Exec format error"),
        ("#!/nowhere/sh\n", "FILE cannot be started: No such file or directory"),
        ("#!/bin/sh\nexit 0\n", "FILE does not say where its cache is: its `cache dir` prints ''"),
        ("#!/bin/sh\nprintf 'a\\0b'\n", "FILE does not say where its cache is: its `cache dir` prints 'a\\x00b'"),
        ("#!/bin/sh\nkill -XFSZ $$\n", "a file grew over the limit of this shell (`ulimit -f`)"),
    ],
)
def test_what_is_not_uv_is_named(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "uv"
    file.write_text(text)
    file.chmod(0o755)
    with pytest.raises(RestoreError) as raised:
        cache_folder(Uv(binary=str(file), environment={}, cwd=tmp_path))
    assert raised.value.message.replace(str(file), "FILE") == told


def test_a_cache_folder_is_relative_to_where_uv_stands(tmp_path: Path) -> None:
    file = tmp_path / "uv"
    file.write_text("#!/bin/sh\necho cache\n")
    file.chmod(0o755)
    assert cache_folder(Uv(binary=str(file), environment={}, cwd=tmp_path)) == tmp_path / "cache"


def test_no_folder_for_temporary_files(tmp_path: Path) -> None:
    ask = (
        "from envdoctor.errors import RestoreError\n"
        "from envdoctor.wheels.temporary import sweep\n"
        "try:\n    sweep()\nexcept RestoreError as error:\n    print(error.message, error.hint, sep='; ')\n"
    )
    command = ["bash", "-c", 'ulimit -f 0; exec "$@"', "-", sys.executable, "-c", ask]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == (
        "no folder can be written for temporary files; name one that can: `export TMPDIR=FOLDER`, then run it again\n"
    )
