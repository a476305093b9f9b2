"""A file that a command opens becomes something else: every such file, every kind, every command that opens it.

python -m tests.hostile.special_files        all of them, some minutes; the tests take a part
"""

# ruff: noqa: T201 - a program that prints
import hashlib
import json
import os
import resource
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envdoctor.cache.store import label
from tests.factories import server
from tests.factories.make_cache import filled, manifest_of
from tests.factories.make_incident import Incident, make_incident, sources_of
from tests.factories.make_venv import rewrite
from tests.factories.run_envdoctor import environment

SECONDS, PATIENCE, MEGABYTES = 5, 30, 300
CODES = (0, 1, 2, 3, 4, 130)
_WATCHED = {"open", "os.listdir", "os.scandir"}
_VENV = ("--venv", ".venv")

COMMANDS: dict[str, tuple[str, ...]] = {
    "check": ("check", "-v", "-p", "small", ".venv"),
    "check --deep": ("check", "--deep", ".venv"),
    "check --lock": ("check", "--lock", "requirements.txt", ".venv"),
    "check --fix": ("check", "--fix", "--dry-run", "-p", "small", "second"),
    "repair": ("repair", "--dry-run", "--offline", "-p", "small", *_VENV),
    "restore": ("restore", "--dry-run", "--offline", "-p", "small", *_VENV),
    "why": ("why", "libcudnn.so.9", *_VENV),
    "impact remove": ("impact", "remove", "torch", *_VENV),
    "diff": ("diff", ".venv", "small"),
    "diff facts": ("diff", "facts.json", ".venv"),
    "fingerprint": ("fingerprint", ".venv"),
    "capture": ("capture", "made", "--offline", *_VENV),
    "lock": ("lock", "direct.txt", "-o", "made.txt"),
    "sbom": ("sbom", *_VENV),
    "history": ("history", *_VENV),
    "rollback": ("rollback", "--dry-run", *_VENV),
    "prune": ("prune", "--keep", "0", "--dry-run", *_VENV),
    "cache status": ("cache", "status", *_VENV),
    "cache list": ("cache", "list"),
    "cache restore": ("cache", "restore", "kept", "--force", "--dry-run", *_VENV),
    "cache export": ("cache", "export", "made.bin"),
    "cache import": ("cache", "import", "portable.bin"),
    "cache gc": ("cache", "gc", "--damaged", "--dry-run", *_VENV),
    "profiles": ("profiles",),
    "profile new": ("profile", "new", "other", "--from", "requirements.txt", "--force", "-y"),
    "profile new, wheels": ("profile", "new", "wheels", "--from", "wheels.txt", "--force", "-y"),
    "config": ("config",),
    "bisect": ("bisect", "--offline", "second", ".venv", "--", "python", "-c", "import torch; torch.x"),
    "try": ("try", "--discard", *_VENV, "--", "uv", "pip", "uninstall", "nvidia-cudnn-cu12"),
    "run": ("run", "-p", "small", *_VENV, "--gate", "warn", "--reason", "r", "--", "true"),
    "gate add": ("gate", "add", "-p", "small"),
    "fetch": ("fetch", "-p", "small", "--wheelhouse", "fetched"),
}  # fmt: skip


def _by_file(wheel: Path) -> str:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"{wheel.name.partition('-')[0]} @ file://{wheel} --hash=sha256:{digest}\n"


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _socket(path: Path) -> None:
    # The name of a socket may be 107 bytes long.
    here = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def _unreadable(path: Path) -> None:
    path.write_bytes(b"x")
    path.chmod(0)


