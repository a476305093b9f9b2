"""torch, parsed from its files."""

from pathlib import Path

import pytest

from envdoctor.errors import ProbeError
from envdoctor.probes.loading.torch_build import ABSENT, TorchBuild
from tests.factories.make_reading import read
from tests.factories.make_venv import make_venv
from tests.factories.make_wheel import make_wheel

# The very forms PyTorch has written: plain (2.10) and annotated (2.11 and later).
PLAIN = "__version__ = '2.10.0+cu128'\ndebug = False\ncuda = '12.8'\ngit_version = 'abc'\nhip = None\n"
ANNOTATED = (
    "from typing import Optional\n\n__all__ = ['__version__']\n__version__: str = '2.13.0+cpu'\ndebug: bool = False\n"
    "cuda: Optional[str] = None\ngit_version: str = 'def'\nhip: Optional[str] = None\n"
)


def _torch(tmp_path: Path, version_file: str | None, tracer: str = "", dist_version: str = "2.10.0") -> TorchBuild:
    files = {"torch/__init__.py": "raise SystemExit('torch was imported')\n"}
    if version_file is not None:
        files["torch/version.py"] = version_file
    if tracer:
        files["torch/fx/_symbolic_trace.py"] = tracer
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "torch", dist_version, files=files))
    return read(venv.prefix).fact(TorchBuild)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PLAIN, ("2.10.0+cu128", "12.8", "", "abc", "12")),
        (ANNOTATED, ("2.13.0+cpu", "", "", "def", "")),
        ("__version__ = '2.9'\nhip = '6.4'\ncuda = None\n", ("2.9", "", "6.4", "", "")),
        ("__version__ = open('/etc/passwd').read()\n", ("", "", "", "", "")),
    ],
    ids=["plain", "annotated", "rocm", "computed"],
)
def test_the_flavour_is_read_from_the_file_not_from_the_metadata(
    tmp_path: Path, text: str, expected: tuple[str, ...]
) -> None:
    build = _torch(tmp_path, text)
    assert (build.version, build.cuda, build.hip, build.git_version, build.cuda_major) == expected
    assert build.distribution_version == "2.10.0"


@pytest.mark.parametrize(
    ("tracer", "flag", "line"),
    [
        ("import x\n_is_fx_tracing_flag = False\n", "process-global", 2),
        ("_is_fx_tracing_flag: bool = False\n", "process-global", 1),
        ("import threading\n\n_is_fx_tracing_tls = threading.local()\n", "thread-local", 3),
    ],
)
def test_the_tracing_flag_is_read_from_the_source(tmp_path: Path, tracer: str, flag: str, line: int) -> None:
    build = _torch(tmp_path, PLAIN, tracer)
    assert (build.fx_flag, build.fx_evidence) == (flag, f"{build.folder}/fx/_symbolic_trace.py:{line}")


def test_an_unknown_tracer_is_unknown(tmp_path: Path) -> None:
    build = _torch(tmp_path, PLAIN, "def f():\n    _is_fx_tracing_flag = 1\n")
    assert build.fx_flag == "unknown"
    assert build.fx_evidence == (
        f"{build.folder}/fx/_symbolic_trace.py defines neither _is_fx_tracing_flag nor _is_fx_tracing_tls"
    )


def test_absent_torch_is_a_fact(tmp_path: Path) -> None:
    assert read(make_venv(tmp_path / "venv").prefix).fact(TorchBuild) == ABSENT


@pytest.mark.parametrize("text", ["def broken(:\n", "x = " + "(" * 3000, "\0"], ids=["syntax", "nesting", "nul"])
def test_a_version_file_that_does_not_parse_is_could_not_read(tmp_path: Path, text: str) -> None:
    with pytest.raises(ProbeError, match=r"torch/version\.py cannot be parsed: "):
        _torch(tmp_path, text)
