"""The wheel as people install it, in an empty folder: uv tool, pipx and pip."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor import __version__
from tests.factories.make_release import published_wheel
from tests.factories.run_envdoctor import environment

pytestmark = pytest.mark.index
BIN = Path(sys.executable).parent
# Where packages come from and what was fetched already is this machine's business; everything else is a stranger's.
_KEPT = ("PIP_", "UV_", "SSL_", "REQUESTS_", "HTTP", "NO_PROXY", "ALL_PROXY")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel."""
    return published_wheel(tmp_path_factory.mktemp("wheel"))


def _network() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.upper().startswith(_KEPT)}


class Stranger:
    """Somebody with an empty folder, a home of their own, and the network of this machine."""

    def __init__(self, folder: Path) -> None:
        """Make the folder and the home."""
        home = Path.home()
        self.folder = folder / "empty"
        self.folder.mkdir()
        self.environment = environment(folder, _network()) | {
            "PATH": f"{folder}/bin:/usr/local/bin:/usr/bin:/bin",
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(home / ".cache/uv")),
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(home / ".cache/pip")),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "UV_TOOL_DIR": str(folder / "tools"),
            "UV_TOOL_BIN_DIR": str(folder / "bin"),
            "PIPX_HOME": str(folder / "pipx"),
            "PIPX_BIN_DIR": str(folder / "bin"),
            "PIPX_DEFAULT_PYTHON": sys.executable,
        }

    def run(self, *command: str | Path, code: int = 0) -> str:
        """Run a command in the empty folder and return its output; anything but `code` fails the test."""
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


def _uv_tool(stranger: Stranger, wheel: Path) -> Path:
    stranger.run(BIN / "uv", "tool", "install", "--python", sys.executable, f"torch-envdoctor[sbom] @ {wheel.as_uri()}")
    return Path(stranger.environment["UV_TOOL_BIN_DIR"], "envdoctor")


def _pipx(stranger: Stranger, wheel: Path) -> Path:
    stranger.run(BIN / "pipx", "install", wheel)
    return Path(stranger.environment["PIPX_BIN_DIR"], "envdoctor")


def _pip(stranger: Stranger, wheel: Path) -> Path:
    stranger.run(sys.executable, "-m", "venv", stranger.folder / "tool")
    stranger.run(stranger.folder / "tool/bin/python", "-m", "pip", "install", "-q", wheel)
    return stranger.folder / "tool/bin/envdoctor"


@pytest.mark.parametrize("install", [_uv_tool, _pipx, _pip], ids=["uv tool", "pipx", "pip"])
def test_the_tool_finds_its_profiles_and_is_itself_in_order(tmp_path: Path, wheel: Path, install: object) -> None:
    assert callable(install)
    stranger = Stranger(tmp_path)
    envdoctor = install(stranger, wheel)
    assert stranger.run(envdoctor, "--version") == f"envdoctor {__version__}\n"
    profiles = stranger.run(envdoctor, "profiles")
    assert [line.split()[0] for line in profiles.splitlines() if not line.startswith(" ")] == [
        "21k-toks",
        "cpu-smoke",
        "pypi-cu128",
    ]
    # The environment that the installer made is one that people check; every file in it is the installer's.
    own = Path(envdoctor).resolve().parent.parent
    stranger.run(envdoctor, "gate", "write", "guard.py")
    verdict = json.loads(stranger.run(envdoctor, "check", own, "--json"))
    assert [(found["code"], found["title"]) for found in verdict["findings"]] == []
    assert list(own.glob("lib/python*/site-packages/trainer")) == []


def test_an_extra_of_the_wheel_writes_an_sbom_and_its_absence_is_said(tmp_path: Path, wheel: Path) -> None:
    stranger = Stranger(tmp_path)
    envdoctor = _uv_tool(stranger, wheel)
    own = Path(envdoctor).resolve().parent.parent
    document = json.loads(stranger.run(envdoctor, "sbom", own))
    assert "torch-envdoctor" in {component["name"] for component in document["components"]}
    stranger.run(BIN / "uv", "pip", "uninstall", "--python", own / "bin/python", "cyclonedx-python-lib")
    refused = json.loads(stranger.run(envdoctor, "check", own, "--lock", "uv.lock", "--json", code=2))
    assert refused["error"]["message"] == f"{stranger.folder}/uv.lock: no such file"
    stranger.run(envdoctor, "sbom", own, code=2)


def test_a_shipped_stack_is_restored_checked_and_started_with_the_gate_in_it(tmp_path: Path, wheel: Path) -> None:
    stranger = Stranger(tmp_path)
    envdoctor = _uv_tool(stranger, wheel)
    data = next(Path(envdoctor).resolve().parent.parent.glob("lib/python*/site-packages/envdoctor/_data"))
    stranger.run(envdoctor, "gate", "add", "-p", "cpu-smoke", code=2)
    for part in ("profiles/cpu-smoke.toml", "lockfiles/cpu-smoke.txt"):
        (stranger.folder / part).parent.mkdir()
        (stranger.folder / part).write_bytes((data / part).read_bytes())
    stranger.run(envdoctor, "gate", "add", "-p", "cpu-smoke")
    stranger.run(envdoctor, "restore", "-p", "cpu-smoke", "-y")
    stranger.run(envdoctor, "check", "-p", "cpu-smoke")
    stranger.run(envdoctor, "check")
    code = "import envdoctor_gate; envdoctor_gate.require('cpu-smoke'); import torch; print(torch.__version__)"
    started = stranger.run(envdoctor, "run", "-p", "cpu-smoke", "--", "python", "-c", code)
    assert started == "2.13.0+cpu\n"
