"""The envdoctor command as a process of its own, with nothing of this user's environment in it."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.factories.served import can_serve, serve

ROOT = Path(__file__).resolve().parents[2]
# Not PYTHONPATH: that is a fact of the environment under examination.
_START = f"import sys; sys.path[0] = {str(ROOT)!r}; from envdoctor.__main__ import main; main()"
_BEHIND = "import sys; sys.path[0] = {root!r}\n{code}\nfrom envdoctor.__main__ import main; main()"
COMMAND = (sys.executable, "-c", _START)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one command left: its exit code and both streams, paths and versions replaced."""

    code: int
    out: str
    err: str


def environment(folder: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment whose home and temporary folder are under `folder`: no cache of this user is seen."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    clean = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "XDG_RUNTIME_DIR": str(folder / "tmp"),
        "PYTHONUTF8": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    # What this machine's pip.conf may say, too: a printed line of uv's names a certificate that uv is not told of.
    own = {name: os.environ[name] for name in ("SSL_CERT_FILE",) if name in os.environ}
    return clean | own | dict(extra or {})


def run_envdoctor(*arguments: str | Path, folder: Path, extra: Mapping[str, str] | None = None) -> Outcome:
    """Run the `envdoctor` command in `folder` and return what it left."""
    own = environment(folder, extra)
    if can_serve(own):
        code, out, err = serve([str(word) for word in arguments], own, folder)
        return Outcome(code=code, out=filtered(out, folder), err=filtered(err, folder))
    return _outcome([*COMMAND, *map(str, arguments)], folder, own)


def run_behind(code: str, *arguments: str | Path, folder: Path, extra: Mapping[str, str] | None = None) -> Outcome:
    """Run the `envdoctor` command behind some code in its process, which breaks a part of it or of Python."""
    start = _BEHIND.format(root=str(ROOT), code=code)
    return _outcome([sys.executable, "-c", start, *map(str, arguments)], folder, environment(folder, extra))


def answering(deed: str) -> str:
    """Return the code of a person who sits at a terminal, does that before answering each question, and says yes."""
    return (
        "import pathlib\n"
        "class Person:\n    def isatty(self):\n        return True\n"
        f"    def readline(self):\n        {deed}\n        return 'y\\n'\n"
        "sys.stdin = Person()"
    )


def _outcome(command: list[str], folder: Path, own: dict[str, str]) -> Outcome:
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
    return Outcome(code=done.returncode, out=filtered(done.stdout, folder), err=filtered(done.stderr, folder))


def without_waits(text: str) -> str:
    """Return what the gate said without its words for somebody who waits: a busy machine decides whether they come."""
    return re.sub(r"^note: envdoctor gate: (?:examining|waiting) .*\n", "", text, flags=re.MULTILINE)


def filtered(text: str, folder: Path) -> str:
    """Return `text` with what differs from machine to machine replaced: the folder, versions, times."""
    text = without_waits(text).replace(str(folder), "[TMP]")
    # What a wait of over a second prints depends on how busy the machine is (tests/cli/test_waiting.py holds it).
    text = re.sub(
        r"(?m)^(?:planning: looking for the wheels of|putting the gate into|packing what travels to) .*\n", "", text
    )
    text = re.sub(r"CPython 3\.\d+\.\d+", "CPython [PYTHON]", text)
    text = re.sub(r"uv \d+\.\d+\.\d+", "uv [UV]", text)
    # How many files uv adds to a dist-info, and how many libraries Python itself needs, is theirs to change.
    text = re.sub(r"(?<=[] ])\d+ files(?=:| as| in its)", "[N] files", text)
    text = re.sub(r"all \d+ libraries", "all [N] libraries", text)
    # In a container the line says how it is started with GPUs, elsewhere that torch would run on the CPU.
    text = re.sub(
        r"no NVIDIA driver in this [^(]+\([^)]+\)", "no NVIDIA driver: this CUDA build would run on the CPU", text
    )
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\+00:00)", "[TIME]", text)
