"""The incident, replayed on the real CUDA stack: each step as `check` tells it and as `import torch` then behaves.

Restores profile pypi-cu128 (4.3 GB of wheels, 7.6 GB on disk) with the command itself, installs the CUDA-13 wheels that
torch 2.11.0 pins, takes them away again, fixes by the report's own command, and by `envdoctor restore`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uv

pytestmark = pytest.mark.stack

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = {
    "nvidia-cudnn-cu13": "9.19.0.56",
    "nvidia-cusparselt-cu13": "0.8.0",
    "nvidia-nccl-cu13": "2.28.9",
    "nvidia-nvshmem-cu13": "3.4.5",
}
OWNERS = ("nvidia-cudnn-cu12", "nvidia-cusparselt-cu12", "nvidia-nccl-cu12", "nvidia-nvshmem-cu12")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The real stack under test."""

    prefix: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.prefix / "bin/python"

    def check(self, *options: str) -> dict[str, Any]:
        """Return `envdoctor check --format json`."""
        done = _run([sys.executable, "-m", "envdoctor", "check", self.prefix, "--format", "json", *options])
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def import_error(self) -> str:
        """Import torch for real; return the error's text, or nothing."""
        done = _run([self.python, "-c", "import torch"])
        return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def _run(command: Sequence[str | Path], *, shell_path: bool = False) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environ["UV_PYTHON_DOWNLOADS"] = "never"
    if shell_path:
        environ["PATH"] = f"{Path(uv.find_uv_bin()).parent}{os.pathsep}{environ['PATH']}"
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=environ, cwd=ROOT)


def _uv(*arguments: str | Path) -> None:
    done = _run([uv.find_uv_bin(), *arguments])
    assert done.returncode == 0, done.stderr


def _restore(prefix: Path) -> None:
    done = _run([sys.executable, "-m", "envdoctor", "restore", "--profile", "pypi-cu128", "--venv", prefix, "--yes"])
    assert done.returncode == 0, done.stderr


def _codes(document: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in document["findings"] if finding["severity"] == "error"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    prefix = tmp_path_factory.mktemp("stack") / "venv"
    _restore(prefix)
    return Stack(prefix=prefix)


def test_1_the_restored_stack_is_clean_and_imports(stack: Stack) -> None:
    assert _codes(stack.check("--profile", "pypi-cu128")) == []
    assert stack.import_error() == ""


def test_2_the_foreign_wheels_overwrite_and_the_import_still_works(stack: Stack) -> None:
    pins = [f"{name}=={version}" for name, version in FOREIGN.items()]
    _uv("pip", "install", "--quiet", "--no-deps", "--python", stack.python, *pins)
    document = stack.check()
    first = document["findings"][0]
    assert (first["code"], first["subject"], first["explains"]) == ("ED203", ", ".join(OWNERS), ["ED302"])
    assert first["title"] == f"37 files of {', '.join(OWNERS)} hold the bytes of {', '.join(FOREIGN)}"
    # The CUDA-13 wheels' own requirements (nvidia-cublas and others) are not installed either: true, and not the cause.
    assert set(_codes(document)) == {"ED203", "ED302", "ED406"}
    assert stack.import_error() == ""
    cudnn = _run([stack.python, "-c", "import torch; print(torch.backends.cudnn.version())"]).stdout.strip()
    assert cudnn == "91900"


@pytest.mark.parametrize(
    ("gone", "lost"),
    [
        (("nvidia-cudnn-cu13",), OWNERS[:1]),
        (("nvidia-cusparselt-cu13",), OWNERS[:2]),
        (("nvidia-nccl-cu13", "nvidia-nvshmem-cu13"), OWNERS),
    ],
    ids=["cudnn", "cusparselt", "nccl-nvshmem"],
)
def test_3_each_uninstall_takes_files_of_another_and_the_prediction_is_pythons_error(
    stack: Stack, gone: tuple[str, ...], lost: tuple[str, ...]
) -> None:
    _uv("pip", "uninstall", "--quiet", "--python", stack.python, *gone)
    document = stack.check()
    first = document["findings"][0]
    assert (first["code"], first["subject"]) == ("ED201", ", ".join(lost))
    predicted = next(finding for finding in document["findings"] if finding["code"] == "ED301")
    assert stack.import_error() == predicted["title"].replace("`import torch` fails", "ImportError")


def test_4_the_reports_own_command_mends_it(stack: Stack) -> None:
    for command in stack.check()["findings"][0]["remediation"]["commands"]:
        done = _run(["bash", "-c", command], shell_path=True)
        assert done.returncode == 0, done.stderr
    assert _codes(stack.check("--profile", "pypi-cu128")) == []
    assert stack.import_error() == ""


def test_5_restore_brings_the_broken_stack_back(stack: Stack) -> None:
    pins = [f"{name}=={version}" for name, version in FOREIGN.items()]
    _uv("pip", "install", "--quiet", "--no-deps", "--python", stack.python, *pins)
    _uv("pip", "uninstall", "--quiet", "--python", stack.python, *FOREIGN)
    assert stack.import_error().startswith("ImportError: libcudnn.so.9: ")
    _restore(stack.prefix)
    assert _codes(stack.check("--profile", "pypi-cu128")) == []
    assert stack.import_error() == ""
