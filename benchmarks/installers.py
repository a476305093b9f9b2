"""A locked stack by restore, `uv sync --frozen`, `uv pip sync`, `pip-sync` and pex: time, and who is whole afterwards.

    python benchmarks/installers.py --tools BIN --python PYTHON --folder DIR [--kills 5]

The stack is torch of the `cpu-smoke` lock with all that it requires; `--small` takes pandas, numpy, sympy and what they
require instead, with a torch that is two made files, since pip-sync takes minutes for the real one. BIN holds pip-sync
and pex. Each tool has caches of its own, empty at first, and goes through: cold; warm (another new venv); again
(nothing to do); damage (in the venv one file deleted, one cut, one altered at its size, then the same command); kill
(SIGKILL to its group at a random time of a warm run into a new venv, whichever of its commands is at work, `--kills`
times, and what is there then; a run that ended before its kill is not counted, and the venv removed and made again).
"whole": every package of the lock is there and every file has the sha256 of its RECORD; a venv that is not there at all
is counted apart.
Times are of one run each, by the clock and by the processor; a run over `--limit` seconds is given up. Each cell is
written as soon as it is known. pex reads pip's configuration of the machine, but not the variables that name wheels.
"""

import argparse
import base64
import csv
import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from uv import find_uv_bin

from envdoctor.documents import profile_store
from envdoctor.standards.lock import Lock, LockedPackage, parse
from envdoctor.wheels.locking import text_of

NAMES = (
    "torch",
    "typing-extensions",
    "sympy",
    "mpmath",
    "networkx",
    "jinja2",
    "markupsafe",
    "filelock",
    "fsspec",
    "numpy",
    "setuptools",
)
SMALL = ("pandas", "numpy", "python-dateutil", "six", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "pygments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One installer."""

    name: str
    folder: Path
    """Its project, caches and venvs."""
    prepare: tuple[tuple[str, ...], ...]
    """Commands before the installation proper that are part of it; VENV stands for the venv."""
    command: tuple[str, ...]
    limit: float
    """Seconds after which a command is given up."""

    def run(self, venv: Path, *, fresh: bool) -> tuple[float, float, int]:
        """Install into the venv; return wall and processor seconds, and the exit code."""
        before, start, code = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0
        for command in (*(self.prepare if fresh else ()), self.command):
            code = self._one(command, venv) or code
        wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, code

    def killed(self, venv: Path, after: float) -> bool:
        """Start the same into a new venv and kill what is at work then; tell whether something was."""
        end = time.monotonic() + after
        for command in (*self.prepare, self.command):
            with subprocess.Popen(
                _named(command, venv), cwd=self.folder, env=self.environment, start_new_session=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            ) as process:  # fmt: skip
                try:
                    process.wait(max(end - time.monotonic(), 0))
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    time.sleep(1)
                    return True
        return False

    def _one(self, command: tuple[str, ...], venv: Path) -> int:
        try:
            done = subprocess.run(
                _named(command, venv),
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                timeout=self.limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"# {self.name}: given up after {self.limit:.0f} s", flush=True)
            return -1
        if done.returncode:
            print(f"# {self.name}: {done.stderr.decode(errors='replace').strip().splitlines()[-1:]}", flush=True)
        return done.returncode

    @property
    def environment(self) -> dict[str, str]:
        """The user's, with caches of its own."""
        own = {name: str(self.folder / name.lower()) for name in ("UV_CACHE_DIR", "PIP_CACHE_DIR", "PEX_ROOT")}
        found = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        return {
            **found,
            **own,
            "UV_PYTHON_DOWNLOADS": "never",
            "PEX_TOOLS": "1",
            **find_links(self.folder.parent),
            "UV_PROJECT_ENVIRONMENT": str(self.folder / "venv"),
        }


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="names of the lines")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--limit", type=float, default=240.0)
    options = parser.parse_args()
    if not Path(options.python).is_file():
        parser.error("--python takes the path of an interpreter: venv and pex are started with it")
    lock = profile_store.find("cpu-smoke", Path.cwd()).lock
    packages = [one for one in lock.packages if one.name in (SMALL if options.small else NAMES)]
    options.folder.mkdir(parents=True, exist_ok=True)
    options.folder = options.folder.resolve()
    if options.small:
        packages.append(small_torch(options.folder / "wheels"))
    print(f"{len(packages)} packages; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores\n")
    states = "".join(f"{state:>16}" for state in ("cold", "warm", "again", "damage"))
    print(f"{'seconds: wall (processor)':24}{states}  whole then  after a kill: whole, none, broken", flush=True)
    for tool in tools(options, packages):
        if tool.name in (options.only or [tool.name]):
            line(tool, packages, options.kills)
    return 0


