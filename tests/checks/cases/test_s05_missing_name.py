"""A package takes a name out of another one that does not have it: metadata is content, `import peft` raises."""

from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.interpreter import raised
from tests.factories.make_venv import make_venv, run_uv
from tests.factories.make_wheel import make_wheel

OLD_MEMORY = "def release_memory(*objects):\n    return objects\n"
NEW_MEMORY = f"{OLD_MEMORY}\n\ndef clear_device_cache():\n    pass\n"
IMPORT = "from accelerate.utils.memory import clear_device_cache, release_memory\n"


def _accelerate(root: Path, version: str, memory: str, utils: str = "") -> Path:
    files = {"accelerate/__init__.py": "", "accelerate/utils/__init__.py": utils, "accelerate/utils/memory.py": memory}
    return make_wheel(root / "wheels", "accelerate", version, files=files)


def _peft(root: Path, files: dict[str, str]) -> Path:
    return make_wheel(root / "wheels", "peft", "0.15.0", requires=["accelerate>=0.21.0"], files=files)


def test_s05_clear_device_cache(tmp_path: Path) -> None:
    files = {
        "peft/__init__.py": "from .tuners import lora\n",
        "peft/tuners/__init__.py": "",
        "peft/tuners/lora.py": IMPORT,
    }
    venv = make_venv(tmp_path / "venv", _accelerate(tmp_path, "0.31.0", OLD_MEMORY), _peft(tmp_path, files))
    assert raised(venv.python, "import peft").startswith("ImportError: cannot import name 'clear_device_cache'")
    run_uv("pip", "check", "--python", venv.python, cache=tmp_path / ".uv-cache")
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED416 peft 0.15.0 imports clear_device_cache from accelerate.utils.memory, which accelerate 0.31.0 does "
        "not have"
    ]
    assert verdict.findings[0].evidence == (
        f"{venv.site_packages}/peft/tuners/lora.py:1: accelerate.utils.memory.clear_device_cache",
        "`import peft` runs that line: it raises ImportError",
    )
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python 'accelerate>0.31.0,>=0.21.0'"
    ]
    _accelerate(tmp_path, "1.5.0", NEW_MEMORY)
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert raised(venv.python, "import peft") == ""
    assert verdict_of(venv.prefix).findings == ()


def test_s05_a_module_that_is_not_there(tmp_path: Path) -> None:
    files = {"peft/__init__.py": "from accelerate.utils.dataclasses import Plugin\n"}
    venv = make_venv(tmp_path / "venv", _accelerate(tmp_path, "0.31.0", OLD_MEMORY), _peft(tmp_path, files))
    assert raised(venv.python, "import peft") == "ModuleNotFoundError: No module named 'accelerate.utils.dataclasses'"
    assert outline(verdict_of(venv.prefix), tmp_path) == [
        "error ED416 peft 0.15.0 imports accelerate.utils.dataclasses, which accelerate 0.31.0 does not have"
    ]


@pytest.mark.parametrize(
    ("files", "memory", "utils"),
    [
        ({"peft/__init__.py": f"try:\n    {IMPORT}except ImportError:\n    pass\n"}, OLD_MEMORY, ""),
        ({"peft/__init__.py": f'"""Example:\n\n{IMPORT}"""\n'}, OLD_MEMORY, ""),
        ({"peft/__init__.py": "", "peft/optional.py": IMPORT}, OLD_MEMORY, ""),
        ({"peft/__init__.py": IMPORT}, f"{OLD_MEMORY}def __getattr__(name): return name\n", ""),
        ({"peft/__init__.py": IMPORT}, f"{OLD_MEMORY}globals().update({{'clear_' + 'device_cache': 1}})\n", ""),
        ({"peft/__init__.py": "from accelerate.utils import memory, clear\n"}, OLD_MEMORY, "from .more import *\n"),
        ({"peft/__init__.py": "from accelerate.utils import memory\n"}, OLD_MEMORY, ""),
        (
            {"peft/__init__.py": "from accelerate.utils.memory import (\n    release_memory,  # noqa\n)\n"},
            OLD_MEMORY,
            "",
        ),
    ],
    ids=["guarded", "docstring", "not-reached", "getattr", "globals", "star", "a-module", "whole"],
)
def test_s05_what_imports_is_no_finding(tmp_path: Path, files: dict[str, str], memory: str, utils: str) -> None:
    accelerate = _accelerate(tmp_path, "0.31.0", memory, utils)
    if "more" in utils:
        accelerate = make_wheel(
            tmp_path / "wheels",
            "accelerate",
            "0.31.0",
            files={
                "accelerate/__init__.py": "",
                "accelerate/utils/__init__.py": utils,
                "accelerate/utils/memory.py": memory,
                "accelerate/utils/more.py": "clear = 1\n",
            },
        )
    venv = make_venv(tmp_path / "venv", accelerate, _peft(tmp_path, files))
    assert raised(venv.python, "import peft") == ""
    assert verdict_of(venv.prefix).findings == ()
