"""An nvcc of another CUDA major that only PATH leads to (S11)."""

import json
from pathlib import Path

from tests.factories.examine_venv import environment_after, outline, verdict_of
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import make_venv


def _toolkit(root: Path, version: str) -> Path:
    nvcc = root / f"cuda-{version}/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    (nvcc.parents[1] / "version.json").write_text(json.dumps({"cuda": {"version": f"{version}.0"}}))
    return nvcc.parents[1]


def test_s11_the_nvcc_on_path_is_of_another_major(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.9.0+cu128", "12.8"))
    other, right = _toolkit(tmp_path, "13.0"), _toolkit(tmp_path, "12.9")
    host = bare_host(tmp_path / "home", PATH=f"{other}/bin:/usr/bin:/bin")
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        "note ED602 the nvcc on PATH ([TMP]/cuda-13.0/bin) is a CUDA 13.0 toolkit; torch 2.9.0+cu128 is a CUDA 12.8 "
        "build, and extensions compiled with it will be refused"
    ]
    assert verdict.findings[0].remediation.commands == ("export PATH=/usr/bin:/bin",)
    assert verdict_of(venv.prefix, environment_after(host, *verdict.findings[0].remediation.commands)).findings == ()
    named = bare_host(tmp_path / "home", PATH=f"{other}/bin:/usr/bin:/bin", CUDA_HOME=str(right))
    assert verdict_of(venv.prefix, named).findings == ()
    fitting = bare_host(tmp_path / "home", PATH=f"{right}/bin:{other}/bin")
    assert verdict_of(venv.prefix, fitting).findings == ()
