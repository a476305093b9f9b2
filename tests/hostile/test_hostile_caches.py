"""Special, huge and deeply nested files where envdoctor keeps its own records: answered at once, never waited for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.cache.layout import Root
from envdoctor.cache.manifest import load
from envdoctor.cache.quarantine import listed
from envdoctor.errors import CacheError
from envdoctor.stack.interpreters import InterpreterRequest, choose

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


def test_a_label_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.json")
    with pytest.raises(CacheError) as caught:
        load(tmp_path / "x.json")
    assert caught.value.message == f"{tmp_path}/x.json: not a regular file"


@pytest.mark.parametrize("kind", ["pipe", "nested"])
def test_a_record_of_the_quarantine_that_is_none_is_passed_over(tmp_path: Path, kind: str) -> None:
    record = tmp_path / ".envdoctor/quarantine/20260101-000000/record.json"
    record.parent.mkdir(parents=True)
    os.mkfifo(record) if kind == "pipe" else record.write_text("[" * 100_000)
    assert list(listed([Root(kind="inductor", path=tmp_path, found_via="default")])) == []


def test_a_pyvenv_cfg_that_is_a_pipe_names_no_base(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pyvenv.cfg")
    assert choose(InterpreterRequest(versions=(HERE,), target=tmp_path), {"PATH": ""}, tmp_path).version.startswith(
        HERE
    )
    assert subprocess.run(["test", "-p", tmp_path / "pyvenv.cfg"], check=False).returncode == 0
