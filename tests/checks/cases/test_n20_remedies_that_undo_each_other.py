"""Two distributions install one module and each is required by somebody: the remedy of one finding is final."""

from pathlib import Path

import pytest

from tests.factories.examine_venv import by_hand, commands_of, mend, outline, verdict_of
from tests.factories.interpreter import printed
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import install, make_venv
from tests.factories.make_wheel import make_wheel

STAYS = (
    "mamba-ssm requires triton: after the uninstall that stays unmet in metadata alone, since pytorch-triton-rocm "
    "installs the module triton; do not install triton again for it"
)


@pytest.mark.parametrize("hands", [False, True], ids=["repair", "by-hand"])
def test_n20_triton_over_pytorch_triton_rocm(tmp_path: Path, hands: bool) -> None:  # noqa: FBT001
    wheels, cache = tmp_path / "wheels", tmp_path / ".uv-cache"
    triton = make_wheel(wheels, "triton", "3.4.0", files={"triton/__init__.py": "v = 'cuda'\n"})
    venv = make_venv(
        tmp_path / "venv",
        make_torch(wheels, "2.8.0+rocm6.4", None, requires=["pytorch-triton-rocm==3.4.0"]),
        make_wheel(wheels, "pytorch-triton-rocm", "3.4.0", files={"triton/__init__.py": "v = 'rocm'\n"}),
        make_wheel(wheels, "mamba-ssm", "2.2.2", requires=["triton"]),
    )
    install(venv, triton)
    which = "import triton; print(triton.v)"
    assert printed(venv.python, which) == "cuda"
    finding = verdict_of(venv.prefix).findings[0]
    assert (finding.code, finding.severity, finding.title) == (
        "ED409",
        "error",
        "the module triton is installed by pytorch-triton-rocm 3.4.0 and triton 3.4.0 at once; the one on disk is "
        "triton's",
    )
    assert finding.evidence[1] == STAYS
    assert commands_of(finding, tmp_path) == ["envdoctor repair --venv [TMP]/venv"]
    assert by_hand(finding, tmp_path) == [
        "uv pip uninstall --python [TMP]/venv/bin/python triton",
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package pytorch-triton-rocm "
        "pytorch-triton-rocm==3.4.0",
    ]
    mend(finding, wheels=wheels, cache=cache, hands=hands)
    assert printed(venv.python, which) == "rocm"
    after = verdict_of(venv.prefix)
    # What is left is said to be nothing to act on, and gives no command that would bring the broken state back.
    assert outline(after, tmp_path) == [
        "note ED406 triton is not installed, and the module triton is there: pytorch-triton-rocm installs it"
    ]
    assert (after.findings[0].remediation.commands, after.exit_code()) == ((), 0)
