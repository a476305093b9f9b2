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
    assert variables(tmp_path) == {
        "CI": ("strict",),
        "CXX": ("cpp.cxx",),
        "TORCHINDUCTOR_BRANCH": ("branch",),
        "TORCHINDUCTOR_DEEP": ("cpp.inner.deep",),
        "TORCHINDUCTOR_DEFAULT": ("forced",),
        "TORCHINDUCTOR_FORCED": ("forced",),
        "TORCHINDUCTOR_MAX_AUTOTUNE": ("max_autotune",),
        "TORCHINDUCTOR_PROLOGUE": ("prologue_fusion",),
    }


def test_a_torch_without_one_of_the_modules(tmp_path: Path) -> None:
    assert variables(tmp_path) == {}


def test_a_module_that_cannot_be_parsed_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "_inductor/config.py", b"def (")
    with pytest.raises(ProbeError) as caught:
        variables(tmp_path)
    assert caught.value.message == f"{path}: invalid syntax (<unknown>, line 1)"
