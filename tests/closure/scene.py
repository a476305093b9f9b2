"""One state on disk: a venv that a fault may be made in, the shell it is used from, and what its interpreter says."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import uv

from tests.closure.commands import Done, run_cli, run_shell, write_shim
from tests.closure.stock import BASE, MODULES
from tests.factories.make_venv import Venv, run_uv, tree_state
from tests.factories.make_wheel import make_wheel

PYTHON = "the interpreter"
# One process imports them all, torch first; where that one dies, each gets a process of its own.
_PROBE = """
import os, sys
def said_by(names):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        for name in names:
            said = ""
            try:
                __import__(name)
            except BaseException as error:
                said = (type(error).__name__ + ": " + str(error))[:2000]
            os.write(writer, (name + "\\x1f" + said + "\\x1e").encode(errors="replace"))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return said, status
names = sys.argv[1:]
said, status = said_by(names)
if status:
    said = b""
    for name in names:
        one, status = said_by([name])
        said += one if not status else (name + "\\x1fit ended with status %d\\x1e" % status).encode()
sys.stdout.buffer.write(said)
"""


@dataclass(slots=True, kw_only=True)
class Scene:
    """The folder of one worker: `venv` is what is examined, `base` the healthy one it was linked from."""

    root: Path
    stock: Path
    """The wheels that every state may be made of; linked into the worker's own `wheels`, where a recipe adds some."""
    environment: dict[str, str] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)
    deep: bool = False
    """The fault is one that only reading every byte can see."""
    lock: Path | None = None
    """What it is compared with."""
    own: dict[str, str] = field(default_factory=dict)
    """Name of a file in site-packages -> what somebody wrote into it, which has to be in such a file afterwards."""

    @property
    def venv(self) -> Venv:
        """The venv that is examined."""
        return Venv(prefix=self.root / "venv")

    @property
    def wheels(self) -> Path:
        """The one source of wheels of uv and pip."""
        return self.root / "wheels"

    @property
    def site(self) -> Path:
        """Its site-packages folder."""
        return self.venv.site_packages

    @property
    def cache(self) -> Path:
        """Uv's cache of this worker."""
        return self.root / "uv-cache"

    def build(self) -> None:
        """Make the healthy venv once; it is kept aside under the same parent, so that its scripts stay right."""
        write_shim(self.root / "bin")
        # Its own folder holds more than uv: a python, and the launchers of whoever runs this.
        (self.root / "bin" / "uv").symlink_to(uv.find_uv_bin())
        shutil.copytree(self.stock, self.wheels, copy_function=os.link)
        run_uv("venv", "--quiet", self.venv.prefix, cache=self.cache)
        self.install(*BASE)
        self.venv.prefix.rename(self.root / "base")

    def renew(self) -> None:
        """Put a fresh copy of the healthy venv in place, a fresh home, and a shell that nobody has touched."""
        for name in ("venv", "home", "mine", ".envdoctor"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        shutil.copytree(self.root / "base", self.root / "venv", symlinks=True, copy_function=os.link)
        (self.root / "home").mkdir()
        for wheel in self.wheels.iterdir():
            if not (self.stock / wheel.name).exists():
                wheel.unlink()
        self.environment = {
            "PATH": f"{self.root / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "UV_CACHE_DIR": str(self.cache),
            "UV_FIND_LINKS": str(self.wheels),
            "UV_NO_INDEX": "1",
            "UV_NO_CONFIG": "1",
            "UV_OFFLINE": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": os.devnull,
        }
        self.modules = list(MODULES)
        self.deep = False
        self.lock = None
        self.own = {}

    def keep(self) -> None:
        """Keep the state as it is now, to come back to it."""
        shutil.rmtree(self.root / "kept", ignore_errors=True)
        shutil.copytree(self.venv.prefix, self.root / "kept", symlinks=True, copy_function=os.link)

    def back(self) -> None:
        """Put the kept state in place again."""
        shutil.rmtree(self.root / ".envdoctor", ignore_errors=True)
        shutil.rmtree(self.venv.prefix, ignore_errors=True)
        shutil.copytree(self.root / "kept", self.venv.prefix, symlinks=True, copy_function=os.link)

    def install(self, *specs: str) -> None:
        """Install exactly these, without what they require."""
        source = {"UV_FIND_LINKS": str(self.wheels), "UV_NO_INDEX": "1"}
        run_uv(
            "pip", "install", "-q", "--no-deps", "--python", self.venv.python, *specs, cache=self.cache, extra=source
        )

    def offer_cpu_torch(self) -> None:
        """Put torch's build without CUDA beside the other wheels."""
        (wheel,) = (self.stock.parent / "cpu").iterdir()
        (self.wheels / wheel.name).hardlink_to(wheel)

    def add(self, name: str, version: str, *modules: str, **options: object) -> None:
        """Make a wheel, as `make_wheel` does, and install it; `modules` are what its users import."""
        make_wheel(self.wheels, name, version, **options)  # type: ignore[arg-type]
        self.install(f"{name}=={version}")
        self.modules += modules

    def uninstall(self, *names: str) -> None:
        """Uninstall these as uv does it: every path of their RECORD goes."""
        run_uv("pip", "uninstall", "-q", "--python", self.venv.python, *names, cache=self.cache)

    def info(self, name: str) -> Path:
        """Return the dist-info folder of an installed distribution."""
        return self.venv.dist_info(name)

    def mine(self) -> dict[str, str]:
        """Return the state of what is the user's own, outside the venv, and of what is theirs inside."""
        own = {
            name: text
            for name, text in self.own.items()
            if any(text in path.read_text() for path in self.site.rglob(name) if path.is_file())
        }
        return tree_state(self.root / "mine") | own

    def check(self) -> Done:
        """Run `envdoctor check --json` on it."""
        more: list[str | Path] = ["--deep"] if self.deep else []
        more += ["--lock", self.lock] if self.lock else []
        return self.cli("check", self.venv.prefix, "--json", *more)

    def cli(self, *arguments: str | Path) -> Done:
        """Run one of envdoctor's commands from the state's own shell."""
        return run_cli(*arguments, environment=self.environment, folder=self.root)

    def shell(self, command: str) -> Done:
        """Run a printed command in that shell, and keep what it exports."""
        done, self.environment = run_shell(command, self.environment, self.root)
        return done

    def imports(self) -> dict[str, str]:
        """Return what importing each module raises in the venv's own interpreter, after torch; empty where it works.

        Where the interpreter itself does not start, that is the one entry.
        """
        if not self.venv.python.exists():
            return {PYTHON: "it is gone"}
        done = subprocess.run(
            [self.venv.python, "-c", _PROBE, *self.modules],
            env=self.environment | {"PYTHONDONTWRITEBYTECODE": "1"},
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        said = dict(line.split("\x1f", 1) for line in done.stdout.split("\x1e") if line)
        if done.returncode or not said:
            return {PYTHON: done.stderr.strip()[-300:] or "it does not start"}
        return said

    def conflicts(self) -> frozenset[str]:
        """Return what `uv pip check` complains of."""
        done = subprocess.run(
            [uv.find_uv_bin(), "pip", "check", "--python", self.venv.python],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return frozenset(line for line in done.stderr.splitlines() if line.startswith("The package"))


def failing(imports: Mapping[str, str]) -> dict[str, str]:
    """Return the modules that cannot be imported, with what they raise."""
    return {name: said for name, said in imports.items() if said}
