"""A whole small stack: wheels, a profile and its lock, and the command line run on it in a closed-off environment."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.factories.make_venv import know_interpreter
from tests.factories.make_wheel import lock_text, make_wheel
from tests.factories.served import can_serve, serve

ROOT = Path(__file__).resolve().parents[2]
TORCH = "2.13.0+cpu"
_WAITING = (
    "planning: looking for the wheels of ",
    "putting the gate into one file",
    "packing what travels to the nodes",
)
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command printed and ended with."""

    code: int
    out: str
    err: str


@dataclass(slots=True, kw_only=True)
class Stack:
    """A folder with `profiles/small.toml`, `lockfiles/small.txt`, `wheels/`, and a place for the venv."""

    folder: Path
    wheels: tuple[Path, ...]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def venv(self) -> Path:
        """Where the venv is, or will be."""
        return self.folder / "venv"

    @property
    def store(self) -> Path:
        """The hidden folder of that venv."""
        return self.folder / ".envdoctor" / "venv"

    @property
    def cache(self) -> Path:
        """Uv's cache of this stack."""
        return self.folder / "uv-cache"

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of one of envdoctor's commands."""
        return [sys.executable, "-m", "envdoctor", *arguments]

    def run(self, *arguments: str, extra: Mapping[str, str] | None = None) -> Answer:
        """Run one of envdoctor's commands in the stack's folder, without a terminal."""
        environment = self.environment | dict(extra or {})
        if can_serve(environment, str(ROOT)):
            code, out, err = serve(arguments, environment, self.folder)
        else:
            done = subprocess.run(
                self.command(*arguments),
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            code, out, err = done.returncode, done.stdout, done.stderr
        return Answer(code=code, out=self.plain(out), err=self.plain(err))

    def restore(self, *arguments: str, extra: Mapping[str, str] | None = None) -> Answer:
        """Run `envdoctor restore` on the small profile and the venv, without asking."""
        return self.run("restore", "--profile", "small", "--venv", "venv", "--yes", *arguments, extra=extra)

    def plain(self, text: str) -> str:
        """Return text with the folder as FOLDER, without what the machine decides.

        That are the line of a long wait (tests/cli/test_waiting.py) and how many processes of the machine are closed to
        the tests (tests/unit/swap/test_backups.py).
        """
        lines = (
            line
            for line in text.splitlines(keepends=True)
            if not line.startswith(_WAITING) and " could not be looked at: one that uses a backup" not in line
        )
        return "".join(lines).replace(str(self.folder), "FOLDER")

    def lock(self, *wheels: Path, hashes: Mapping[str, str] | None = None) -> None:
        """Write the lock again, of these wheels."""
        path = self.folder / "lockfiles" / "small.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(lock_text(*wheels, hashes=hashes))


def make_stack(folder: Path, *more: Path, torch_files: Mapping[str, bytes | str] | None = None) -> Stack:
    """Make a stack of a small torch, two plain packages and `more` wheels (made before, anywhere).

    Its wheels are in `folder/wheels`, which PIP_FIND_LINKS names; no other source is configured, no network is reached.
    """
    wheels = (
        make_torch(folder / "wheels", files=torch_files),
        make_wheel(
            folder / "wheels",
            "some-tool",
            "1.2",
            files={"some_tool.py": "def main():\n    print('hello')\n"},
            scripts={"hello": "some_tool:main"},
        ),
        make_wheel(folder / "wheels", "plain", "3.0"),
        *more,
    )
    stack = Stack(folder=folder, wheels=wheels, environment=closed_environment(folder))
    (folder / "profiles").mkdir()
    (folder / "profiles" / "small.toml").write_text(profile_text())
    stack.lock(*wheels)
    know_interpreter(stack.cache)
    return stack


def make_torch(folder: Path, *, files: Mapping[str, bytes | str] | None = None, version: str = TORCH) -> Path:
    """Make a wheel that calls itself torch: its version file and nothing else that counts."""
    content: dict[str, bytes | str] = {
        "torch/__init__.py": "from torch.version import __version__\n",
        "torch/version.py": f"__version__ = '{version}'\ncuda = None\ngit_version = 'none'\nhip = None\n",
    }
    return make_wheel(folder, "torch", version, files={**content, **(files or {})})


def profile_text(versions: Sequence[str] = (PYTHON,), torch: str = TORCH, more: str = "") -> str:
    """Return a profile of the small stack."""
    listed = ", ".join(f'"{version}"' for version in versions)
    return (
        f'schema = 1\nname = "small"\nsummary = "a small stack"\n\n[python]\nversions = [{listed}]\n\n'
        f'[torch]\nversion = "{torch}"\n\n[lock]\nfile = "small.txt"\n{more}'
    )


def closed_environment(folder: Path) -> dict[str, str]:
    """Return an environment without the user's configuration, cache, venv and network sources."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
        # Every command of every test would compile envdoctor again.
        "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "pycache"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": str(folder / "wheels"),
        "PIP_NO_INDEX": "1",
        "UV_CACHE_DIR": str(folder / "uv-cache"),
        "UV_HTTP_RETRIES": "0",
        "UV_NO_CONFIG": "1",
        "COLUMNS": "200",
    }
