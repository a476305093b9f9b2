"""Choosing the base interpreter of a new venv. A candidate proves itself by running; the venv's own is never run."""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from envdoctor.errors import RestoreError, UsageError
from envdoctor.facts.answer_memo import AnswerMemo, state_of
from envdoctor.facts.children import run_child
from envdoctor.facts.regular_file import read_prefix, read_regular
from envdoctor.model.frozen import field, frozen
from envdoctor.model.pattern import pattern
from envdoctor.model.plan import BaseInterpreter
from envdoctor.stack.pyenv import Pyenv, newest_first

# -I and -S keep the user's paths, .pth files and sitecustomize out: only the interpreter itself answers.
_ASK = (
    "import json,os,platform,sys,sysconfig\n"
    "v='%d.%d.%d'%sys.version_info[:3]\n"
    "print(json.dumps({'executable':getattr(sys,'_base_executable','') or sys.executable,'version':v,"
    "'free_threaded':bool(sysconfig.get_config_var('Py_GIL_DISABLED')),'libc':list(platform.libc_ver()),'markers':{"
    "'implementation_name':sys.implementation.name,'implementation_version':v,'os_name':os.name,"
    "'platform_machine':platform.machine(),'platform_python_implementation':platform.python_implementation(),"
    "'platform_release':platform.release(),'platform_system':platform.system(),'platform_version':platform.version(),"
    "'python_full_version':platform.python_version(),'python_version':'%d.%d'%sys.version_info[:2],"
    "'sys_platform':sys.platform}}))"
)
_TIMEOUT = 20.0
_MAXIMUM_CFG = 1 << 20
_VERSION = pattern(r"^3\.\d+$")


@frozen
class InterpreterRequest:
    """What is looked for, and where."""

    versions: tuple[str, ...]
    """"3.12"; in order of preference."""
    named: str = ""
    """What the user named: a path or a version; empty to search."""
    target: Path | None = None
    """The old venv: its base interpreter is tried first, its own never."""
    cwd: Path = Path("/")
    """Where pyenv would be asked: it looks for a .python-version there and above."""
    managed: Callable[[], Path | None] = lambda: None
    """Tells the folder of uv's own interpreters; asked only when it comes to them."""
    memo: AnswerMemo = field(default_factory=AnswerMemo)
    """What interpreters said of themselves before."""


def choose(wanted: InterpreterRequest, environment: Mapping[str, str], home: Path) -> BaseInterpreter:
    """Return the first candidate that runs and has a wanted version.

    Raises UsageError for a named interpreter that does not fit, RestoreError when the search finds none.
    """
    if wanted.named and not _VERSION.match(wanted.named):
        return _named(wanted, environment)
    versions = wanted.versions
    if wanted.named:
        if wanted.named not in versions:
            raise UsageError(*_wrong_version(f"--python {wanted.named}", wanted.named, versions))
        versions = (wanted.named,)
    refused = {} if _own_minor() in versions else {str(_own()): f"is {platform.python_version()}"}
    for path, via in _candidates(wanted, versions, environment, home):
        if str(path) in refused or not os.path.exists(path):  # noqa: PTH110 - Path.exists raises where another user may not look
            continue
        if wanted.target is not None and _inside(path.parent, wanted.target):
            refused[str(path)] = "is a file of the venv itself"
            continue
        found = _probe(path, via, environment, wanted.memo)
        if isinstance(found, str):
            refused[str(path)] = found
        elif _minor(found) not in versions:
            refused[str(path)] = f"is {found.version}"
        else:
            return found
    tried = "; ".join(f"{path} {why}" for path, why in refused.items()) or "no candidate exists"
    raise RestoreError(
        f"no CPython {' or '.join(versions)} was found ({tried})",
        f"install one (`uv python install {versions[0]}`), or name it: `--python PATH`",
    )


def _named(wanted: InterpreterRequest, environment: Mapping[str, str]) -> BaseInterpreter:
    path = wanted.cwd / wanted.named
    if not os.path.exists(path):  # noqa: PTH110 - as above
        raise UsageError(f"--python {wanted.named}: there is no such file", "name an interpreter, or a version (3.12)")
    found = _probe(_base_of(path), "--python", environment, wanted.memo)
    if isinstance(found, str):
        raise UsageError(f"--python {wanted.named} {found}", "name an interpreter that runs")
    if _minor(found) not in wanted.versions:
        raise UsageError(*_wrong_version(f"--python {wanted.named}", found.version, wanted.versions))
    return found


def _wrong_version(what: str, version: str, versions: Sequence[str]) -> tuple[str, str]:
    return f"{what} is CPython {version}; the profile's lock is for {' or '.join(versions)}", "name another interpreter"


