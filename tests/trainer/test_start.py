"""What a person sees and can do before the first step."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WAITS = "loading torch and the target, then compiling the first steps: progress follows\n"


def test_the_wait_is_announced_and_ctrl_c_ends_it_without_a_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "trainer", "--profile", "cpu-smoke", "--output", str(tmp_path / "run")],
        cwd=ROOT, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ},
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line == WAITS:
            process.send_signal(signal.SIGINT)
            break
    _, rest = process.communicate(timeout=120)
    assert (process.returncode, rest) == (130, "interrupted before the first step; nothing was saved\n")
