"""Two dist-info folders for torch; importlib.metadata.version('torch') is None (python/cpython issue 100666)."""

import shutil
from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, first, mend, verdict_of
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv

TITLE = ("ED405", "torch has 2 metadata folders")


def _site(venv: Venv, root: Path) -> str:
    return str(venv.site_packages).replace(str(root), "[TMP]")


# The directory order decides which one importlib.metadata sees, so the stale one sorts before and behind.
@pytest.mark.parametrize("stale", ["1.12.1+cu116", "1.14.0"])
def test_br26_an_empty_folder_owns_nothing_and_is_deleted(tmp_path: Path, stale: str) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "1.13.1+cu116", "11.6"))
    folder = venv.site_packages / f"torch-{stale}.dist-info"
    folder.mkdir()
    (folder / "REQUESTED").touch()
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == TITLE
    assert len(verdict.findings) == 1
    assert verdict.findings[0].evidence[-1] == "torch/version.py says 1.13.1+cu116"
    # uv cannot uninstall what has no RECORD: a reinstall would leave the folder there.
    assert commands_of(verdict.findings[0], tmp_path) == [f"rm -r {_site(venv, tmp_path)}/torch-{stale}.dist-info"]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize("other", ["1.12.1+cu116", "1.14.0"])
def test_br26_of_two_complete_ones_the_code_tells_which_is_meant(tmp_path: Path, other: str) -> None:
    old = make_venv(tmp_path / "old", make_torch(tmp_path / "wheels", other, "11.6"))
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "1.13.1+cu116", "11.6"))
    shutil.copytree(old.dist_info("torch"), venv.site_packages / f"torch-{other}.dist-info")
    verdict = verdict_of(venv.prefix)
    assert TITLE in {(finding.code, finding.title) for finding in verdict.findings}
    finding = next(finding for finding in verdict.findings if finding.code == "ED405")
    assert commands_of(finding, tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package torch torch==1.13.1+cu116"
    ]
    mend(finding, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
