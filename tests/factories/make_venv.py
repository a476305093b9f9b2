"""Real venvs, made and filled by uv from local wheels, offline, with a cache of the test's own."""

import functools
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import uv


@dataclass(frozen=True, slots=True, kw_only=True)
class Venv:
    """A venv on disk."""

    prefix: Path

    @property
    def python(self) -> Path:
        """The venv's interpreter."""
        return self.prefix / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        """The venv's site-packages folder."""
        return next((self.prefix / "lib").glob("python3.*")) / "site-packages"

    def dist_info(self, name: str) -> Path:
        """Return the dist-info folder of an installed distribution."""
        return next(self.site_packages.glob(f"{name.replace('-', '_')}-*.dist-info"))


def uv_environment(cache: Path) -> dict[str, str]:
    """Return an environment in which uv reaches no network, no configuration and no cache but `cache`."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return kept | {
        "UV_CACHE_DIR": str(cache),
        "UV_OFFLINE": "1",
        "UV_NO_CONFIG": "1",
        "UV_NO_PROGRESS": "1",
        "UV_PYTHON_DOWNLOADS": "never",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def know_interpreter(cache: Path, python: str = sys.executable) -> None:
    """Give a cache what uv writes there after it asked the base interpreter, which is half of what a venv costs."""
    for known in _asked(os.path.realpath(python)).glob("interpreter-*"):
        if not (cache / known.name).exists():
            shutil.copytree(known, cache / known.name)


@functools.cache
def _asked(python: str) -> Path:
    """Return a cache in which uv has the answers of one interpreter and nothing else."""
    folder = tempfile.TemporaryDirectory(prefix="interpreter-", ignore_cleanup_errors=True)
    _KEPT.append(folder)
    cache = Path(folder.name)
    run_uv("python", "find", "--quiet", "--no-project", python, cache=cache)
    return cache


_KEPT: list["tempfile.TemporaryDirectory[str]"] = []


def run_uv(*arguments: str | Path, cache: Path, extra: Mapping[str, str] | None = None) -> str:
    """Run uv and return its stdout; a failure raises with everything uv said."""
    done = subprocess.run(
        [uv.find_uv_bin(), *map(str, arguments)],
        env=uv_environment(cache) | dict(extra or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"uv {' '.join(map(str, arguments))}: {done.stderr}"
    return done.stdout


def make_venv(prefix: Path, *wheels: Path, cache: Path | None = None, python: str = sys.executable) -> Venv:
    """Make a venv at `prefix` with exactly these wheels (no dependencies are looked for)."""
    cache = cache or prefix.parent / ".uv-cache"
    know_interpreter(cache, python)
    run_uv("venv", "--quiet", "--python", os.path.realpath(python), prefix, cache=cache)
    venv = Venv(prefix=prefix)
    if wheels:
        install(venv, *wheels, cache=cache)
    return venv


def install(venv: Venv, *wheels: Path, cache: Path | None = None, link_mode: str = "hardlink") -> None:
    """Install wheel files into the venv in one transaction, without their dependencies."""
    cache = cache or venv.prefix.parent / ".uv-cache"
    linked = ("--link-mode", link_mode)
    run_uv("pip", "install", "--quiet", "--no-deps", *linked, "--python", venv.python, *wheels, cache=cache)


def uninstall(venv: Venv, *names: str, cache: Path | None = None) -> None:
    """Uninstall distributions: every path of their RECORD goes, shared or not, as uv and pip do it."""
    cache = cache or venv.prefix.parent / ".uv-cache"
    run_uv("pip", "uninstall", "--quiet", "--python", venv.python, *names, cache=cache)


def edit_in_place(path: Path, content: bytes, offset: int = 0) -> None:
    """Overwrite some bytes of a file without replacing it: whatever shares its inode changes too."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def rewrite(path: Path, content: bytes | str) -> None:
    """Replace a file by a new one of that content: what shared its inode stays as it was."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(content.encode() if isinstance(content, str) else content)
    new.replace(path)


def tree_state(root: Path) -> dict[str, str]:
    """Return relative path -> kind, mode and content digest (or link target) of everything under `root`.

    Two equal states mean byte-for-byte equal trees; times and inode numbers are left out.
    """
    state: dict[str, str] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder) / name
            status = path.lstat()
            mode = oct(stat.S_IMODE(status.st_mode))
            if path.is_symlink():
                told = f"link {path.readlink()}"
            elif path.is_dir():
                told = f"folder {mode}"
            else:
                told = f"file {mode} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            state[str(path.relative_to(root))] = told
    return state


def offline_settings(venv: Venv, **more: str) -> dict[str, str]:
    """Return variables that make `wheels` beside the venv the one source of uv and pip, with a cache of its own."""
    folder = venv.prefix.parent
    return {
        "UV_CACHE_DIR": str(folder / ".uv-cache"),
        "UV_FIND_LINKS": str(folder / "wheels"),
        "UV_OFFLINE": "1",
        "UV_NO_CONFIG": "1",
        "PIP_CONFIG_FILE": os.devnull,
        **more,
    }
