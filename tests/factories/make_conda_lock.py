"""A conda-lock.yml by conda-lock itself: its solver for the pip packages, and the writer of its format.

What conda-lock would ask conda, mamba or micromamba, the packages of a channel, is given to it as its own records: a
test that asked a channel would depend on it. So this file has real entries of pip, and given ones of conda.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import uv

from tests.factories.make_index import Index

_WRITES = """
import json, pathlib, sys
from conda_lock.lockfile import write_conda_lock_file
from conda_lock.lockfile.v1.models import HashModel, LockMeta
from conda_lock.lockfile.v2prelim.models import LockedDependency, Lockfile
from conda_lock.models.channel import Channel
from conda_lock.models.lock_spec import VersionedDependency
from conda_lock.models.pip_repository import PipRepository
from conda_lock.pypi_solver import solve_pypi

asked = json.loads(sys.stdin.read())
conda = {
    name: LockedDependency(
        name=name, version=version, manager="conda", platform="linux-64", dependencies=dependencies,
        url=f"https://conda.anaconda.org/conda-forge/linux-64/{name}-{version}-0.conda",
        hash=HashModel(md5="0" * 32, sha256="0" * 64), categories={"main"},
    )
    for name, (version, dependencies) in asked["conda"].items()
}
mapping = pathlib.Path(asked["mapping"])
mapping.write_text("{}")
pip = solve_pypi(
    pip_specs={
        name: VersionedDependency(name=name, manager="pip", version=version)
        for name, version in asked["pip"].items()
    },
    use_latest=[], pip_locked={}, conda_locked=conda, python_version=asked["python"], platform="linux-64",
    pip_repositories=[PipRepository(url=asked["index"])], allow_pypi_requests=False, mapping_url=str(mapping),
)
content = Lockfile(
    package=[*conda.values(), *pip.values()],
    metadata=LockMeta(
        content_hash={"linux-64": "0" * 64}, channels=[Channel.from_string("conda-forge")], platforms=["linux-64"],
        sources=["environment.yml"],
    ),
)
write_conda_lock_file(content, pathlib.Path(asked["to"]), metadata_choices=None)
"""


def make_conda_lock(path: Path, index: Index, tools: Path, pip: dict[str, str]) -> None:
    """Have conda-lock write `path`: pip, name -> version, as in environment.yml; skip where it cannot be installed."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for command in (
        ("venv", "--python", sys.executable, tools),
        ("pip", "install", "--python", tools, "conda-lock==4.*"),
    ):
        done = subprocess.run([uv.find_uv_bin(), "--quiet", *command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"conda-lock cannot be installed: {done.stderr[-300:]}")
    asked = {
        "conda": {
            "python": (f"{python}.9", {"openssl": ">=3"}),
            "pip": ("25.0", {"python": ">=3.9"}),
            "openssl": ("3.3.1", {}),
        },
        "pip": pip,
        "python": f"{python}.9",
        "index": index.url,
        "mapping": str(tools / "mapping.json"),
        "to": str(path),
    }
    subprocess.run(
        [tools / "bin/python", "-c", _WRITES], input=json.dumps(asked), text=True, cwd=path.parent, check=True
    )
