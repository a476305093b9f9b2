"""A CUDA library that hangs on an extra alone is removed: `uv pip check` is clean, and so is pip's."""

from pathlib import Path

from tests.factories.examine_venv import commands_of, first, mend, verdict_of
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import make_venv, run_uv, uninstall
from tests.factories.make_wheel import make_wheel


def test_an_extras_gated_library_is_missed_by_metadata_checks(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    torch = make_torch(wheels, "2.11.0", "13.0", requires=["cuda-toolkit[cublas,cufft]==13.0.2"])
    toolkit = make_wheel(
        wheels,
        "cuda-toolkit",
        "13.0.2",
        requires=['nvidia-cublas==13.0.*; extra == "cublas"', 'nvidia-cufft==12.0.0.61; extra == "cufft"'],
        metadata_lines=["Provides-Extra: cublas", "Provides-Extra: cufft"],
    )
    libraries = [
        make_wheel(wheels, "nvidia-cublas", "13.0.2.14", files={"nvidia/cu13/lib/libcublas.so.13": b"blas"}),
        make_wheel(wheels, "nvidia-cufft", "12.0.0.61", files={"nvidia/cu13/lib/libcufft.so.12": b"fft"}),
    ]
    venv = make_venv(tmp_path / "venv", torch, toolkit, *libraries)
    assert verdict_of(venv.prefix).findings == ()

    uninstall(venv, "nvidia-cufft")
    run_uv("pip", "check", "--python", venv.python, cache=tmp_path / ".uv-cache")  # raises unless it is clean
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == (
        "ED406",
        "nvidia-cufft is not installed; cuda-toolkit[cufft] 13.0.2 requires nvidia-cufft==12.0.0.61",
    )
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps nvidia-cufft==12.0.0.61"
    ]
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