def line(tool: Tool, packages: list[LockedPackage], kills: int) -> None:
    """Take one tool through every state, and print its line, cell by cell."""
    venv = tool.folder / "venv"
    print(f"{tool.name:24}", end="", flush=True)
    cell(tool.run(venv, fresh=True))
    remove(venv)
    warm = tool.run(venv, fresh=True)
    cell(warm)
    cell(tool.run(venv, fresh=False))
    if whole(venv, packages):
        harm(venv)
        cell(tool.run(venv, fresh=False))
        print(f"  {'yes' if whole(venv, packages) else 'no':10}", end="", flush=True)
    else:
        print(f"{'not whole':>16}  {'no':10}", end="", flush=True)
    draw, good, none = random.Random(0), 0, 0  # noqa: S311 - when a kill comes, not a secret
    done = 0
    while done < kills:
        remove(venv)
        if tool.killed(venv, draw.uniform(0, warm[0])):
            done += 1
            none += not venv.exists()
            good += whole(venv, packages)
    print(f"  {good}, {none}, {kills - good - none}", flush=True)


def cell(ran: tuple[float, float, int]) -> None:
    """Print what one run took."""
    wall, cpu, code = ran
    text = "given up" if code < 0 else f"{wall:.1f} ({cpu:.1f})" if code == 0 else f"exit {code}"
    print(f"{text:>16}", end="", flush=True)


def find_links(folder: Path) -> dict[str, str]:
    """Return the variables that name the local wheels, for pip and for uv: the user's, and what was made here."""
    told = os.environ.get("PIP_FIND_LINKS", "").split()
    places = [*told, *([str(folder / "wheels")] if (folder / "wheels").is_dir() else [])]
    return {"PIP_FIND_LINKS": " ".join(places), "UV_FIND_LINKS": ",".join(places)} if places else {}