def _candidates(
    wanted: InterpreterRequest, versions: Sequence[str], environment: Mapping[str, str], home: Path
) -> Iterator[tuple[Path, str]]:
    if wanted.target is not None and (base := _home_of(wanted.target)) is not None:
        for version in versions:
            yield base / f"python{version}", "the old venv's base"
        yield base / "python3", "the old venv's base"
    if _own_minor() in versions:
        yield _own(), "the interpreter envdoctor runs on"
    pyenv = Pyenv(root=Path(environment.get("PYENV_ROOT") or home / ".pyenv"), environment=environment, cwd=wanted.cwd)
    for version in versions:
        for folder in environment.get("PATH", "").split(os.pathsep):
            if folder and pyenv.shims(folder):
                # A shim starts a hundred shells to find what these files say, and fails where they name another.
                yield from ((_python(chosen, version), "PATH") for chosen in pyenv.selected(version))
            elif folder.startswith("/"):  # the current folder is nobody's to trust
                yield _base_of(Path(folder, f"python{version}")), "PATH"
        yield from ((_python(installed, version), "pyenv") for installed in pyenv.installed(f"{version}.*"))
        if (managed := wanted.managed()) is not None:
            for installed in newest_first(managed, f"cpython-{version}.*"):
                yield _python(installed, version), "uv's own interpreters"


def _own() -> Path:
    return _base_of(Path(getattr(sys, "_base_executable", "") or sys.executable))


def _own_minor() -> str:
    return "{}.{}".format(*sys.version_info)


def _python(prefix: Path, version: str) -> Path:
    return prefix / "bin" / f"python{version}"


def _base_of(path: Path) -> Path:
    """Return the base interpreter's path for one inside a venv, without running it; any other path as it is."""
    base = _home_of(path.parent.parent)
    if base is None:
        return path
    version = next(iter(re.findall(r"\d+\.\d+$", path.name)), "")
    return base / (f"python{version}" if version else "python3")


def _home_of(venv: Path) -> Path | None:
    try:
        lines = read_regular(venv / "pyvenv.cfg", _MAXIMUM_CFG).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    pairs = (line.partition("=") for line in lines)
    home = next((value.strip() for key, _, value in pairs if key.strip().lower() == "home"), "")
    # A base inside its own venv is a file of that venv, whatever it is called: such a home is none.
    return Path(home) if home and not _inside(venv / home, venv) else None


def _inside(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _probe(path: Path, via: str, environment: Mapping[str, str], memo: AnswerMemo) -> BaseInterpreter | str:
    """Return what a candidate says of itself, or why it is none. It is run, unless it said so before."""
    if os.path.lexists(path.parent.parent / "pyvenv.cfg"):
        return "belongs to a venv"
    asked = _question(path)
    told = memo.get(asked) if asked else None
    if not isinstance(told, dict):
        told = _run(path, environment)
        if isinstance(told, str):
            return told
        if asked:
            memo.put(asked, told)
    markers = {str(name): str(value) for name, value in told["markers"].items()}
    if markers["implementation_name"] != "cpython":
        return f"is {markers['platform_python_implementation']}"
    short = "".join(told["version"].split(".")[:2])
    libc, libc_version = told["libc"]
    return BaseInterpreter(
        path=told["executable"],
        version=told["version"],
        found_via=via,
        markers=markers,
        tag=f"cp{short}{'t' if told['free_threaded'] else ''}",
        glibc=libc_version if libc == "glibc" else "",
    )


def _question(path: Path) -> object:
    """Return all that decides what an interpreter says: its files, the kernel, the C library; None for a script.

    A shim of a version manager is one, and starts whatever its settings name today.
    """
    real = Path(os.path.realpath(path))
    try:
        if read_prefix(real, 4) != b"\x7fELF":
            return None
    except OSError:
        return None
    libraries = sorted(real.parent.parent.glob("lib*/libpython3*.so*"))
    standard = sorted(real.parent.parent.glob("lib*/python3.*/os.py"))
    # ld.so.cache is written again whenever the system's libraries change, the C library among them.
    beside = (*libraries, *standard, Path("/etc/ld.so.cache"))
    files = [(str(one), state_of(one)) for one in (path, real, *beside)]
    return (_ASK, files, tuple(os.uname()))


def _run(path: Path, environment: Mapping[str, str]) -> dict[str, Any] | str:
    kept = {name: value for name, value in environment.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    try:
        done = run_child(
            [path, "-I", "-S", "-B", "-c", _ASK],
            text=True,
            timeout=_TIMEOUT,
            env=kept,
        )
        told = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return f"does not run ({type(error).__name__})"
    return f"does not run (exit {done.returncode})" if told is None else dict(told)


def _minor(found: BaseInterpreter) -> str:
    return ".".join(found.version.split(".")[:2])
