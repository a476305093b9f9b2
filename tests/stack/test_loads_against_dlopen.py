"""Every shared object of a real environment, opened after `import torch`: the real dlerror() and the predicted one."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from envdoctor.loader.binding import Binder
from envdoctor.loader.disk import Disk
from envdoctor.loader.host import search_roots
from envdoctor.loader.torch_import import TorchTarget, play_import
from tests.unit.loader.real_loader import cpu_flags

PYTHONS = [item for item in os.environ.get("ENVDOCTOR_STACK_PYTHON", "").split(":") if item]
# Each object is opened in a fork of the process that has imported torch, so that none sees what another brought in.
CHILD = """
import ctypes, json, os, sys
import torch
answers = {}
for path in json.loads(sys.stdin.read()):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            ctypes.CDLL(path)
            message = ""
        except OSError as failure:
            message = str(failure)
        os.write(write, message.encode()[:60000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answers[path] = pipe.read().decode()
    status = os.waitpid(child, 0)[1]
    answers[path] = answers[path] if status == 0 else f"ended with status {status}"
print(json.dumps([list(sys.path), torch.version.cuda, answers]))
"""

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    "python", PYTHONS or [pytest.param("", marks=pytest.mark.skip("ENVDOCTOR_STACK_PYTHON unset"))]
)
def test_every_shared_object_opens_or_fails_as_predicted(python: str, tmp_path: Path) -> None:
    site = next(Path(python).parent.parent.glob("lib/python*/site-packages"))
    objects = [
        str(path) for path in sorted(site.rglob("*")) if re.search(r"\.so(\.\d+)*$", path.name) and path.is_file()
    ]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("LD_", "PYTHON"))}
    command = [python, "-c", CHILD]
    done = subprocess.run(
        command, input=json.dumps(objects), env=clean, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    sys_path, cuda, real = json.loads(done.stdout.splitlines()[-1])
    disk = Disk()
    roots = search_roots(python, cpu_flags=cpu_flags(), cwd=str(tmp_path), disk=disk)
    target = TorchTarget(torch=str(site / "torch"), sys_path=tuple(sys_path), executable=python, cuda=cuda)
    _, loader = play_import(target, roots, disk, binder=Binder())
    results = {path: loader.fork().open(path).failure for path in objects}
    predicted = {path: failure.message if failure else "" for path, failure in results.items()}
    same = sum(predicted[path] == real[path] for path in objects)
    print(f"{site}: {same}/{len(objects)} exact, {sum(map(bool, real.values()))} of them errors")  # noqa: T201
    assert predicted == real
