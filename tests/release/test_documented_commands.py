"""Every command of README and docs, typed as it stands, by somebody who installed the wheel and has no checkout."""

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.factories.make_cuda import object_bytes
from tests.factories.make_profile import make_profile
from tests.factories.make_release import published_wheel
from tests.factories.make_stack import TORCH, closed_environment
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, install, run_uv
from tests.factories.make_wheel import make_wheel
from tests.release.documented import Command, commands, spans

NCCL = "nvidia/nccl/lib/libnccl.so.2"
# A check or a comparison says what it found by its code; everything else has to end well.
CODES = {"check": (0, 1), "impact": (0, 1), "diff": (0, 1)}


@dataclass(slots=True, kw_only=True)
class Reader:
    """Somebody with the tool, a project folder with small stacks of the profiles' names, and a terminal to agree in."""

    folder: Path
    environment: dict[str, str]

    @property
    def kept(self) -> Path:
        """The project as it was made."""
        return self.folder.with_name("kept")

    def again(self) -> "Reader":
        """Put the project back as it was made: what one line does is not the next one's state."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder, symlinks=True)
        return replace(self)

    def types(self, command: str) -> tuple[int, str]:
        """Run a line in a shell, answer y to whatever it asks, keep what it exports; return code and output."""
        after = self.folder.parent / "environment"
        ours, theirs = pty.openpty()
        try:
            os.write(ours, b"y\n" * 4)
            done = subprocess.run(
                ["/bin/bash", "-c", f"{command}\ncode=$?\n/usr/bin/env -0 > {shlex.quote(str(after))}\nexit $code"],
                cwd=self.folder,
                env=self.environment,
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=300,
            )
        finally:
            os.close(ours)
            os.close(theirs)
        pairs = (entry.partition("=") for entry in after.read_text().split("\0") if entry)
        self.environment = {name: value for name, _, value in pairs if name not in ("_", "SHLVL", "PWD", "OLDPWD")}
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the built wheel in a venv of its own; what it requires comes from the venv of the tests."""
    root = tmp_path_factory.mktemp("tool")
    run_uv("venv", "-q", "--python", sys.executable, root / "venv", cache=root / "cache")
    python = root / "venv/bin/python"
    run_uv("pip", "install", "-q", "--no-deps", "--python", python, published_wheel(root), cache=root / "cache")
    site = next((root / "venv/lib").glob("python3*/site-packages"))
    # A folder named in a .pth file: its own .pth files, the editable install among them, are not read.
    (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return root / "venv/bin"


@pytest.fixture(scope="module")
def reader(tool: Path, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Make the project: the profiles' names stand for a small stack, in a venv that was rebuilt a few times."""
    root = tmp_path_factory.mktemp("reader")
    folder = root / "project"
    torchrun = {"torchrun": "torch.distributed.run:main"}
    launcher = {"torch/distributed/__init__.py": "", "torch/distributed/run.py": "def main():\n    print('started')\n"}
    nccl = {NCCL: object_bytes("libnccl.so.2")}
    wheels = [
        make_torch(root / "wheels", TORCH, None, files=launcher, scripts=torchrun),
        make_wheel(root / "wheels", "nvidia-nccl-cu12", "2.27.5", files=nccl),
        make_wheel(root / "wheels", "plain", "3.0"),
    ]
    foreign = make_wheel(root / "wheels", "nvidia-nccl-cu13", "2.28", files=nccl)
    make_wheel(root / "wheels", "flash-attn", "2.8.3", requires=["torch"])
    for name in ("21k-toks", "pypi-cu128", "cpu-smoke"):
        make_profile(folder, name, wheels, torch=TORCH)
    (folder / "train.py").write_text("print('trained')\n")
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "whole"\nversion = "0.1"\nrequires-python = ">=3.11"\n'
        f'dependencies = ["torch=={TORCH}", "nvidia-nccl-cu12", "plain"]\n'
    )
    sources = {"UV_FIND_LINKS": str(root / "wheels"), "UV_NO_INDEX": "1", "UV_PYTHON": sys.executable}
    run_uv("lock", "--quiet", "--project", folder, cache=root / "uv-cache", extra=sources)
    environment = closed_environment(root) | {"UV_FIND_LINKS": str(root / "wheels"), "UV_NO_INDEX": "1"}
    del environment["PYTHONPATH"]
    environment["PATH"] = f"{tool}:{environment['PATH']}"
    made = Reader(folder=folder, environment=environment)
    for _ in range(4):
        code, said = made.types("envdoctor restore -p 21k-toks -y")
        assert code == 0, said
        install(Venv(prefix=folder / ".venv"), foreign, cache=root / "uv-cache")
    for command in ("envdoctor capture good", "envdoctor fetch -p good --wheelhouse wheels"):
        code, said = made.types(command)
        assert code == 0, said
    for name in ("n1", "n2", "n3"):
        code, said = made.types(f"envdoctor fingerprint -o {name}.json")
        assert code == 0, said
    (folder / ".venv-train").symlink_to(".venv")  # the one that `make run` builds
    shutil.copytree(folder, made.kept, symlinks=True)
    return made


def _name(command: Command) -> str:
    return f"{command.page}:{command.line}:{command.text}"


@pytest.mark.parametrize("command", commands(), ids=_name)
def test_it_works_as_typed(command: Command, reader: Reader) -> None:
    if command.skip:
        pytest.skip(command.skip)
    again = reader.again()
    if command.text.startswith("envdoctor capture "):
        # It was made for the commands that name it; a capture takes no name that is taken.
        for path in (*again.folder.glob("profiles/good*"), *again.folder.glob("lockfiles/good*")):
            path.unlink()
    code, said = again.types(command.text)
    word = next((word for word in command.text.split() if word in CODES), "")
    assert code in CODES.get(word, (0,)), said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def known(tool: Path) -> dict[str, str]:
    """Return the help of each command, by its words, as asked for."""
    return {}


@pytest.mark.parametrize(("page", "span"), spans(), ids=str)
def test_a_command_in_a_sentence_has_its_words_and_options(
    page: str, span: str, tool: Path, known: dict[str, str]
) -> None:
    words = span.partition(" -- ")[0].split()[1:]
    path: list[str] = []
    text = _help(tool, path, known)
    while words and not words[0].startswith("-") and re.search(rf"^  {re.escape(words[0])}\b", text, re.MULTILINE):
        path.append(words.pop(0))
        text = _help(tool, path, known)
    assert path or words[0].startswith("-"), f"{page}: there is no command {words[0]}"
    for option in (word.partition("=")[0] for word in words if re.match(r"^--?[a-z]", word)):
        assert re.search(rf"(?<![\w-]){re.escape(option)}\b", text), f"{page}: {' '.join(path)} has no option {option}"


def _help(tool: Path, path: list[str], known: dict[str, str]) -> str:
    key = " ".join(path)
    if key not in known:
        done = subprocess.run(
            [tool / "envdoctor", *path, "--help"],
            env={"PATH": os.environ["PATH"], "COLUMNS": "300", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        known[key] = done.stdout
    return known[key]
