"""The Python interface: lazy, typed, and the same as the command line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import envdoctor
from envdoctor.app import check as app
from envdoctor.doctor.workspace import Workspace
from tests.factories.make_profile import make_profile
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    wheels = [make_wheel(tmp_path / "wheels", "plain", "3.0"), make_wheel(tmp_path / "wheels", "other", "1.0")]
    make_profile(tmp_path, "small", wheels, torch="2.10.0+cpu", cuda="")
    return make_venv(tmp_path / "venv", wheels[0])


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, envdoctor; print(sorted(name for name in sys.modules if name.startswith('envdoctor')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['envdoctor']\n"
    names = ["Answer", "Comparison", "EnvdoctorError", "Verdict", "__version__", "check", "diff", "why"]
    assert dir(envdoctor) == names


def test_check_is_the_commands(venv: Venv, tmp_path: Path) -> None:
    alone = envdoctor.check(venv.prefix)
    assert isinstance(alone, envdoctor.Verdict)
    assert (alone.findings, alone.exit_code()) == ((), 0)
    compared = envdoctor.check(str(venv.prefix), tmp_path / "profiles" / "small.toml")
    assert [finding.code for finding in compared.findings] == ["ED402", "ED404"]
    workspace = Workspace.open(str(venv.prefix), str(tmp_path / "profiles" / "small.toml"))
    assert compared == app.check(workspace, app.CheckOptions(), envdoctor.api._Silent()).data.verdict  # type: ignore[attr-defined]


def test_check_with_a_lock_and_a_requirement(venv: Venv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)  # what pip is configured with is part of a printed line
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    lock = tmp_path / "a {b}" / "small.txt"
    lock.parent.mkdir()
    lock.write_text((tmp_path / "lockfiles" / "small.txt").read_text())
    verdict = envdoctor.check(venv.prefix, lock=lock, require=["plain>=4"])
    assert [finding.title for finding in verdict.findings] == [
        "other 1.0 is locked and not installed",
        "plain 3.0 is installed; >=4 is required",
    ]
    command = f"uv pip install --python {venv.prefix}/bin/python --no-deps --requirements '{lock}'"
    assert verdict.findings[0].remediation.commands == (command,)


def test_why_and_diff(venv: Venv, tmp_path: Path) -> None:
    answer = envdoctor.why("plain", venv.prefix)
    assert (answer.distribution and answer.distribution.version, answer.library) == ("3.0", None)
    comparison = envdoctor.diff(venv.prefix, venv.prefix)
    assert comparison.differences == ()


def test_errors_have_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(envdoctor.EnvdoctorError) as caught:
        envdoctor.check(tmp_path / "none")
    assert (caught.value.message, caught.value.hint, int(caught.value.exit_code)) == (
        f"{tmp_path}/none does not exist",
        "name a venv folder or its interpreter: `envdoctor check path/to/.venv`",
        2,
    )
    with pytest.raises(AttributeError, match="^module 'envdoctor' has no attribute 'repair'$"):
        envdoctor.repair  # type: ignore[attr-defined]  # noqa: B018
