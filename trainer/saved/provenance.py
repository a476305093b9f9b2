"""What produced a run, beside its checkpoints: command, versions, source revision."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from importlib import metadata
from pathlib import Path

import torch

from trainer.writing import Lines

_PACKAGES = ("torch", "transformers", "accelerate", "datasets", "safetensors", "numpy", "triton")


def write(output: Path, argv: Sequence[str], identity: Mapping[str, object]) -> None:
    """Append this start of the run to OUTPUT/provenance.jsonl; raises OutputError when it cannot be written."""
    told = {
        "command": ["python", "-m", "trainer", *argv],
        "python": platform.python_version(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "torch_build": {"version": torch.__version__, "cuda": torch.version.cuda, "git": torch.version.git_version},
        "devices": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        "revision": _revision(),
        "world": int(os.environ.get("WORLD_SIZE", "1")),
        "executable": sys.executable,
        "identity": identity,
    }
    with closing(Lines(output / "provenance.jsonl")) as lines:
        lines.write(json.dumps(told, sort_keys=True) + "\n")


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _revision() -> str:
    """Return the source's git revision, or "" outside a checkout."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""
