"""torch itself was compiled with numpy 1's headers beside numpy 2: it imports, and no array becomes a tensor."""

from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_cuda import object_bytes
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import make_venv
from tests.factories.make_wheel import make_wheel

TITLE = "torch 2.2.2 was compiled for numpy 1, and numpy 2.0.0 is installed: its first use of an array fails"
OF_1 = "module compiled against API version 0x%x but this version of numpy is 0x%x"
OF_2 = "module was compiled against NumPy C-API version 0x%x (NumPy 1.23) but the running NumPy has C-API version 0x%x."


def _torch(wheels: Path, version: str, words: str) -> Path:
    library = object_bytes("libtorch_python.so", source=f'const char *numpy_says(void) {{ return "{words}"; }}')
    return make_torch(wheels, version, None, files={"torch/lib/libtorch_python.so": library})


def test_s06_a_torch_for_numpy_1_is_told_and_the_command_heals(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "numpy", "1.26.4")
    venv = make_venv(tmp_path / "venv", _torch(wheels, "2.2.2", OF_1), make_wheel(wheels, "numpy", "2.0.0"))
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [f"warning ED312 {TITLE}"]
    assert verdict.findings[0].evidence == ("compiled with numpy 1's headers: torch/lib/libtorch_python.so",)
    assert commands_of(verdict.findings[0], tmp_path) == ["uv pip install --python [TMP]/venv/bin/python 'numpy<2'"]
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


@pytest.mark.parametrize(("words", "numpy"), [(OF_1 + OF_2, "2.0.0"), (OF_1, "1.26.4")], ids=["for both", "numpy 1"])
def test_s06_what_fits_is_silent(tmp_path: Path, words: str, numpy: str) -> None:
    wheels = tmp_path / "wheels"
    venv = make_venv(tmp_path / "venv", _torch(wheels, "2.3.0", words), make_wheel(wheels, "numpy", numpy))
    assert verdict_of(venv.prefix).findings == ()
