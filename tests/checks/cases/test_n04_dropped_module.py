"""setuptools 82 has no pkg_resources any more, Python 3.12 no distutils and no imp; metadata is content."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.interpreter import raised
from tests.factories.make_venv import install, make_venv, run_uv
from tests.factories.make_wheel import make_wheel

NO_MODULE = "ModuleNotFoundError: No module named 'pkg_resources'"
NEW = {"setuptools/__init__.py": ""}
OLD = {"setuptools/__init__.py": "", "pkg_resources/__init__.py": ""}
TENSORBOARD = {
    "tensorboard/__init__.py": "",
    "tensorboard/default.py": "import logging\nimport pkg_resources\n",
    "tensorboard/main.py": "from tensorboard import default\n",
}


@pytest.fixture
def python_3_12() -> str:
    """Return a CPython 3.12: from PATH, or of pyenv, whose shims do not start it."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv").glob("versions/3.12*/bin/python3.12")
    for python in [*filter(None, [shutil.which("python3.12")]), *map(str, sorted(pyenv))]:
        if not subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode:
            return python
    pytest.skip("no CPython 3.12 on this machine")


def _setuptools(root: Path, version: str, files: dict[str, str]) -> Path:
    return make_wheel(root / "wheels", "setuptools", version, files=files)


def test_n04_pkg_resources_of_tensorboard(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    tensorboard = make_wheel(wheels, "tensorboard", "2.20.0", requires=["setuptools>=41.0.0"], files=TENSORBOARD)
    venv = make_venv(tmp_path / "venv", tensorboard, _setuptools(tmp_path, "82.0.1", NEW))
    assert raised(venv.python, "import tensorboard.main") == NO_MODULE
    assert raised(venv.python, "import tensorboard") == ""
    run_uv("pip", "check", "--python", venv.python, cache=tmp_path / ".uv-cache")
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "warning ED415 tensorboard 2.20.0 imports pkg_resources, which setuptools 82.0.1 does not have any more"
    ]
    assert verdict.findings[0].evidence == (
        f"{venv.site_packages}/tensorboard/default.py:2: that module cannot be imported",
    )
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python 'setuptools<82,>=41.0.0'"
    ]
    _setuptools(tmp_path, "81.0.0", OLD)
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert raised(venv.python, "import tensorboard.main") == ""
    assert verdict_of(venv.prefix).findings == ()


def test_n04_a_package_that_does_not_import_at_all_is_an_error(tmp_path: Path) -> None:
    files = {"old/__init__.py": "from .core import run\n", "old/core.py": "from pkg_resources import parse_version\n"}
    old = make_wheel(tmp_path / "wheels", "old", "1.0", files=files)
    venv = make_venv(tmp_path / "venv", old, _setuptools(tmp_path, "82.0.1", NEW))
    assert raised(venv.python, "import old") == NO_MODULE
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED415 old 1.0 imports pkg_resources, which setuptools 82.0.1 does not have any more"
    ]
    assert verdict.findings[0].evidence == (
        f"{venv.site_packages}/old/core.py:1: `import old` raises ModuleNotFoundError",
    )


