"""ED312: modules compiled with numpy 1's headers beside numpy 2, told from the words in them."""

from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_cuda import object_bytes
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel

OF_1 = "module compiled against API version 0x%x but this version of numpy is 0x%x"
OF_2 = "module was compiled against NumPy C-API version 0x%x (NumPy 1.23) but the running NumPy has C-API version 0x%x."


def _module(words: str) -> bytes:
    init = "void *PyInit__fast(void) { return 0; }"
    return object_bytes("_fast.so", source=f'const char *numpy_says(void) {{ return "{words}"; }}\n{init}')


def _venv(root: Path, words: str, numpy: str = "2.4.4", *, requires: str = "numpy>=1.21", more: str = "") -> Venv:
    wheels = root / "wheels"
    for version in ("1.26.4", "2.4.4"):
        make_wheel(wheels, "numpy", version)
    made = [
        make_wheel(wheels, "numpy", numpy),
        make_wheel(
            wheels,
            "frames",
            "1.5.3",
            requires=[requires],
            files={"frames/__init__.py": "", "frames/_fast.so": _module(words)},
        ),
        make_wheel(wheels, "other", "1", requires=[more] if more else []),
    ]
    return make_venv(root / "venv", *made)


def test_finds_ed312_and_goes_back_to_numpy_1(tmp_path: Path) -> None:
    venv = _venv(tmp_path, OF_1)
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED312 frames 1.5.3 was compiled for numpy 1, and numpy 2.4.4 is installed: 1 module of it cannot be "
        "imported"
    ]
    assert commands_of(verdict.findings[0], tmp_path) == ["uv pip install --python [TMP]/venv/bin/python 'numpy<2'"]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_ed312_does_not_go_back_where_another_needs_numpy_2(tmp_path: Path) -> None:
    (finding,) = verdict_of(_venv(tmp_path, OF_1, more="numpy>=2.1").prefix).findings
    assert (finding.code, finding.remediation.commands) == ("ED312", ())
    assert finding.evidence[-1] == "other needs numpy 2"


@pytest.mark.parametrize(
    ("words", "numpy", "requires"),
    [
        (OF_2, "2.4.4", "numpy"),
        (OF_1, "1.26.4", "numpy"),
        (OF_1 + OF_2, "2.4.4", "numpy"),
        (OF_1, "2.4.4", "numpydoc>=0"),
    ],
    ids=["built for both", "numpy 1 is there", "both words", "numpy is not required"],
)
def test_passes_ed312(tmp_path: Path, words: str, numpy: str, requires: str) -> None:
    verdict = verdict_of(_venv(tmp_path, words, numpy, requires=requires).prefix)
    assert [item.code for item in verdict.findings if item.code == "ED312"] == []