KINDS: dict[str, Callable[[Path], object]] = {
    "sparse": _sparse,
    "pipe": os.mkfifo,
    "socket": _socket,
    "folder": Path.mkdir,
    "itself": lambda path: path.symlink_to(path.name),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "unreadable": _unreadable,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one command did."""

    code: int
    said: str
    seconds: float
    """Of the processor."""
    megabytes: int

    @property
    def fault(self) -> str:
        """Return what is wrong with it; empty for nothing."""
        if "Traceback" in self.said or "envdoctor itself failed" in self.said:
            return f"traceback: {self.said[-3000:]}"
        if self.code not in CODES:
            return f"exit code {self.code}: {self.said[-2000:]}"
        return f"{self.megabytes} MB" if self.megabytes > MEGABYTES else ""


class Scene:
    """A project with all that commands read, and commands that are run in it."""

    def __init__(self, incident: Incident) -> None:
        """Make what is beside the venv."""
        root = self.root = incident.root
        self.program = server._imported()
        label(root / "cache", manifest_of(filled(root / "cache")))
        (root / "direct.txt").write_text("torch\n")
        (root / "uv.toml").write_text('find-links = ["wheels"]\nno-index = true\n')
        (root / "pyproject.toml").write_text(
            '[project]\nname = "x"\nversion = "1"\n[tool.envdoctor]\nfail-on = "error"\n'
        )
        (root / "requirements.txt").write_text((root / "lockfiles/small.txt").read_text())
        (root / "wheels.txt").write_text("".join(map(_by_file, sorted((root / "wheels").glob("[!n]*.whl")))))
        (root / "home/.config/pip").mkdir(parents=True)
        (root / "home/.config/pip/pip.conf").write_text("[global]\ntimeout = 5\n")
        (root / "home/.netrc").write_text("machine h login l password p\n")
        self.environ = environment(root) | sources_of(root)
        self.environ |= {"TORCHINDUCTOR_CACHE_DIR": str(root / "cache"), "UV_CACHE_DIR": str(root / "uv-cache")}
        self.run("restore", "--force", "-y", "--offline", "-p", "small", "--venv", "second")
        self.run("restore", "--force", "-y", "--offline", "-p", "small", *_VENV)
        self.run("cache", "save", "kept", *_VENV)
        exported = self.run("cache", "export", "portable.bin")
        assert exported.code == 0, exported.said
        module = next((root / "second").glob("lib/python3*/site-packages/torch/__init__.py"))
        rewrite(module, b"x = 1\n")
        facts = self.run("fingerprint", ".venv", "-o", "facts.json")
        assert facts.code == 0, facts.said

    def run(self, *words: str, log: Path | None = None) -> Ran:
        """Run one command, with limits; `log` is told what it opens."""
        with tempfile.TemporaryFile() as out:
            # A fork begins with what its parent has, in a worker that ran other tests before 600 MB.
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            there = pages * resource.getpagesize() >> 20
            child = os.fork()
            if child == 0:
                os.setsid()
                resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
                if log is not None:
                    _watch(log)
                request = {"folder": self.root, "environment": self.environ, "arguments": words, "watch": None}
                request["seconds"] = PATIENCE
                server._become(request, [os.dup(out.fileno()), os.dup(out.fileno())], self.program)
            _, status, used = os.wait4(child, 0)
            out.seek(0)
            said = out.read().decode("utf-8", "replace")
        code = os.waitstatus_to_exitcode(status)
        return Ran(
            code=code, said=said, seconds=used.ru_utime + used.ru_stime, megabytes=(used.ru_maxrss >> 10) - there
        )

    def opened(self, words: Sequence[str]) -> set[Path]:
        """Return the files in the project that a command opens, as they are now."""
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log")
            log.touch()
            self.run(*words, log=log)
            found = {Path(os.path.normpath(self.root / json.loads(line))) for line in log.read_text().splitlines()}
        return {path for path in found if path.is_relative_to(self.root) and path.is_file() and not path.is_symlink()}

    @contextmanager
    def replaced(self, path: Path, kind: str) -> Iterator[None]:
        """Have something else in the place of a file."""
        aside = self.root.with_name(f"{self.root.name}-aside")
        path.rename(aside)
        try:
            KINDS[kind](path)
            yield
        finally:
            if path.is_dir() and not path.is_symlink():
                for inner in sorted(path.rglob("*"), reverse=True):
                    inner.rmdir() if inner.is_dir() and not inner.is_symlink() else inner.unlink()
                path.rmdir()
            else:
                path.unlink(missing_ok=True)
            aside.rename(path)


def _watch(log: Path) -> None:
    told = os.open(log, os.O_WRONLY | os.O_APPEND)
    busy: list[int] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _WATCHED and not busy and isinstance(arguments[0], (str, bytes, os.PathLike)):
            busy.append(1)
            os.write(told, json.dumps(os.fsdecode(arguments[0])).encode() + b"\n")
            busy.pop()

    sys.addaudithook(hook)


def make_scene(root: Path) -> Scene:
    """Make the project in a folder that exists."""
    return Scene(make_incident(root))


def readers(scene: Scene) -> dict[Path, list[str]]:
    """Return each file that a command opens -> the names of the commands that do."""
    found: dict[Path, list[str]] = {}
    for name, words in COMMANDS.items():
        for path in scene.opened(words):
            found.setdefault(path, []).append(name)
    return found


def main() -> None:
    """Sweep all of it and print what is wrong."""
    with tempfile.TemporaryDirectory(prefix="special-") as folder:
        root = Path(folder, "project")
        root.mkdir()
        scene = make_scene(root)
        for name, words in COMMANDS.items():
            ran = scene.run(*words)
            print(f"{name:16} {ran.code} {ran.seconds:.2f} s {ran.megabytes} MB {ran.fault}", flush=True)
            if ran.code:
                print("    " + ran.said.strip().replace("\n", "\n    ")[:600])
        places = readers(scene)
        print(f"{len(places)} files, {sum(map(len, places.values()))} openings", flush=True)
        runs = 0
        for path, names in sorted(places.items()):
            print(f"- {path.relative_to(root)}: {', '.join(names)}", flush=True)
            for kind in KINDS:
                with scene.replaced(path, kind):
                    for name in names:
                        runs += 1
                        ran = scene.run(*COMMANDS[name])
                        if ran.fault:
                            print(f"FAULT {path.relative_to(root)} {kind} {name}: {ran.fault[-700:]}", flush=True)
        print(f"{runs} runs")


if __name__ == "__main__":
    main()
