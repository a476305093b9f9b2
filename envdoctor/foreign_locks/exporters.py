"""A lock as a PEP 751 document, written by the tool that the lock belongs to; no format is parsed here."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import tomli
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from envdoctor.errors import LockError
from envdoctor.facts.children import run_child
from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import read_regular
from envdoctor.foreign_locks import conda_lock
from envdoctor.foreign_locks.formats import LockFile
from envdoctor.foreign_locks.local_files import local_files
from envdoctor.model.frozen import frozen
from envdoctor.standards import lock as lock_model
from envdoctor.standards.lock import Lock
from envdoctor.wheels import index_config, pip_config
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.read_whole import first_special
from envdoctor.wheels.uv import Uv, UvError

_MAXIMUM = 64 * 1024 * 1024
_SAID = 6
# Without these it makes a virtual environment to export from, or runs the one of the project.
_NO_VENV = {"POETRY_VIRTUALENVS_CREATE": "false", "POETRY_VIRTUALENVS_IN_PROJECT": "false"}
_POETRY = "pipx install poetry && pipx inject poetry poetry-plugin-export"


@frozen
class LockExport:
    """A PEP 751 document, whose relative paths start at the lock's folder."""

    data: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    """What the document does not hold."""
    selects: bool = False
    """Its extras and groups are still to be chosen."""
    pins: Lock | None = None
    """Hashed requirements, which are no document and need none."""
    incomplete: str = ""
    """What it pins requires what it does not pin: the message. Such a lock can be compared with, but not built from."""


def exported(lock: LockFile, host: Host, version: str, examined: str = "") -> LockExport:
    """Return the lock's document. `version` is the Python it is read for ("3.12"), where the tool asks.

    The tools are told to use envdoctor's own interpreter: they would run that of the project's venv, which may be the
    one in question. Nor is a tool taken from inside the `examined` prefix, or from a relative folder of PATH. Raises
    LockError, with what the tool said.
    """
    python = Path(sys.executable)
    host = replace(host, environ={**host.environ, "PATH": _path(host.environ.get("PATH", ""), examined)})
    if lock.kind == "uv":
        return LockExport(data=_uv_export(lock, host, python))
    if lock.kind == "Poetry":
        return LockExport(data=_poetry_export(lock, host))
    if lock.kind == "PDM":
        return LockExport(data=_pdm_export(lock, host, python), selects=True)
    if lock.kind == "pylock":
        return LockExport(data=_toml(_text(lock.path), str(lock.path)), selects=True)
    if lock.kind == "conda-lock":
        data, notes = conda_lock.document(_text(lock.path), str(lock.path), host.environ.get("CONDA_SUBDIR", ""))
        return LockExport(data=data, notes=notes)
    return _requirements(lock, host, python, version)


def _uv_export(lock: LockFile, host: Host, python: Path) -> dict[str, Any]:
    arguments: list[str | Path] = ["export", "--frozen", "--format", "pylock.toml", "--no-header", "--quiet"]
    arguments += ["--python", python, *lock.chosen("--extra", "--group", joint="")]
    uv, what = _uv(lock, host), f"uv's export of {lock.path}"
    try:
        found = _toml(uv.run(arguments).stdout, what)
        # A workspace whose root is not a project has nothing but its members.
        return found if found.get("packages") else _toml(uv.run([*arguments, "--all-packages"]).stdout, what)
    except UvError as error:
        raise LockError(f"{lock.path}: uv cannot export it: {error.message}", error.hint) from error


def _poetry_export(lock: LockFile, host: Host) -> dict[str, Any]:
    program = _program("poetry", "Poetry", lock, host, _POETRY)
    _refuse_plugins(lock, "Poetry", ".poetry/plugins", "poetry export --format pylock.toml --output pylock.toml")
    words = ["export", "--format", "pylock.toml", "--no-interaction", "--directory", str(lock.folder)]
    words += lock.chosen("--extras", "--with", joint="")
    text = _run([program, *words], lock, host, _NO_VENV, _POETRY)
    return _toml(text, f"Poetry's export of {lock.path}")


