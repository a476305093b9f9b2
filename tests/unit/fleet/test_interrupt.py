"""`fleet check` that is interrupted: nothing that asks a node is left behind, and nobody waits for it."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.factories.run_envdoctor import COMMAND, environment


@pytest.mark.parametrize(
    ("number", "streams"),
    [
        pytest.param(signal.SIGINT, "", id="silent"),
        pytest.param(signal.SIGTERM, "exec >&- 2>&-; ", id="closed its streams"),
    ],
)
def test_an_interrupt_ends_what_asks_the_nodes(tmp_path: Path, number: signal.Signals, streams: str) -> None:
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin/ssh"
    ssh.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/begun.part; mv {tmp_path}/begun.part {tmp_path}/begun\n"
                   f"{streams}exec sleep 600\n")  # fmt: skip
    ssh.chmod(0o755)
    (tmp_path / "hosts").write_text("n1\n")
    process = subprocess.Popen(
        [*COMMAND, "fleet", "check", "--hosts", "hosts", "--venv", "/v", "--timeout", "600"],
        cwd=tmp_path,
        env=environment(tmp_path, {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}),
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "begun").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    assert process.communicate(timeout=60)[1].endswith("error: interrupted\n")
    assert process.returncode == 130
    assert not Path("/proc", (tmp_path / "begun").read_text().strip()).exists()
