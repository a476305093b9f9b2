"""The loader model against a real `import torch`: the same files mapped, or the same error, word for word.

Takes interpreters of venvs with a real torch from ENVDOCTOR_STACK_PYTHON, separated by colons.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from envdoctor.loader.binding import Binder
from envdoctor.loader.disk import Disk
from envdoctor.loader.host import search_roots
from envdoctor.loader.torch_import import TorchImport, TorchTarget, simulate_import
from tests.unit.loader.real_loader import cpu_flags

CHILD = """
import json, sys
path = list(sys.path)
error = None
try:
    import torch
    if "cudnn" in sys.argv:
        torch.backends.cudnn.version()
except Exception as failure:
    error = [type(failure).__name__, str(failure)]
with open("/proc/self/maps") as maps:
    lines = [line.split(None, 5) for line in maps]
mapped = sorted({line[5].rstrip("\\n") for line in lines if len(line) == 6 and line[5].startswith("/")})
print(json.dumps({"path": path, "error": error, "mapped": mapped, "executable": sys.executable}))
"""
PYTHONS = [item for item in os.environ.get("ENVDOCTOR_STACK_PYTHON", "").split(":") if item]
ENVIRONMENTS = {
    "plain": {},
    "toolkit": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64:/usr/local/cuda-13.0/lib"},
    "other major": {"LD_LIBRARY_PATH": "{site}/nvidia/cu13/lib:"},
    "shuffled": {"LD_LIBRARY_PATH": "{site}/nvidia/nvjitlink/lib:{site}/nvidia/cublas/lib:{site}/torch/lib"},
}

pytestmark = pytest.mark.stack


@dataclass(frozen=True)
class Outcome:
    """What an import ends with, as far as torch and NVIDIA are concerned."""

    error: tuple[str, str] | None
    mapped: frozenset[str]


def real_import(python: str, env: Mapping[str, str], cwd: Path, *arguments: str) -> tuple[Outcome, tuple[str, ...]]:
    """Import torch in that interpreter; return the outcome and the sys.path it had. "cudnn" uses cuDNN after it."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("LD_", "PYTHON"))}
    command = [python, "-c", CHILD, *arguments]
    done = subprocess.run(command, env={**clean, **env}, cwd=cwd, check=True, capture_output=True, text=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    error = tuple(answer["error"]) if answer["error"] else None
    return Outcome(error, _of_the_stack(answer["mapped"])), tuple(answer["path"])


def predicted_import(python: str, sys_path: tuple[str, ...], env: Mapping[str, str], cwd: Path) -> TorchImport:
    """Play the import in the model."""
    torch = next(Path(entry, "torch") for entry in sys_path if Path(entry, "torch/version.py").is_file())
    version: dict[str, str | None] = {}
    exec((torch / "version.py").read_text(), version)  # noqa: S102 - the test's own stack
    disk = Disk()
    roots = search_roots(
        python,
        library_path=env.get("LD_LIBRARY_PATH", ""),
        preload=env.get("LD_PRELOAD", ""),
        cpu_flags=cpu_flags(),
        cwd=str(cwd),
        disk=disk,
    )
    target = TorchTarget(torch=str(torch), sys_path=sys_path, executable=python, cuda=version["cuda"])
    return simulate_import(target, roots, disk, binder=Binder())


def outcome_of(prediction: TorchImport) -> Outcome:
    """Give a prediction the form of a real outcome."""
    failure = prediction.failure
    error = (failure.exception, failure.message) if failure else None
    return Outcome(error, _of_the_stack(item.real for item in prediction.mapped))


def _of_the_stack(paths: object) -> frozenset[str]:
    return frozenset(path for path in paths if "/torch/" in path or "/nvidia/" in path)  # type: ignore[attr-defined]


@pytest.mark.parametrize("env", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
@pytest.mark.parametrize(
    "python", PYTHONS or [pytest.param("", marks=pytest.mark.skip("ENVDOCTOR_STACK_PYTHON unset"))]
)
def test_prediction_equals_the_import(python: str, env: Mapping[str, str], tmp_path: Path) -> None:
    prefix = Path(python).parent.parent
    site = next(prefix.glob("lib/python*/site-packages"))
    env = {key: value.format(site=site) for key, value in env.items()}
    real, sys_path = real_import(python, env, tmp_path)
    predicted = predicted_import(python, sys_path, env, tmp_path)
    print(f"{prefix}: {len(real.mapped & outcome_of(predicted).mapped)}/{len(real.mapped)} exact")  # noqa: T201
    assert outcome_of(predicted) == real


@pytest.mark.parametrize("env", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
@pytest.mark.parametrize(
    "python", PYTHONS or [pytest.param("", marks=pytest.mark.skip("ENVDOCTOR_STACK_PYTHON unset"))]
)
def test_parts_of_cudnn_come_from_where_it_was_predicted(python: str, env: Mapping[str, str], tmp_path: Path) -> None:
    site = next(Path(python).parent.parent.glob("lib/python*/site-packages"))
    env = {key: value.format(site=site) for key, value in env.items()}
    before, sys_path = real_import(python, env, tmp_path)
    after, _ = real_import(python, env, tmp_path, "cudnn")
    predicted = {item.path for item in predicted_import(python, sys_path, env, tmp_path).lazy}
    # Asking for cuDNN's version opens its graph part, also without a GPU. A CPU build has no cuDNN, and opens nothing.
    opened = {path for path in after.mapped - before.mapped if "libcudnn" in path}
    has_cudnn = any("libcudnn.so" in path for path in before.mapped)
    assert bool(opened) == has_cudnn
    assert opened <= predicted