def _pdm_export(lock: LockFile, host: Host, python: Path) -> dict[str, Any]:
    program = _program("pdm", "PDM", lock, host, "pipx install pdm")
    words = ["export", "--format", "pylock", "--project", str(lock.folder), "--lockfile", str(lock.path)]
    by_hand = "pdm export --format pylock --output pylock.toml"
    _refuse_plugins(lock, "PDM", ".pdm-plugins", by_hand)
    saved = lock.folder / ".pdm-python"
    if saved.exists():
        _refuse_other_python(lock, by_hand)
    # Otherwise PDM starts the interpreter in that file, the project's; or makes a virtual environment, and the file.
    told = {"PDM_CHECK_UPDATE": "0", "PDM_PYTHON": str(python), "PDM_USE_VENV": "0"}
    with _gone_again(saved):
        text = _run([program, *words], lock, host, told, "pipx upgrade pdm")
    return _with_local_parts(_toml(text, f"PDM's export of {lock.path}"))


def _with_local_parts(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the versions that wheel files named by a path or URL have: PDM drops `+cpu`."""
    for package in document.get("packages", ()):
        archive = package.get("archive", {})
        name = unquote(str(archive.get("path") or archive.get("url") or "")).rpartition("/")[2]
        try:
            package["version"] = str(parse_wheel_filename(name)[1])
        except InvalidWheelFilename:
            continue  # not a wheel
    return document


def _refuse_plugins(lock: LockFile, title: str, folder: str, by_hand: str) -> None:
    """Raise LockError where the tool would load code that is kept in the project's folder."""
    plugins = lock.folder / folder
    if plugins.exists():
        raise LockError(
            f"{lock.path}: {title} would run the plugins of this project ({plugins}), and envdoctor runs no code of it",
            f"if you trust them, run `{by_hand}`, and name that file",
        )


def _refuse_other_python(lock: LockFile, by_hand: str) -> None:
    """Raise LockError where this interpreter does not fit: PDM would start the project's own, and write that down."""
    project = _toml(_text(lock.folder / "pyproject.toml"), str(lock.folder / "pyproject.toml")).get("project", {})
    wanted = project.get("requires-python", "") if isinstance(project, Mapping) else ""
    running = ".".join(map(str, sys.version_info[:3]))
    try:
        fits = SpecifierSet(str(wanted)).contains(running, prereleases=True)
    except InvalidSpecifier:
        fits = False
    if not fits:
        raise LockError(
            f"{lock.path}: PDM would start the interpreter of the project, since that of envdoctor, {running}, "
            f"is none for {wanted}",
            f"if you trust it, run `{by_hand}`, and name that file",
        )


def _requirements(lock: LockFile, host: Host, python: Path, version: str) -> LockExport:
    """Let uv read the file. Raises LockError where it leaves a version open: then it is not a lock."""
    text = _text(lock.path)
    try:
        return LockExport(data={}, pins=lock_model.parse(text, str(lock.path)))
    except LockError:
        pass  # not hashed, or with folders and URLs: uv reads those
    if special := first_special(local_files(text, lock.folder, host.environ)):
        raise LockError(f"{lock.path}: {special} is not a regular file", "name the wheel, or the folder of the project")
    uv = _uv(lock, host)
    pip = pip_config.read(host.environ, host.home)
    reach = index_config.configured(uv, pip, host.home, str(python)).everywhere
    common: list[str | Path] = ["pip", "compile", lock.path, "--format", "pylock.toml", "--quiet", "--no-header"]
    common += [
        "--python",
        python,
        "--python-version",
        version,
        "--index-strategy",
        "unsafe-best-match",
        *reach.arguments,
    ]

    def compiled(*more: str) -> dict[str, Any]:
        try:
            text = uv.run([*common, *more], extra=reach.variables).stdout
        except UvError as error:
            raise LockError(f"{lock.path}: uv cannot read it: {error.message}", error.hint) from error
        return _toml(text, f"uv's reading of {lock.path}")

    lowest = compiled("--no-deps", "--resolution", "lowest")
    _refuse_open(lowest, compiled("--no-deps"), lock)
    try:
        resolved = compiled()
    except LockError as error:
        note = f"its requirements cannot be resolved, so whether all are in it is not known: {error.message}"
        return LockExport(data=lowest, notes=(note,))
    return LockExport(data=lowest, incomplete=_incomplete(lowest, resolved, lock))


def _refuse_open(lowest: Mapping[str, Any], highest: Mapping[str, Any], lock: LockFile) -> None:
    low, high = _versions(lowest), _versions(highest)
    if low != high:
        name = min(name for name in low | high if low.get(name) != high.get(name))
        raise LockError(
            f"{lock.path} is not a lock: {name} may be {low.get(name)} or {high.get(name)}, and versions between",
            resolve_hint(lock),
        )


def _incomplete(pinned: Mapping[str, Any], resolved: Mapping[str, Any], lock: LockFile) -> str:
    lacking = sorted(set(_versions(resolved)) - set(_versions(pinned)))
    more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    told = f"{lock.path} is not a whole lock: what it pins requires {', '.join(lacking[:3])}{more} too"
    return told if lacking else ""


def resolve_hint(lock: LockFile) -> str:
    """Return how a file of requirements becomes a lock."""
    words = ("envdoctor", "lock", lock.path.name, "--output", f"{lock.path.stem}.lock.txt")
    return f"resolve it: `{shlex.join(words)}`, and name that file"


def _versions(document: Mapping[str, Any]) -> dict[str, str]:
    return {entry["name"]: str(entry.get("version", "")) for entry in document.get("packages", ())}


def _path(path: str, examined: str) -> str:
    """Return PATH without relative folders and without those of the examined environment."""
    inside = f"{os.path.realpath(examined)}/" if examined else "\0"
    folders = (folder for folder in path.split(os.pathsep) if folder.startswith("/"))
    return os.pathsep.join(folder for folder in folders if not f"{os.path.realpath(folder)}/".startswith(inside))


def _uv(lock: LockFile, host: Host) -> Uv:
    return replace(uv_tool.locate(host.environ, lock.folder), cwd=lock.folder)


def _program(name: str, title: str, lock: LockFile, host: Host, install: str) -> str:
    found = shutil.which(name, path=host.environ.get("PATH"))
    if found is None:
        raise LockError(
            f"{lock.path}: only {title} reads its own lock, and `{name}` is not on PATH "
            "(one in the examined venv is not run)",
            f"`{install}`, or export it where {title} is: a pylock.toml can be named instead",
        )
    return found


def _run(command: Sequence[str], lock: LockFile, host: Host, more: Mapping[str, str], hint: str) -> str:
    environ = {name: value for name, value in host.environ.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    done = run_child(
        command,
        cwd=lock.folder,
        env={**environ, "NO_COLOR": "1", **more},
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        told = "".join(f"\n  {line}" for line in said[-_SAID:])
        program = Path(command[0]).name
        raise LockError(f"{lock.path}: `{program} {command[1]}` failed with {done.returncode}:{told}", f"`{hint}`")
    return str(done.stdout)


@contextmanager
def _gone_again(path: Path) -> Iterator[None]:
    """Remove a file afterwards that was not there before."""
    there = path.exists()
    try:
        yield
    finally:
        if not there:
            path.unlink(missing_ok=True)


def _text(path: Path) -> str:
    try:
        return read_regular(path, _MAXIMUM).decode("utf-8")
    except OSError as error:
        raise LockError(f"{path}: {error.strerror}", "the lock must be a readable UTF-8 text file") from error
    except UnicodeDecodeError as error:
        raise LockError(f"{path}: {error}", "the lock must be a readable UTF-8 text file") from error


def _toml(text: str, what: str) -> dict[str, Any]:
    try:
        return tomli.loads(text)
    except (ValueError, RecursionError) as error:
        raise LockError(f"{what} is not TOML: {error}", "lock again") from error
