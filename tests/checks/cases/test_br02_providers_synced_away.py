"""`uv sync` removes the CUDA libraries that the lock does not list; torch stays (w-m/ffsplat issue 29)."""

from pathlib import Path

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_library, make_linked_torch, real_error
from tests.factories.make_venv import Venv, run_uv

ERROR = "libcudnn.so.9: cannot open shared object file: No such file or directory"
TITLE = "`import torch` fails: libcudnn.so.9: cannot open shared object file: No such file or directory"
PROJECT = """\
[project]
name = "ffs"
version = "0"
requires-python = ">=3.11"
dependencies = ["torch==2.6.0"]
[tool.uv]
package = false
"""


def test_br02_an_exact_sync_takes_the_providers(tmp_path: Path) -> None:
    wheels, project = tmp_path / "wheels", tmp_path / "project"
    make_library(wheels, "nvidia-cudnn-cu12", "9.5.1.17", "nvidia/cudnn/lib/libcudnn.so.9")
    # This torch's metadata does not list its providers, so neither does the lock.
    make_linked_torch(wheels, "2.6.0", "12.6", needs={"libcudnn.so.9": ()})
    project.mkdir()
    (project / "pyproject.toml").write_text(PROJECT)
    venv = Venv(prefix=project / ".venv")
    only = {"UV_FIND_LINKS": str(wheels), "UV_NO_INDEX": "1"}
    cache = tmp_path / ".uv-cache"
    run_uv("sync", "--quiet", "--project", project, cache=cache, extra=only)
    run_uv("pip", "install", "--quiet", "--python", venv.python, "nvidia-cudnn-cu12", cache=cache, extra=only)
    host = host_without_cache(tmp_path / "home")
    assert verdict_of(venv.prefix, host).findings == ()

    run_uv("sync", "--quiet", "--project", project, cache=cache, extra=only)
    assert real_error(venv, "import torch", host) == f"ImportError: {ERROR}"
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [f"error ED301 {TITLE}"]
    (finding,) = verdict.findings
    assert finding.evidence[-1] == "its provider for this torch is nvidia-cudnn-cu12: not installed"
    assert finding.remediation.text == (
        "install nvidia-cudnn-cu12, and add it to the lock that this venv is synced from: an exact sync removes what "
        "the lock does not list"
    )
    assert commands_of(finding, tmp_path) == [
        "uv pip install --python [TMP]/project/.venv/bin/python --no-deps nvidia-cudnn-cu12"
    ]

    mend(finding, wheels=wheels, cache=cache)
    assert real_error(venv, "import torch", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()
