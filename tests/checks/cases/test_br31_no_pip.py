"""The venv has no pip, or its interpreter is a dangling symlink (ComfyUI-Manager issue 1828, lunes-cms pull 956)."""

import sys
from pathlib import Path

from tests.factories.examine_venv import commands_of, first, mend, verdict_of
from tests.factories.make_venv import make_venv
from tests.factories.make_wheel import make_wheel


def test_br31_no_pip_is_no_fault(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1"))
    assert not (venv.site_packages / "pip").exists()
    assert verdict_of(venv.prefix).findings == ()


def test_br31_the_base_python_was_removed(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1"))
    home = tmp_path / "pyhome"
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    venv.python.unlink()
    venv.python.symlink_to(home / f"python{minor}")
    config = venv.prefix / "pyvenv.cfg"
    lines = [f"home = {home}" if line.startswith("home") else line for line in config.read_text().splitlines()]
    config.write_text("\n".join(lines) + "\n")
    # The folder is there and looks like a venv; that is not a health check.
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == ("ED101", "the interpreter of this venv cannot start")
    assert commands_of(verdict.findings[0], tmp_path) == [f"uv venv --allow-existing --python {minor} [TMP]/venv"]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_br31_a_path_is_never_taken_for_a_version(tmp_path: Path) -> None:
    """`--python v2` means Python 2 to uv: the commands always name an absolute path."""
    venv = make_venv(tmp_path / "v2", make_wheel(tmp_path / "wheels", "thing", "1"))
    (venv.dist_info("thing") / "RECORD").unlink()
    (finding,) = verdict_of(venv.prefix).findings
    assert commands_of(finding, tmp_path) == [
        "uv pip install --python [TMP]/v2/bin/python --no-deps --reinstall-package thing thing==1"
    ]
