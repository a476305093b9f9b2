"""ED312: modules compiled with numpy 1's headers beside numpy 2, told from the words in them."""

import time
from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_cuda import object_bytes
from tests.factories.make_venv import Venv, install, make_venv
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
    # Its files are old enough that what is found is remembered, with another numpy than the one below.
    time.sleep(0.2)
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED312 frames 1.5.3 was compiled for numpy 1, and numpy 2.4.4 is installed: 1 module of it cannot be "
        "imported"
    ]
    assert commands_of(verdict.findings[0], tmp_path) == ["uv pip install --python [TMP]/venv/bin/python 'numpy<2'"]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_ed312_does_not_go_back_where_another_needs_numpy_2(tmp_path: Path) -> None:
    """The newest version that still asks for numpy 1 is not taken, nor another numpy."""
    venv = _venv(tmp_path, OF_1, more="numpy>=2.1")
    (finding,) = verdict_of(venv.prefix).findings
    assert finding.remediation.text == "install a newer version of frames that was built for numpy 2"
    assert commands_of(finding, tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python 'frames>1.5.3' numpy==2.4.4"
    ]
    assert finding.evidence[-1] == "other needs numpy 2"
    wheels, cache = tmp_path / "wheels", tmp_path / ".uv-cache"
    make_wheel(wheels, "frames", "2.0", requires=["numpy>=2"], files={"frames/_fast.so": _module(OF_2)})
    make_wheel(wheels, "frames", "3.0", requires=["numpy<2"], files={"frames/_fast.so": _module(OF_1)})
    mend(finding, wheels=wheels, cache=cache)
    assert verdict_of(venv.prefix).findings == ()
    assert {"frames-2.0.dist-info", "numpy-2.4.4.dist-info"} <= {path.name for path in venv.site_packages.iterdir()}


@pytest.mark.parametrize("direct", [True, False])
def test_ed312_keeps_the_torch_that_is_there(tmp_path: Path, direct: bool) -> None:  # noqa: FBT001
    """A newer version that asks for another torch, itself or through what is new in it, is not taken."""
    venv = _venv(tmp_path, OF_1, more="numpy>=2.1")
    wheels, cache = tmp_path / "wheels", tmp_path / ".uv-cache"
    for version in ("2.9.0", "2.8.0+cu128"):
        code = {"torch/version.py": f"__version__ = {version!r}\n"}
        torch = make_wheel(wheels, "torch", version, files=code)
    install(venv, torch)
    make_wheel(wheels, "helper", "1", requires=["torch>=2.9"])
    newest = ["numpy>=2", "torch>=2.9" if direct else "helper"]
    make_wheel(wheels, "frames", "3.0", requires=newest, files={"frames/_fast.so": _module(OF_2)})
    found = next(item for item in verdict_of(venv.prefix).findings if item.code == "ED312")
    assert commands_of(found, tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python 'frames>1.5.3' numpy==2.4.4 torch==2.8.0+cu128"
    ]
    (wheels / torch.name).unlink()
    with pytest.raises(AssertionError, match="No solution found"):
        mend(found, wheels=wheels, cache=cache)
    assert venv.dist_info("torch").name == "torch-2.8.0+cu128.dist-info"
    make_wheel(wheels, "frames", "2.0", requires=["numpy>=2"], files={"frames/_fast.so": _module(OF_2)})
    mend(found, wheels=wheels, cache=cache)
    assert venv.dist_info("torch").name == "torch-2.8.0+cu128.dist-info"
    assert venv.dist_info("frames").name == "frames-2.0.dist-info"


def test_ed312_explains_the_requirement_of_numpy_1(tmp_path: Path) -> None:
    verdict = verdict_of(_venv(tmp_path, OF_1, requires="numpy<2").prefix)
    title = "frames 1.5.3 was compiled for numpy 1, and numpy 2.4.4 is installed: 1 module of it cannot be imported"
    assert outline(verdict, tmp_path) == [
        f"error ED312 {title}",
        "  warning ED406 frames 1.5.3 requires numpy<2, and 2.4.4 is installed",
    ]


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
