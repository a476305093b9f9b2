"""The incident's first step: a wheel that is to be uninstalled requires what is not there. It is not a second cause."""

from pathlib import Path

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import install, make_venv
from tests.factories.make_wheel import make_wheel

LIBRARY = "nvidia/cudnn/lib/libcudnn.so.9"


def test_what_an_intruder_requires_is_explained_by_the_file_conflict(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    own = make_wheel(wheels, "nvidia-cudnn-cu12", "9.10.2.21", files={LIBRARY: "twelve"})
    torch = make_torch(wheels, "2.10.0+cu128", "12.8", requires=["nvidia-cudnn-cu12==9.10.2.21"])
    venv = make_venv(tmp_path / "venv", torch, own)
    jax = make_wheel(
        wheels,
        "jax",
        "0.12.0",
        requires=['nvidia-cudnn-cu13>=9; extra == "cuda13"'],
        metadata_lines=["Provides-Extra: cuda13"],
    )
    install(venv, jax)
    other = make_wheel(
        wheels, "nvidia-cudnn-cu13", "9.19.0.56", requires=["nvidia-cublas"], files={LIBRARY: "thirteen!"}
    )
    install(venv, other)
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED203 1 file of nvidia-cudnn-cu12 holds the bytes of nvidia-cudnn-cu13",
        "  error ED406 nvidia-cublas is not installed; nvidia-cudnn-cu13 9.19.0.56 requires nvidia-cublas",
    ]
    assert verdict.findings[0].evidence[-1] == (
        "jax[cuda13] asks for nvidia-cudnn-cu13: if it was installed with that extra it loses them, and no metadata "
        "can tell; give it an environment of its own"
    )
    assert commands_of(verdict.findings[1], tmp_path) == []
    assert verdict.findings[1].remediation.text == (
        "Install nothing: nvidia-cudnn-cu13 is to be uninstalled, and the requirement goes with it"
    )
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache", hands=True)
    assert verdict_of(venv.prefix).findings == ()