def small_torch(folder: Path) -> LockedPackage:
    """Make a wheel that calls itself torch, which a profile has to name, and return its entry of the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "torch/__init__.py": b"from torch.version import __version__\n",
        "torch/version.py": b"__version__ = '0.0.1'\ncuda = None\ngit_version = 'none'\nhip = None\n",
        "torch-0.0.1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: torch\nVersion: 0.0.1\n",
        "torch-0.0.1.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{name},sha256={digest_of(data)},{len(data)}" for name, data in files.items()]
    files["torch-0.0.1.dist-info/RECORD"] = "\n".join([*rows, "torch-0.0.1.dist-info/RECORD,,", ""]).encode()
    wheel = folder / "torch-0.0.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (made,) = parse(f"torch==0.0.1 --hash=sha256:{digest}\n", "part.txt").packages
    return made


def digest_of(data: bytes) -> str:
    """Return a sha256 as RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def tools(options: argparse.Namespace, packages: list[LockedPackage]) -> list[Tool]:
    """Make a folder for each tool and return them all."""
    uv, made = find_uv_bin(), []
    text = text_of(Lock(name="part", packages=tuple(packages)), "made for a benchmark")
    for name in ("envdoctor restore", "uv pip sync", "uv sync --frozen", "pip-sync", "pex, venv of it"):
        folder = options.folder / name.replace(" ", "-").replace(",", "")
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "profiles").mkdir(parents=True)
        (folder / "lockfiles").mkdir()
        (folder / "lockfiles" / "part.txt").write_text(text)
        torch = next(one.version for one in packages if one.name == "torch")
        (folder / "profiles" / "part.toml").write_text(
            'schema = 1\nname = "part"\nsummary = "part of a stack"\n[python]\nversions = ["3.11"]\n'
            f'[torch]\nversion = "{torch}"\n[lock]\nfile = "part.txt"\n'
        )
        made.append(folder)
    here, sync, frozen, piptools, pex = made
    pins = ", ".join(f'"{one.name}=={one.version}"' for one in packages)
    (frozen / "pyproject.toml").write_text(
        f'[project]\nname = "part"\nversion = "1"\nrequires-python = "==3.11.*"\ndependencies = [{pins}]\n'
    )
    where = {
        **os.environ,
        "UV_PYTHON_DOWNLOADS": "never",
        **find_links(options.folder),
        "UV_CACHE_DIR": str(options.folder / "locking"),
    }
    subprocess.run([uv, "lock", "--quiet", "--python", options.python], cwd=frozen, env=where, check=True)
    venv = (uv, "venv", "--quiet", "--no-project", "--python", options.python, "VENV")
    locked = ("--require-hashes", "lockfiles/part.txt")
    restore = (
        sys.executable,
        "-m",
        "envdoctor",
        "restore",
        "--profile",
        "part",
        "--venv",
        "VENV",
        "--python",
        options.python,
        "--yes",
    )
    piped = (
        str(options.tools / "pip-sync"),
        "--quiet",
        "--python-executable",
        "VENV/bin/python",
        "--pip-args",
        "--no-deps --require-hashes",
    )
    build = (
        str(options.tools / "pex"),
        "--python",
        options.python,
        "-r",
        "lockfiles/part.txt",
        "--intransitive",
        "--layout",
        "loose",
        "--include-tools",
        *(f"--find-links={place}" for place in find_links(options.folder).get("PIP_FIND_LINKS", "").split()),
        "--output-file",
        "part.pex",
    )
    pip_sync = (uv, "pip", "sync", "--quiet", "--python", "VENV", *locked)
    uv_sync = (uv, "sync", "--frozen", "--quiet", "--python", options.python)
    plain = (options.python, "-m", "venv", "VENV")
    unpack = (options.python, "part.pex/__main__.py", "venv", "--force", "VENV")
    return [
        Tool(name="envdoctor restore", folder=here, prepare=(), command=restore, limit=options.limit),
        Tool(name="uv pip sync", folder=sync, prepare=(venv,), command=pip_sync, limit=options.limit),
        Tool(name="uv sync --frozen", folder=frozen, prepare=(), command=uv_sync, limit=options.limit),
        Tool(
            name="pip-sync",
            folder=piptools,
            prepare=(plain,),
            command=(*piped, "lockfiles/part.txt"),
            limit=options.limit,
        ),
        Tool(name="pex, venv of it", folder=pex, prepare=(build,), command=unpack, limit=options.limit),
    ]


def _named(command: tuple[str, ...], venv: Path) -> list[str]:
    return [part.replace("VENV", str(venv)) for part in command]


def remove(venv: Path) -> None:
    """Remove a venv and what is kept of it."""
    shutil.rmtree(venv, ignore_errors=True)
    shutil.rmtree(venv.parent / ".envdoctor", ignore_errors=True)
    shutil.rmtree(venv.parent / "part.pex", ignore_errors=True)


def harm(venv: Path) -> None:
    """Delete a file, cut one, alter one at its size: never in place, since a cache may have the same inode."""
    site = next(venv.glob("lib/python3*/site-packages"))
    for name, change in (
        ("networkx/utils/misc.py", None),
        ("sympy/abc.py", lambda old: old[: len(old) // 2]),
        ("jinja2/ext.py", lambda old: old[:-1] + b"#"),
    ):
        path = site / name
        old = path.read_bytes()
        path.unlink()
        if change is not None:
            path.write_bytes(change(old))


def whole(venv: Path, packages: list[LockedPackage]) -> bool:
    """Tell whether every package of the lock is in a venv, and every file as its RECORD says."""
    sites = list(venv.glob("lib/python3*/site-packages"))
    if not sites:
        return False
    there = {}
    for info in sites[0].glob("*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
        if not (info / "RECORD").is_file():
            return False
        there[canonicalize_name(name)] = version
        for row in csv.reader((info / "RECORD").read_text(errors="replace").splitlines()):
            if len(row) != 3:
                return False  # half written
            path, digest, _ = row
            if digest.startswith("sha256=") and not path.endswith(".pyc") and not _same(sites[0] / path, digest):
                return False
    return all(there.get(one.name) == one.version for one in packages)


def _same(path: Path, digest: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").digest()
    return digest == "sha256=" + base64.urlsafe_b64encode(found).rstrip(b"=").decode()


if __name__ == "__main__":
    sys.exit(main())