def test_n04_no_command_where_somebody_needs_the_newer_setuptools(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    tensorboard = make_wheel(wheels, "tensorboard", "2.20.0", requires=["setuptools>=41.0.0"], files=TENSORBOARD)
    newer = make_wheel(wheels, "newer", "1.0", requires=["setuptools>=82"])
    venv = make_venv(tmp_path / "venv", tensorboard, newer, _setuptools(tmp_path, "82.0.1", NEW))
    (finding,) = verdict_of(venv.prefix).findings
    assert (finding.code, finding.remediation.commands) == ("ED415", ())


@pytest.mark.parametrize(
    "files",
    [
        {"thing/__init__.py": "try:\n    import pkg_resources\nexcept ImportError:\n    pkg_resources = None\n"},
        {"thing/__init__.py": '"""Use it so:\n\nimport pkg_resources\n"""\n'},
        {"thing/__init__.py": "def version():\n    import pkg_resources\n"},
        {"thing/__init__.py": "", "thing/unused.py": "import pkg_resources\n"},
        {"thing/__init__.py": "", "thing/tests/test_it.py": "import pkg_resources\n"},
        {"thing/__init__.py": "from thing import pkg_resources\n", "thing/pkg_resources.py": ""},
        {"thing/__init__.py": "import pkg_resources_of_another\n", "pkg_resources_of_another.py": ""},
    ],
    ids=["guarded", "docstring", "in-a-function", "unused", "a-test", "its-own", "another-name"],
)
def test_n04_what_does_no_harm_is_no_finding(tmp_path: Path, files: dict[str, str]) -> None:
    thing = make_wheel(tmp_path / "wheels", "thing", "1.0", files=files)
    venv = make_venv(tmp_path / "venv", thing, _setuptools(tmp_path, "82.0.1", NEW))
    assert raised(venv.python, "import thing") == ""
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize("module", ["imp", "distutils.version"])
def test_n04_modules_that_python_itself_dropped(tmp_path: Path, python_3_12: str, module: str) -> None:
    thing = make_wheel(tmp_path / "wheels", "thing", "1.0", files={"thing/__init__.py": f"import {module}\n"})
    venv = make_venv(tmp_path / "venv", thing, python=python_3_12)
    top = module.partition(".")[0]
    assert raised(venv.python, "import thing") == f"ModuleNotFoundError: No module named '{top}'"
    (finding,) = verdict_of(venv.prefix).findings
    assert (finding.severity, finding.title) == (
        "error",
        f"thing 1.0 imports {top}, which Python 3.12 does not have any more",
    )
    if top == "imp":
        assert finding.remediation.commands == ()
        return
    precedence = {
        "setuptools/__init__.py": "",
        "_distutils_hack/__init__.py": """import importlib.abc, importlib.util, sys
class F(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "distutils":
            return importlib.util.find_spec("setuptools._distutils")
sys.meta_path.insert(0, F())
""",
        "setuptools/_distutils/__init__.py": "",
        "setuptools/_distutils/version.py": "",
        "distutils-precedence.pth": "import _distutils_hack\n",
    }
    assert commands_of(finding, tmp_path) == ["uv pip install --python [TMP]/venv/bin/python setuptools"]
    _setuptools(tmp_path, "84.0.0", precedence)
    mend(finding, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert raised(venv.python, "import distutils") == ""
    assert [item.code for item in verdict_of(venv.prefix).findings if item.code == "ED415"] == []


def test_n04_what_was_found_is_forgotten_when_a_package_changes(tmp_path: Path) -> None:
    files = {"old/__init__.py": "import pkg_resources\n"}
    venv = make_venv(
        tmp_path / "venv",
        make_wheel(tmp_path / "wheels", "old", "1.0", files=files),
        _setuptools(tmp_path, "82.0.1", NEW),
    )
    assert [item.code for item in verdict_of(venv.prefix).findings] == ["ED415"]
    assert [item.code for item in verdict_of(venv.prefix).findings] == ["ED415"]
    install(venv, make_wheel(tmp_path / "wheels", "old", "1.1", files={"old/__init__.py": ""}))
    assert verdict_of(venv.prefix).findings == ()


VIDEO = {"qwen_vl_utils/__init__.py": "from . import vision\n", "qwen_vl_utils/vision.py": "import torchvision\n"}
VIDEO_EXTRA = ["torchvision; extra == 'video'"]


def test_n04_what_metadata_leaves_to_the_user_is_a_note(tmp_path: Path) -> None:
    """As qwen-vl-utils 0.0.14 without torchvision."""
    utils = make_wheel(tmp_path / "wheels", "qwen-vl-utils", "0.0.14", requires=VIDEO_EXTRA, files=VIDEO)
    venv = make_venv(tmp_path / "venv", utils)
    assert raised(venv.python, "import qwen_vl_utils") == "ModuleNotFoundError: No module named 'torchvision'"
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "note ED415 qwen-vl-utils 0.0.14 imports torchvision, which is not installed and which its metadata does not "
        "require"
    ]
    (finding,) = verdict.findings
    assert finding.evidence == (
        f"{venv.site_packages}/qwen_vl_utils/vision.py:1: `import qwen_vl_utils` raises ModuleNotFoundError",
    )
    assert finding.remediation.commands == ()
    assert finding.remediation.text == (
        "If qwen-vl-utils is used, install the torchvision that belongs to the installed torch"
    )
    vision = make_wheel(tmp_path / "wheels", "torchvision", "0.30.0", files={"torchvision/__init__.py": ""})
    install(venv, vision)
    assert raised(venv.python, "import qwen_vl_utils") == ""
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize(
    ("files", "requires"),
    [
        ({"thing/__init__.py": "", "thing/vision.py": "import torchvision\n"}, ["setuptools"]),
        ({"thing/__init__.py": "def show():\n    import torchvision\n"}, []),
        ({"thing/__init__.py": "try:\n    import torchvision\nexcept ImportError:\n    pass\n"}, []),
    ],
    ids=["a part that nothing imports", "in a function", "guarded"],
)
def test_n04_an_optional_part_that_needs_it_is_no_note(
    tmp_path: Path, files: dict[str, str], requires: list[str]
) -> None:
    thing = make_wheel(tmp_path / "wheels", "thing", "1.0", requires=requires, files=files)
    venv = make_venv(tmp_path / "venv", thing, _setuptools(tmp_path, "82.0.1", NEW))
    assert raised(venv.python, "import thing") == ""
    assert verdict_of(venv.prefix).findings == ()


def test_n04_what_metadata_requires_is_told_once(tmp_path: Path) -> None:
    utils = make_wheel(tmp_path / "wheels", "qwen-vl-utils", "1.0", requires=["torchvision"], files=VIDEO)
    venv = make_venv(tmp_path / "venv", utils)
    assert [item.code for item in verdict_of(venv.prefix).findings] == ["ED406"]
