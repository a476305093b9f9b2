"""A Dockerfile's instructions, and running them in a plain folder that stands for the image's root.

Absolute paths of the image are moved below that folder. What a plain folder cannot have (a package manager, another
user) are stand-ins on PATH that write down how they were called.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_MOVED = re.compile(r"(?<![\w./-])/(?=(?:opt|var|tmp|etc|context)\b)")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction, its lines joined."""

    word: str
    text: str


def instructions(text: str) -> list[Instruction]:
    """Return the instructions of a Dockerfile; comment lines are left out, also those between continued lines."""
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", kept)
    return [
        Instruction(word=line.split()[0], text=line.partition(" ")[2].strip()) for line in joined.splitlines() if line
    ]


@dataclass(slots=True, kw_only=True)
class Image:
    """An image being built in a folder."""

    root: Path
    context: Path
    arguments: Mapping[str, str]
    """What `--build-arg` gives."""
    host: Mapping[str, str]
    """Variables of the machine that every step gets, instead of a network and pip's secret."""
    base: str = ""
    workdir: str = "/"
    user: str = "root"
    environment: dict[str, str] = field(default_factory=dict)
    healthcheck: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    """Who each RUN step ran as."""

    def build(self, text: str) -> None:
        """Carry out every instruction; a step that fails raises with what it printed."""
        (self.root / "context").parent.mkdir(parents=True, exist_ok=True)
        for one in instructions(text):
            getattr(self, f"_{one.word.lower()}")(one.text)

    def run(self, command: list[str], extra: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command as a container of the image would, and return what it left."""
        return subprocess.run(
            [shutil.which(command[0], path=self._path()) or command[0], *command[1:]],
            cwd=self.path(self.workdir),
            env=self._variables() | dict(extra or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def path(self, path: str) -> Path:
        """Return where a path of the image lies."""
        return self.root / path.lstrip("/")

    def called(self) -> list[str]:
        """Return how the stand-ins were called."""
        log = self.root / "called.txt"
        return log.read_text().splitlines() if log.exists() else []

    def _arg(self, text: str) -> None:
        name, _, default = text.partition("=")
        self.environment.setdefault(name, self.arguments.get(name, default))

    def _from(self, text: str) -> None:
        self.base = self._filled(text)

    def _shell(self, text: str) -> None:
        assert json.loads(text) == ["/bin/bash", "-euo", "pipefail", "-c"]

    def _user(self, text: str) -> None:
        self.user = text

    def _workdir(self, text: str) -> None:
        self.workdir = text
        self.path(text).mkdir(parents=True, exist_ok=True)

    def _env(self, text: str) -> None:
        for name, value in re.findall(r"(\w+)=(\S+)", self._filled(text)):
            self.environment[name] = value

    def _copy(self, text: str) -> None:
        *sources, target = [word for word in text.split() if not word.startswith("--")]
        for source in sources:
            at = self.path(self.workdir) / target
            if (self.context / source).is_dir():
                shutil.copytree(self.context / source, at, dirs_exist_ok=True)
            else:
                shutil.copy(self.context / source, at)

    def _run(self, text: str) -> None:
        self.users.append(self.user)
        script = re.sub(r"--mount=\S+\s*", "", text)
        mounted = re.search(r"--mount=type=bind,target=(/\w+)", text)
        if mounted:
            self.path(mounted[1]).symlink_to(self.context)
        for cache in re.findall(r"--mount=type=cache,target=(\S+?),", text):
            self.path(cache).mkdir(parents=True)
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", _MOVED.sub(f"{self.root}/", script)],
            cwd=self.path(self.workdir),
            env=self._variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        # What is mounted for one step is in no layer.
        if mounted:
            self.path(mounted[1]).unlink()
        for cache in re.findall(r"--mount=type=cache,target=(\S+?),", text):
            shutil.rmtree(self.path(cache))

    def _healthcheck(self, text: str) -> None:
        self.healthcheck = json.loads(text.partition("CMD ")[2])

    def _entrypoint(self, text: str) -> None:
        self.entrypoint = json.loads(text)

    def _cmd(self, text: str) -> None:
        self.command = json.loads(text)

    def _filled(self, text: str) -> str:
        return _VARIABLE.sub(lambda match: self.environment.get(match[1], ""), text)

    def _path(self) -> str:
        inside = [part for part in self.environment.get("PATH", "").split(":") if part.startswith("/opt")]
        return os.pathsep.join(
            [*(str(self.path(part)) for part in inside), str(self.root / "stand-ins"), os.environ["PATH"]]
        )

    def _variables(self) -> dict[str, str]:
        own = {name: _MOVED.sub(f"{self.root}/", value) for name, value in self.environment.items()}
        return {**self.host, **own, "PATH": self._path()}


def stand_in(image: Image, name: str, then: str = "") -> None:
    """Put a command on the image's PATH that writes down its arguments, then runs a line of shell."""
    folder = image.root / "stand-ins"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/bash\necho "{name} $*" >> "{image.root}/called.txt"\n{then}\n')
    path.chmod(0o755)
