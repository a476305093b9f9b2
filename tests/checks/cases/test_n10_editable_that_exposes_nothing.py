"""An editable install whose finder maps nothing, whose .pth leads nowhere, or an egg-link to a folder that is gone."""

from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.interpreter import raised
from tests.factories.make_venv import Venv, make_venv, run_uv

# A build backend of the project's own, as PEP 517 allows: it writes what setuptools writes.
BACKEND = '''
import base64, hashlib, pathlib, zipfile

FINDER = """from __future__ import annotations
import sys
MAPPING: dict[str, str] = {}
NAMESPACES: dict[str, list[str]] = {}
class _Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None): return None
def install(): sys.meta_path.append(_Finder)
"""


def build_editable(folder, config_settings=None, metadata_directory=None):
    here = pathlib.Path.cwd()
    if (config_settings or {}).get("editable_mode") == "compat":
        files = {"__editable__.libero-0.1.0.pth": f"{here}\\n"}
    elif (here / "src").is_dir():
        files = {"__editable__.libero-0.1.0.pth": f"{here}/src\\n"}
    else:
        name = "__editable___libero_0_1_0_finder"
        files = {f"{name}.py": FINDER, "__editable__.libero-0.1.0.pth": f"import {name}; {name}.install()\\n"}
    info = "libero-0.1.0.dist-info"
    files[f"{info}/METADATA"] = "Metadata-Version: 2.1\\nName: libero\\nVersion: 0.1.0\\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    rows = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text.encode())}")
    files[f"{info}/RECORD"] = "\\n".join([*rows, f"{info}/RECORD,,"]) + "\\n"
    with zipfile.ZipFile(pathlib.Path(folder, "libero-0.1.0-py3-none-any.whl"), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return "libero-0.1.0-py3-none-any.whl"


build_wheel = build_editable
'''
PROJECT = """[project]
name = "libero"
version = "0.1.0"
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
NO_MODULE = "ModuleNotFoundError: No module named 'libero'"


def _venv(root: Path, package: str) -> Venv:
    (root / "wheels").mkdir()
    project = root / "project"
    (project / package).mkdir(parents=True)
    (project / package / "__init__.py").write_text("")
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "backend.py").write_text(BACKEND)
    venv = make_venv(root / "venv")
    run_uv(
        "pip", "install", "-q", "--no-deps", "--python", venv.python, "--editable", project, cache=root / ".uv-cache"
    )  # fmt: skip
    return venv


def test_n10_a_finder_that_maps_nothing(tmp_path: Path) -> None:
    venv = _venv(tmp_path, "libero")
    assert raised(venv.python, "import libero") == NO_MODULE
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED412 libero 0.1.0 is installed, and no import finds it: its finder maps no module"
    ]
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package libero "
        "--config-setting editable_mode=compat --editable [TMP]/project"
    ]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert raised(venv.python, "import libero") == ""
    assert outline(verdict_of(venv.prefix), tmp_path) == [
        "note ED412 1 distribution is imported from a source folder: libero"
    ]


def test_n10_a_path_that_was_moved(tmp_path: Path) -> None:
    venv = _venv(tmp_path, "src/libero")
    assert raised(venv.python, "import libero") == ""
    assert outline(verdict_of(venv.prefix), tmp_path) == [
        "note ED412 1 distribution is imported from a source folder: libero"
    ]
    (tmp_path / "project/src").rename(tmp_path / "project/lib")
    assert raised(venv.python, "import libero") == NO_MODULE
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED412 libero 0.1.0 is installed, and no import finds it: the folder that __editable__.libero-0.1.0.pth "
        "adds does not exist"
    ]
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package libero --editable [TMP]/project"
    ]
    (tmp_path / "project/lib").rename(tmp_path / "project/src")
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert raised(venv.python, "import libero") == ""


@pytest.mark.parametrize("folder", ["gone", "g(o)n.e [1]*"])
def test_n10c_an_egg_link_to_a_folder_that_is_gone(tmp_path: Path, folder: str) -> None:
    (tmp_path / "wheels").mkdir()
    venv = make_venv(tmp_path / "venv")
    there = tmp_path / "there"
    there.mkdir()
    (there / "other.py").write_text("")
    gone = f"{tmp_path}/{folder}"
    (venv.site_packages / "easy-install.pth").write_text(f"{there}\n{gone}\n")
    (venv.site_packages / "megatron-core.egg-link").write_text(f"{gone}\n.")
    (venv.site_packages / "other.egg-link").write_text(f"{there}\n.")
    assert raised(venv.python, "import megatron") == "ModuleNotFoundError: No module named 'megatron'"
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED412 megatron-core is installed, and no import finds it: the folder that megatron-core.egg-link names "
        "does not exist"
    ]
    assert verdict.findings[0].evidence == (
        f"{venv.site_packages}/megatron-core.egg-link",
        f"{gone} does not exist",
    )
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
    # What the other one needs is still there.
    assert (venv.site_packages / "easy-install.pth").read_text() == f"{there}\n"
    assert raised(venv.python, "import other") == ""
