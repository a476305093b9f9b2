"""A CUDA extension beside a CPU torch: libc10_cuda.so is a part of torch's CUDA builds, no system library."""

import json
from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_cuda import PLAIN_INIT, host_without_cache, object_bytes, real_error
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel

TITLE = "xformers/_C.so of xformers 0.0.24 was built for a CUDA build of torch; torch here is 2.2.0+cpu, a CPU build"
LOAD = 'ctypes.CDLL(os.path.join(os.path.dirname(__file__), "_C.so"))'
AT_IMPORT = f"import ctypes, os, torch\n{LOAD}\n"
CAUGHT = f"import ctypes, os, torch\ntry:\n    {LOAD}\nexcept OSError as error:\n    print(error)\n"
STATED = {"version": {"cuda": 1201, "torch": "2.2.0+cu121", "python": "3.11.7"}, "env": {}}


def _cuda_torch(wheels: Path) -> Path:
    stubs: dict[str, tuple[str, ...]] = {"libc10_cuda.so": ()}
    return make_torch(
        wheels,
        "2.2.0+cu121",
        "12.1",
        files={
            "torch/__init__.py": PLAIN_INIT,
            "torch/lib/libc10.so": object_bytes("libc10.so"),
            "torch/lib/libc10_cuda.so": object_bytes("libc10_cuda.so"),
            "torch/lib/libtorch_cuda.so": object_bytes("libtorch_cuda.so", stubs=stubs, rpath="$ORIGIN"),
        },
    )


def _venv(root: Path, text: str) -> Venv:
    wheels = root / "wheels"
    stubs: dict[str, tuple[str, ...]] = {"libtorch_cuda.so": (), "libc10_cuda.so": ()}
    xformers = make_wheel(
        wheels,
        "xformers",
        "0.0.24",
        requires=["torch==2.2.0"],
        files={
            "xformers/__init__.py": text,
            "xformers/_C.so": object_bytes("_C.so", stubs=stubs),
            "xformers/cpp_lib.json": json.dumps(STATED),
        },
    )
    return make_venv(root / "venv", make_torch(wheels, "2.2.0+cpu", None), xformers)


@pytest.mark.parametrize(("text", "severity"), [(AT_IMPORT, "error"), (CAUGHT, "warning")], ids=["raises", "caught"])
def test_s04_it_is_another_build_of_torch(tmp_path: Path, text: str, severity: str) -> None:
    venv = _venv(tmp_path, text)
    host = host_without_cache(tmp_path / "home")
    missing = "libtorch_cuda.so: cannot open shared object file: No such file or directory"
    assert real_error(venv, "import xformers", host) == (f"OSError: {missing}" if severity == "error" else "")
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [f"{severity} ED309 {TITLE}"]
    (finding,) = verdict.findings
    assert finding.evidence == (
        "it needs libtorch_cuda.so and libc10_cuda.so, which this torch does not have",
        f"the loader says: {missing}",
        "cpp_lib.json beside it says that it was built for torch 2.2.0+cu121",
    )
    # The trap is a package of the system.
    assert finding.remediation.text == (
        "install the build of torch that xformers was built for, or a build of xformers for this torch; no package of "
        "the system has these libraries"
    )
    assert commands_of(finding, tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --torch-backend cu121 --reinstall-package torch torch==2.2.0"
    ]
    _cuda_torch(tmp_path / "wheels")
    mend(finding, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert real_error(venv, "import xformers", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()
