"""Interrupted: the metadata landed and the payload did not, or pip left ~orch (Comfy-Org/desktop issue 954)."""

import shutil
from pathlib import Path

from tests.factories.examine_venv import by_hand, commands_of, first, mend, verdict_of
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, install, make_venv
from tests.factories.make_wheel import make_wheel


def _yaml(root: Path) -> Path:
    return make_wheel(root / "wheels", "pyyaml", "6.0.2", files={"yaml/__init__.py": "x = 1\n"})


def test_br28_the_payload_did_not_land(tmp_path: Path) -> None:
    wheel = _yaml(tmp_path)
    venv = make_venv(tmp_path / "venv", wheel)
    shutil.rmtree(venv.site_packages / "yaml")
    install(venv, wheel)  # a plain install believes the metadata
    assert not (venv.site_packages / "yaml").exists()
    verdict = verdict_of(venv.prefix)
    rows = len((venv.dist_info("pyyaml") / "RECORD").read_text().splitlines())
    assert first(verdict, tmp_path) == ("ED202", f"pyyaml 6.0.2: 1 of {rows} files missing")
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package pyyaml pyyaml==6.0.2"
    ]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_br28_a_local_version_is_repaired_from_the_sources_of_pip(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0+cpu", None))
    (venv.site_packages / "torch/version.py").unlink()
    verdict = verdict_of(venv.prefix)
    assert verdict.findings[0].code == "ED202"
    assert commands_of(verdict.findings[0], tmp_path) == ["envdoctor repair --venv [TMP]/venv"]
    assert by_hand(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package torch torch==2.10.0+cpu"
    ]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def _set_aside(venv: Venv, version: str) -> None:
    """Do what pip does before it deletes: the first letter of each name becomes a tilde."""
    site = venv.site_packages
    (site / "torch").rename(site / "~orch")
    (site / f"torch-{version}.dist-info").rename(site / f"~orch-{version}.dist-info")


def test_br28_pip_was_killed_in_the_middle_of_an_upgrade(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.10.0", None))
    _set_aside(venv, "2.10.0")
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == (
        "ED206",
        "torch 2.10.0 is half uninstalled: only what pip set aside is left",
    )
    # The remains are the last copy until the real one is back: one line, and the second half only after the first.
    site = str(venv.site_packages).replace(str(tmp_path), "[TMP]")
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps torch==2.10.0 && "
        f"rm -r '{site}/~orch' '{site}/~orch-2.10.0.dist-info'"
    ]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
    assert not list(venv.site_packages.glob("~*"))


def test_br28_remains_beside_the_whole_distribution_are_only_litter(tmp_path: Path) -> None:
    old, new = make_torch(tmp_path / "wheels", "2.9.1", None), make_torch(tmp_path / "wheels", "2.10.0", None)
    venv = make_venv(tmp_path / "venv", old)
    _set_aside(venv, "2.9.1")
    install(venv, new)
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == ("ED206", "an interrupted pip left 2 remnants in site-packages")
    assert (verdict.findings[0].severity, verdict.exit_code()) == ("warning", 0)
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_br28_a_record_that_never_landed(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", _yaml(tmp_path))
    (venv.dist_info("pyyaml") / "RECORD").unlink()
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == (
        "ED205",
        "pyyaml 6.0.2 was installed incompletely: its dist-info has no RECORD",
    )
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
