"""A venv that this user may not look into."""

import subprocess
import sys
from pathlib import Path

from tests.factories.make_venv import make_venv
from tests.factories.run_envdoctor import environment

ROOT = Path(__file__).resolve().parents[2]
UNPRIVILEGED = ROOT / "tests" / "factories" / "unprivileged.py"


def test_a_folder_without_permission_is_said_with_its_reason(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    venv.prefix.chmod(0)
    try:
        done = subprocess.run(
            [sys.executable, UNPRIVILEGED, "check", venv.prefix],
            cwd=ROOT,
            env=environment(tmp_path / "user"),
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        venv.prefix.chmod(0o755)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        f"error: {venv.prefix}/pyvenv.cfg: Permission denied\n\n"
        f"hint: run envdoctor as the owner of {venv.prefix}, or let this user read it\n",
    )
