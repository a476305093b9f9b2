"""A moved venv whose only stale part is its activate script (N07)."""

import subprocess
from pathlib import Path

from tests.factories.examine_venv import environment_after, mend, outline, verdict_of
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv, run_uv


def _activated(venv: Venv) -> str:
    """Return the folder that `source bin/activate` sets."""
    line = f'. {venv.prefix}/bin/activate; printf %s "$VIRTUAL_ENV"'
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout


def test_n07_a_moved_venv_activates_the_folder_it_came_from(tmp_path: Path) -> None:
    made = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.9.0+cu128", "12.8"))
    assert verdict_of(made.prefix).findings == ()
    moved = Venv(prefix=made.prefix.rename(tmp_path / "moved"))
    assert _activated(moved) == str(tmp_path / "venv")
    verdict = verdict_of(moved.prefix)
    assert outline(verdict, tmp_path) == [
        "warning ED103 bin/activate puts [TMP]/venv/bin first on PATH, not this venv's: this venv was moved or copied"
    ]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert _activated(moved) == str(moved.prefix)
    assert verdict_of(moved.prefix).findings == ()


def test_n07_a_moved_venv_goes_on_seeing_the_packages_of_its_base(tmp_path: Path) -> None:
    run_uv("venv", "--quiet", "--system-site-packages", tmp_path / "venv", cache=tmp_path / ".uv-cache")
    moved = Venv(prefix=(tmp_path / "venv").rename(tmp_path / "moved"))
    finding = next(item for item in verdict_of(moved.prefix).findings if item.code == "ED103")
    mend(finding, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert _activated(moved) == str(moved.prefix)
    assert "include-system-site-packages = true" in (moved.prefix / "pyvenv.cfg").read_text().splitlines()


def test_n07_the_variable_that_such_a_script_leaves(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    host = bare_host(tmp_path / "home", VIRTUAL_ENV=str(tmp_path / "gone"))
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        "warning ED607 VIRTUAL_ENV is '[TMP]/gone', and [TMP]/gone does not exist: "
        "PATH leads to no interpreter of the venv, so that another Python starts"
    ]
    healed = environment_after(host, *verdict.findings[0].remediation.commands)
    assert verdict_of(venv.prefix, healed).findings == ()


def test_passes_ed103_a_relocatable_venv_computes_its_folder(tmp_path: Path) -> None:
    run_uv("venv", "--quiet", "--relocatable", tmp_path / "venv", cache=tmp_path / ".uv-cache")
    moved = Venv(prefix=(tmp_path / "venv").rename(tmp_path / "moved"))
    assert _activated(moved) == str(moved.prefix)
    assert verdict_of(moved.prefix).findings == ()
