"""Which variables set which configuration values, read from a module like torch's."""

from pathlib import Path

import pytest

from envdoctor.cache.config_variables import variables
from envdoctor.errors import ProbeError
from tests.factories.make_cache import write

INDUCTOR = """
import os
from torch.utils._config_module import Config, install_config_module

max_autotune = os.environ.get("TORCHINDUCTOR_MAX_AUTOTUNE") == "1"
compile_threads: int = int(os.getenv("TORCHINDUCTOR_COMPILE_THREADS", "4"))
forced: bool = Config(env_name_force="TORCHINDUCTOR_FORCED", env_name_default="TORCHINDUCTOR_DEFAULT", default=True)
plain = 3

def prologue():
    if "TORCHINDUCTOR_PROLOGUE" in os.environ:
        return os.environ.get("TORCHINDUCTOR_PROLOGUE") == "1"
    return True

prologue_fusion = prologue()

class cpp:
    cxx = (None, os.environ.get("CXX", "g++"))
    class inner:
        deep = os.environ["TORCHINDUCTOR_DEEP"]

class trace:
    enabled = os.environ.get("TORCH_COMPILE_DEBUG") == "1"

if True:
    branch = os.environ.get("TORCHINDUCTOR_BRANCH")

_cache_config_ignore_prefix: list[str] = ["trace", "compile_threads"]
"""


def test_every_way_of_reading_a_variable_is_seen(tmp_path: Path) -> None:
    write(tmp_path / "_inductor/config.py", INDUCTOR.encode())
    write(tmp_path / "_functorch/config.py", b'import os\nstrict = bool(os.getenv("CI"))\n')
    assert {name: setting.sets for name, setting in variables(tmp_path).items()} == {
        "CI": ("strict",),
        "CXX": ("cpp.cxx",),
        "TORCHINDUCTOR_BRANCH": ("branch",),
        "TORCHINDUCTOR_DEEP": ("cpp.inner.deep",),
        "TORCHINDUCTOR_DEFAULT": ("forced",),
        "TORCHINDUCTOR_FORCED": ("forced",),
        "TORCHINDUCTOR_MAX_AUTOTUNE": ("max_autotune",),
        "TORCHINDUCTOR_PROLOGUE": ("prologue_fusion",),
    }


def test_what_the_key_reads_by_its_name_counts_whatever_its_prefix(tmp_path: Path) -> None:
    write(tmp_path / "_inductor/config.py", INDUCTOR.encode())
    source = (
        b"x = config.trace.other\n\nclass FxGraphHashDetails:\n    level = config.trace.enabled\n\nclass Next: ...\n"
    )
    write(tmp_path / "_inductor/codecache.py", source)
    assert variables(tmp_path)["TORCH_COMPILE_DEBUG"].sets == ("trace.enabled",)


@pytest.mark.parametrize(
    ("expression", "default", "another"),
    [
        ('os.environ.get("X") == "1"', ("0", "", "true"), ("1",)),
        ('os.environ.get("X", "1") == "1"', ("1",), ("0", "")),
        ('os.getenv("X", "0") != "0"', ("0",), ("1", "x")),
        ('int(os.getenv("X", "4"))', ("4", "04"), ("5",)),
        ('int(os.getenv("X", "4"))', (), ("x",)),
        ('int(os.getenv("Y", os.environ.get("X", "0")))', ("0",), ("1",)),
        ('not os.environ.get("X") and True', ("",), ("1",)),
        ('os.environ.get("X", "a") in ("a", "b")', ("a", "b"), ("c",)),
        ('(None, os.environ.get("X", "g++"))', ("g++",), ("clang++",)),
        ('4 if os.environ.get("X", "").lower() == "big" else 3', ("", "small"), ("BIG",)),
        ('os.environ["X"]', (), ("1",)),
        ('own(os.environ.get("X"))', (), ("", "1")),
        ("not " * 200 + 'os.environ.get("X")', (), ("", "1")),
    ],
)
def test_a_value_that_is_the_default_changes_nothing(
    tmp_path: Path, expression: str, default: tuple[str, ...], another: tuple[str, ...]
) -> None:
    write(tmp_path / "_inductor/config.py", f"import os\nvalue = {expression}\n".encode())
    setting = variables(tmp_path)["X"]
    assert [setting.at_default(value) for value in default] == [True] * len(default)
    assert [setting.at_default(value) for value in another] == [False] * len(another)


def test_a_torch_without_one_of_the_modules(tmp_path: Path) -> None:
    assert variables(tmp_path) == {}


def test_a_module_that_cannot_be_parsed_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "_inductor/config.py", b"def (")
    with pytest.raises(ProbeError) as caught:
        variables(tmp_path)
    assert caught.value.message == f"{path}: invalid syntax (<unknown>, line 1)"
