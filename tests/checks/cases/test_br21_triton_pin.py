"""triton is not the one torch pins: the import is fine, torch.compile dies (pytorch issues 123042 and 127271)."""

from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.model.profile import CompileWanted, Profile
from tests.factories import make_facts as facts
from tests.factories.examine_venv import by_hand, commands_of, first, mend, verdict_of
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import install, make_venv
from tests.factories.make_wheel import make_wheel

PIN = 'triton==3.6.0; platform_system == "Linux"'
TITLE = "torch 2.11.0 requires triton==3.6.0, and 2.3.1 is installed"


def _triton(root: Path, version: str, name: str = "triton") -> Path:
    return make_wheel(root / "wheels", name, version, files={"triton/__init__.py": f"__version__ = '{version}'\n"})


@pytest.mark.parametrize("compiles", [False, True], ids=["no-profile", "profile-compiles"])
def test_br21_another_triton_is_installed(tmp_path: Path, compiles: bool) -> None:  # noqa: FBT001
    torch = make_torch(tmp_path / "wheels", "2.11.0", None, requires=[PIN])
    venv = make_venv(tmp_path / "venv", torch, _triton(tmp_path, "2.3.1"))
    verdict = verdict_of(venv.prefix, profile=_compiling() if compiles else None)
    finding = verdict.findings[0]
    assert first(verdict, tmp_path) == ("ED406", TITLE)
    # It is an error only where something compiles; a plain import never meets it.
    assert finding.severity == ("error" if compiles else "warning")
    if compiles:
        return
    assert commands_of(finding, tmp_path) == ["uv pip install --python [TMP]/venv/bin/python --no-deps triton==3.6.0"]
    _triton(tmp_path, "3.6.0")
    mend(finding, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def _compiling() -> Profile:
    return replace(
        facts.PROFILE,
        torch=replace(facts.PROFILE.torch, version="2.11.0", cuda=""),
        python=replace(facts.PROFILE.python, versions=("3.11", "3.12", "3.13", "3.14")),
        compile=CompileWanted(threads=1),
    )


def test_br21_two_distributions_own_triton(tmp_path: Path) -> None:
    torch = make_torch(tmp_path / "wheels", "2.11.0", None, requires=[PIN])
    venv = make_venv(tmp_path / "venv", torch, _triton(tmp_path, "3.6.0"))
    install(venv, _triton(tmp_path, "3.7.0+git1234", "pytorch-triton"))
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == (
        "ED409",
        "the module triton is installed by pytorch-triton 3.7.0+git1234 and triton 3.6.0 at once; "
        "the one on disk is pytorch-triton's",
    )
    assert commands_of(verdict.findings[0], tmp_path) == ["envdoctor repair --venv [TMP]/venv"]
    assert by_hand(verdict.findings[0], tmp_path) == [
        "uv pip uninstall --python [TMP]/venv/bin/python pytorch-triton",
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package triton triton==3.6.0",
    ]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix, bare_host(tmp_path / "home")).findings == ()
