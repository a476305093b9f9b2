"""Projects of uv, Poetry and PDM with a member whose wheel is not on any index, and the tools that lock them."""

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import uv

from tests.factories.make_index import Index
from tests.factories.make_stack import closed_environment, make_torch
from tests.factories.make_wheel import make_wheel

# Makes a wheel of pyproject.toml and one module, with nothing but the standard library.
BACKEND = """\
import base64, hashlib, pathlib, tomllib, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    requires = "".join(f"Requires-Dist: {line}\\n" for line in project.get("dependencies", ()))
    members = {
        f"{project['name'].replace('-', '_')}.py": f"VERSION = {project['version']!r}\\n",
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\\nName: {project['name']}\\n"
        f"Version: {project['version']}\\n{requires}",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    rows = []
    with zipfile.ZipFile(pathlib.Path(wheel_directory, f"{stem}-py3-none-any.whl"), "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(text.encode())}")
        archive.writestr(f"{stem}.dist-info/RECORD", "\\n".join([*rows, f"{stem}.dist-info/RECORD,,", ""]))
    return f"{stem}-py3-none-any.whl"

build_editable = build_wheel

def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError
"""
BUILD = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
DEPENDENCIES = ("torch==2.13.0+cpu", "plain", "from-source")
VERSIONS = {"torch": "2.13.0+cpu", "plain": "3.0", "from-source": "1.4", "member": "0.3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A folder with a pyproject.toml, a member below it, and the environment its tools run in."""

    folder: Path
    environment: dict[str, str]

    def run(self, *command: str | Path, extra: Mapping[str, str] | None = None) -> str:
        """Run a tool in the project's folder and return what it printed; AssertionError with its words if it fails."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env=self.environment | dict(extra or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout


def make_offers(folder: Path) -> None:
    """Fill an index's folder: a torch that is only a version file, `plain` 2.0 and 3.0, and an sdist."""
    make_torch(folder)
    make_wheel(folder, "plain", "2.0")
    make_wheel(folder, "plain", "3.0")
    pyproject = _package("from-source", "1.4")
    with tarfile.open(folder / "from_source-1.4.tar.gz", "w:gz") as archive:
        for name, text in {"pyproject.toml": pyproject, "backend.py": BACKEND, "PKG-INFO": _PKG_INFO}.items():
            entry = tarfile.TarInfo(f"from_source-1.4/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))


def make_project(folder: Path, index: Index, tool: str, *, tools: Path | None = None) -> Project:
    """Write the project for "uv", "poetry" or "pdm", and run nothing."""
    member = folder / "member"
    member.mkdir(parents=True)
    (member / "pyproject.toml").write_text(_package("member", "0.3"))
    (member / "backend.py").write_text(BACKEND)
    where = "member" if tool == "uv" else f"member @ {member.as_uri()}"
    listed = ", ".join(f'"{one}"' for one in (*DEPENDENCIES, where))
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "whole"\nversion = "0.1"\nrequires-python = ">=3.11"\ndependencies = [{listed}]\n'
        + _TABLES[tool].format(index=index.url)
    )
    path = os.pathsep.join([*([str(tools)] if tools else []), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = closed_environment(folder / "closed") | {
        "PATH": path,
        "PIP_INDEX_URL": index.url,
        "UV_PYTHON": sys.executable,
        "PDM_CHECK_UPDATE": "0",
        "POETRY_VIRTUALENVS_CREATE": "false",
    }
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "UV_NO_CONFIG", "UV_OFFLINE"):
        environment.pop(name, None)
    return Project(folder=folder, environment=environment)


def make_tools(folder: Path) -> Path:
    """Install Poetry and PDM, each into a venv of its own, and return a folder with both programs."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    # The lock of PDM's own release: a newer hishel than it was released with breaks it.
    for name, wanted in (("poetry", ("poetry", "poetry-plugin-export")), ("pdm", ("pdm", "hishel==1.4.0"))):
        for command in (
            ("venv", "--python", sys.executable, folder / name),
            ("pip", "install", "--python", folder / name, *wanted),
        ):
            done = subprocess.run([uv.find_uv_bin(), "--quiet", *command], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"{name} cannot be installed: {done.stderr[-300:]}")
        (programs / name).symlink_to(folder / name / "bin" / name)
    return programs


def _package(name: str, version: str) -> str:
    return f'[project]\nname = "{name}"\nversion = "{version}"\nrequires-python = ">=3.11"\n{BUILD}'


_PKG_INFO = "Metadata-Version: 2.2\nName: from-source\nVersion: 1.4\nRequires-Python: >=3.11\n"
_TABLES = {
    "uv": '[tool.uv]\npackage = false\n[[tool.uv.index]]\nurl = "{index}"\ndefault = true\n'
    '[tool.uv.workspace]\nmembers = ["member"]\n[tool.uv.sources]\nmember = {{ workspace = true }}\n',
    "poetry": '[tool.poetry]\npackage-mode = false\n[[tool.poetry.source]]\nname = "here"\nurl = "{index}"\n'
    'priority = "primary"\n',
    "pdm": '[tool.pdm]\ndistribution = false\n[[tool.pdm.source]]\nname = "pypi"\nurl = "{index}"\n'
    "verify_ssl = false\n",
}
