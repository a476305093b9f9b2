"""An extension that its package opens at import needs a library of the system that no wheel brings (sgl-kernel)."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.facts.host import Host
from tests.factories.examine_venv import outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_linked_torch, object_bytes, real_error
from tests.factories.make_elf import make_shared
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel

ERROR = "libibumad.so.3: cannot open shared object file: No such file or directory"
TITLE = (
    "sgl_kernel/sm90/common_ops.abi3.so of sgl-kernel 0.3.21 cannot be loaded: libibumad.so.3: cannot open shared "
    "object file: No such file or directory"
)
AT_IMPORT = """
import ctypes, glob, os
try:
    ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(__file__), "sm90", "common_ops.*"))[0])
except OSError as e:
    raise ImportError("[sgl_kernel] CRITICAL: Could not load any common_ops library! " + str(e))
"""
CAUGHT = AT_IMPORT.replace('raise ImportError("', 'print("')
LATER = "def ops():\n" + "".join(f"    {line}\n" for line in AT_IMPORT.splitlines())


def _venv(root: Path, text: str) -> Venv:
    wheels = root / "wheels"
    ops = object_bytes("common_ops.abi3.so", stubs={"libibumad.so.3": ("rdma_x",)})
    kernel = make_wheel(
        wheels,
        "sgl-kernel",
        "0.3.21",
        files={"sgl_kernel/__init__.py": text, "sgl_kernel/sm90/common_ops.abi3.so": ops},
        tag="cp310-abi3-manylinux2014_x86_64",
    )
    return make_venv(root / "venv", make_linked_torch(wheels, "2.9.0+cu128", "12.8", needs={}), kernel)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return host_without_cache(tmp_path / "home")


def test_n01_importing_the_package_raises(tmp_path: Path, host: Host) -> None:
    venv = _venv(tmp_path, AT_IMPORT)
    critical = f"ImportError: [sgl_kernel] CRITICAL: Could not load any common_ops library! {ERROR}"
    assert real_error(venv, "import torch, sgl_kernel", host) == critical
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [f"warning ED307 {TITLE}"]
    (finding,) = verdict.findings
    assert finding.evidence == (
        "no distribution here brings libibumad.so.3",
        "importing sgl-kernel opens it, and lets the error through",
    )
    # The trap is the message's own advice: `pip install --upgrade sgl_kernel`.
    assert finding.remediation.text == (
        "If sgl-kernel is used, install the system package that provides libibumad.so.3 (Debian and Ubuntu: apt-get "
        "install libibumad3)"
    )

    made = make_shared(tmp_path / "system" / "libibumad.so.3", exports=["rdma_x"])
    there = replace(host, environ={**host.environ, "LD_LIBRARY_PATH": str(made.parent)})
    assert real_error(venv, "import torch, sgl_kernel", there) == ""
    assert [item.code for item in verdict_of(venv.prefix, there).findings if item.code == "ED307"] == []
    shutil.rmtree(made.parent)


@pytest.mark.parametrize("text", [CAUGHT, LATER], ids=["caught", "opened later"])
def test_n01_a_package_that_lives_without_it_is_silent(tmp_path: Path, host: Host, text: str) -> None:
    venv = _venv(tmp_path, text)
    assert real_error(venv, "import torch, sgl_kernel", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()
