"""Asks the real dynamic loader what the model is asked, in a child process, and gives both answers the same form."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envdoctor.loader.binding import Binder
from envdoctor.loader.disk import Disk
from envdoctor.loader.graph import Loader
from envdoctor.loader.host import cpu_flags_of, search_roots
from envdoctor.loader.loaded import LoadResult
from envdoctor.loader.search import SearchRoots

CHILD = """
import ctypes, json, sys

def mapped():
    with open("/proc/self/maps") as maps:
        lines = [line.split(None, 5) for line in maps]
    return sorted({line[5].rstrip("\\n") for line in lines if len(line) == 6 and line[5].startswith("/")})

answers = []
for opener, name, mode in json.loads(sys.argv[1]):
    error = None
    try:
        if opener:
            function = ctypes.CDLL(opener).open_by_name
            function.restype = ctypes.c_char_p
            error = (function(name.encode()) or b"").decode() or None
        else:
            ctypes.CDLL(name, mode=mode)
    except OSError as failure:
        error = str(failure)
    answers.append([error, mapped()])
print(json.dumps(answers))
"""


@dataclass(frozen=True)
class Step:
    """One dlopen: by ctypes, or from inside the object at `opener` (made by make_opener, opened before)."""

    name: str
    opener: str = ""
    global_: bool = False


@dataclass(frozen=True)
class Answer:
    """The loader's error text and which files of the test's folder are mapped afterwards."""

    error: str | None
    mapped: frozenset[str]


def ask_real(folder: Path, steps: Sequence[Step], env: Mapping[str, str], cwd: Path) -> list[Answer]:
    """Run the steps in a child interpreter."""
    script = json.dumps([[step.opener, step.name, 0x100 if step.global_ else 0] for step in steps])
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    done = subprocess.run(
        [sys.executable, "-I", "-c", CHILD, script],
        env={**clean, **env},
        cwd=cwd,
        check=True,
        capture_output=True,
        text=True,
    )
    inside = os.path.realpath(folder) + "/"
    return [
        Answer(error, frozenset(path for path in mapped if path.startswith(inside)))
        for error, mapped in json.loads(done.stdout)
    ]


def ask_model(folder: Path, steps: Sequence[Step], env: Mapping[str, str], cwd: Path) -> list[Answer]:
    """Play the steps in the model."""
    loader = model(env, cwd)
    inside = os.path.realpath(folder) + "/"
    answers = []
    for step in steps:
        result = play(loader, step)
        error = result.failure.message if result.failure else None
        answers.append(Answer(error, frozenset(item.real for item in loader.objects if item.real.startswith(inside))))
    return answers


def play(loader: Loader, step: Step) -> LoadResult:
    """Play one step."""
    return loader.open(step.name, requester=step.opener or None, global_=step.global_)


def model(env: Mapping[str, str], cwd: Path) -> Loader:
    """Return a loader that has started this interpreter in that environment."""
    disk = Disk()
    loader = Loader(host_roots(env, cwd, disk), disk, binder=Binder())
    assert loader.start(sys.executable).failure is None
    return loader


def host_roots(env: Mapping[str, str], cwd: Path, disk: Disk) -> SearchRoots:
    """Return this machine's search roots for that environment."""
    return search_roots(
        sys.executable,
        library_path=env.get("LD_LIBRARY_PATH", ""),
        preload=env.get("LD_PRELOAD", ""),
        cpu_flags=cpu_flags(),
        cwd=str(cwd),
        disk=disk,
    )


def cpu_flags() -> frozenset[str]:
    """Return this machine's CPU flags and vendor as /proc/cpuinfo words them."""
    return cpu_flags_of(Path("/proc/cpuinfo").read_text().splitlines())
