"""Venvs as the tools that people use make them: venv with pip, uv, virtualenv, Poetry, PDM, Hatch."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import uv

from tests.factories.make_venv import Venv

TOOLS = (("virtualenv",), ("poetry",), ("pdm", "--with", "hishel<1", "--with", "unearth<0.18"), ("hatch",))
"""What `install_tools` installs. PDM 2.26.2 names no upper bounds, and newer hishel and unearth break it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Where the tools are, and what they may use."""

    bin: Path
    environment: Mapping[str, str]
    """Without the network: a test's own index is the only source."""
    index: str
    """URL of the simple API that has the wheels."""

    def run(self, *command: str | Path, cwd: Path) -> str:
        """Run a command and return its stdout; a failure raises with everything it said."""
        done = subprocess.run(
            list(map(str, command)),
            cwd=cwd,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}"
        return done.stdout


def install_tools(folder: Path) -> str:
    """Install each tool into a venv of its own below `folder`, all commands linked into `folder`/bin.

    Return why it was not possible, or an empty string.
    """
    kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    environment = kept | {
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_TOOL_DIR": str(folder / "tools"),
        "UV_TOOL_BIN_DIR": str(folder / "bin"),
    }
    python = os.path.realpath(sys.executable)
    for tool in TOOLS:
        command = [uv.find_uv_bin(), "tool", "install", "--no-config", "--python", python, *tool]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{tool[0]}: {done.stderr.strip()[-400:]}"
    return ""


def make_with(maker: str, shop: Workshop, folder: Path, pins: Mapping[str, str]) -> Venv:
    """Make `folder`/venv by that tool with exactly these distributions, each name with its version."""
    return _MAKERS[maker](shop, folder, [f"{name}=={version}" for name, version in pins.items()])


def _with_venv(shop: Workshop, folder: Path, pins: Sequence[str]) -> Venv:
    shop.run(os.path.realpath(sys.executable), "-m", "venv", "venv", cwd=folder)
    shop.run("venv/bin/pip", "install", "--no-deps", "--index-url", shop.index, *pins, cwd=folder)
    return Venv(prefix=folder / "venv")


def _with_uv(shop: Workshop, folder: Path, pins: Sequence[str]) -> Venv:
    tool = uv.find_uv_bin()
    shop.run(tool, "venv", "--python", os.path.realpath(sys.executable), "venv", cwd=folder)
    install = ("pip", "install", "--python", "venv", "--no-deps", "--default-index", shop.index)
    shop.run(tool, *install, *pins, cwd=folder)
    return Venv(prefix=folder / "venv")


def _with_virtualenv(shop: Workshop, folder: Path, pins: Sequence[str]) -> Venv:
    shop.run(shop.bin / "virtualenv", "--no-download", "--python", os.path.realpath(sys.executable), "venv", cwd=folder)
    shop.run("venv/bin/pip", "install", "--no-deps", "--index-url", shop.index, *pins, cwd=folder)
    return Venv(prefix=folder / "venv")


def _with_poetry(shop: Workshop, folder: Path, pins: Sequence[str]) -> Venv:
    # Poetry installs into the activated venv, or makes `.venv`; a link gives that the name all the others have.
    (folder / "pyproject.toml").write_text(
        _project(pins) + "[tool.poetry]\npackage-mode = false\n\n"
        f'[[tool.poetry.source]]\nname = "own"\nurl = "{shop.index}"\npriority = "primary"\n'
    )
    shop.run(os.path.realpath(sys.executable), "-m", "venv", "--without-pip", "venv", cwd=folder)
    inside = {"VIRTUAL_ENV": str(folder / "venv"), "PATH": f"{folder / 'venv/bin'}:{shop.environment['PATH']}"}
    there = Workshop(bin=shop.bin, environment={**shop.environment, **inside}, index=shop.index)
    there.run(shop.bin / "poetry", "install", "--no-interaction", "--no-root", cwd=folder)
    return Venv(prefix=folder / "venv")


def _with_pdm(shop: Workshop, folder: Path, pins: Sequence[str]) -> Venv:
    (folder / "pyproject.toml").write_text(
        _project(pins) + "[tool.pdm]\ndistribution = false\n\n"
        f'[[tool.pdm.source]]\nname = "pypi"\nurl = "{shop.index}"\nverify_ssl = false\n'
    )
    shop.run(os.path.realpath(sys.executable), "-m", "venv", "--without-pip", "venv", cwd=folder)
    shop.run(shop.bin / "pdm", "use", "--first", folder / "venv/bin/python", cwd=folder)
    shop.run(shop.bin / "pdm", "install", cwd=folder)
    return Venv(prefix=folder / "venv")


def _with_hatch(shop: Workshop, folder: Path, pins: Sequence[str]) -> Venv:
    (folder / "pyproject.toml").write_text(
        _project([]) + f'[tool.hatch.envs.default]\nskip-install = true\npath = "venv"\ndependencies = {list(pins)!r}\n'
    )
    own = {"PIP_INDEX_URL": shop.index, "HATCH_DATA_DIR": str(folder / "hatch"), "HATCH_PYTHON": sys.executable}
    there = Workshop(bin=shop.bin, environment={**shop.environment, **own}, index=shop.index)
    there.run(shop.bin / "hatch", "env", "create", cwd=folder)
    return Venv(prefix=folder / "venv")


def _project(pins: Sequence[str]) -> str:
    return (
        f'[project]\nname = "the-project"\nversion = "1.0"\nrequires-python = ">=3.11,<4"\n'
        f"dependencies = {list(pins)!r}\n\n"
    )


_MAKERS: dict[str, Callable[[Workshop, Path, Sequence[str]], Venv]] = {
    "venv and pip": _with_venv,
    "uv": _with_uv,
    "virtualenv": _with_virtualenv,
    "poetry": _with_poetry,
    "pdm": _with_pdm,
    "hatch": _with_hatch,
}

MAKERS = tuple(_MAKERS)
