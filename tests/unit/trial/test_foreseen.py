"""Which commands import torch before anything else can happen, and which only may."""

from pathlib import Path

import pytest

from envdoctor.trial.foreseen import _imports_torch_first

TORCHRUN = "#!{copy}/bin/python\n# -*- coding: utf-8 -*-\nimport sys\nfrom torch.distributed.run import main\nmain()\n"


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("python -c import_torch", True),
        ("python -u -B train.py", True),
        ("python -m torch.distributed.run train.py", True),
        ("torchrun train.py", True),
        ("python -m torchvision", False),
        ("python -I train.py", False),
        ("python -i train.py", False),
        ("python late.py", False),
        ("tool", False),
        ("foreign", False),
        ("nosuch", False),
        ("/usr/bin/python3 train.py", False),
    ],
)
def test_what_begins_with_an_import_of_torch(tmp_path: Path, words: str, *, first: bool) -> None:
    copy = tmp_path / "copy"
    (copy / "bin").mkdir(parents=True)
    (copy / "bin/torchrun").write_text(TORCHRUN.format(copy=copy))
    (copy / "bin/foreign").write_text(TORCHRUN.format(copy="/other"))
    (copy / "bin/tool").write_text(f"#!{copy}/bin/python\nimport numpy, torch\n")
    (tmp_path / "train.py").write_text('"""Train."""\nimport os, sys\nimport torch.nn\n')
    (tmp_path / "late.py").write_text("print(1)\nimport torch\n")
    command = [word.replace("_", " ") if word.startswith("import") else word for word in words.split()]
    assert _imports_torch_first(command, copy, tmp_path) is first
    (tmp_path / "torch").mkdir()
    assert _imports_torch_first(command, copy, tmp_path) is (first and words.startswith("torchrun")), "another torch"
