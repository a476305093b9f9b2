"""Removing the -cu12 wheel deletes files the -cu13 wheel owns too (sglang pull request 31035)."""

from pathlib import Path

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_library, make_linked_torch, real_error
from tests.factories.make_venv import install, make_venv, uninstall

LIBRARY = "nvidia/nvshmem/lib/libnvshmem_host.so.3"
ERROR = "libnvshmem_host.so.3: cannot open shared object file: No such file or directory"


def test_br01_the_survivor_is_reinstalled_by_force(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    cu12 = make_library(wheels, "nvidia-nvshmem-cu12", "3.4.5", LIBRARY, exports=["twelve"])
    cu13 = make_library(wheels, "nvidia-nvshmem-cu13", "3.4.5", LIBRARY, exports=["thirteen"])
    asks = ["nvidia-nvshmem-cu13==3.4.5; platform_system == 'Linux'"]
    torch = make_linked_torch(wheels, "2.11.0", "13.0", needs={"libnvshmem_host.so.3": ()}, requires=asks)
    venv = make_venv(tmp_path / "venv", cu12)
    install(venv, cu13)
    install(venv, torch)
    host = host_without_cache(tmp_path / "home")
    assert real_error(venv, "import torch", host) == ""

    uninstall(venv, "nvidia-nvshmem-cu12")
    # A plain install is a no-op, which the remedy therefore must not be: the metadata says all is there.
    install(venv, cu13)
    assert real_error(venv, "import torch", host) == f"ImportError: {ERROR}"
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        "error ED201 files of 1 distribution are missing, each at a path that another wheel writes too",
        f"  error ED301 `import torch` fails: {ERROR}",
    ]
    assert verdict.findings[0].subject == "nvidia-nvshmem-cu13"
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package nvidia-nvshmem-cu13 "
        "nvidia-nvshmem-cu13==3.4.5"
    ]

    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert real_error(venv, "import torch", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()
