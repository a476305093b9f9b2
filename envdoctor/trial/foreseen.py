"""Commands of which the files alone tell that they fail: the first thing they do is an import that cannot succeed."""

import ast
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from envdoctor.explore.environment import play
from envdoctor.explore.removal import import_error
from envdoctor.facts.context import Options, Reading
from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import read_regular
from envdoctor.facts.target import resolve
from envdoctor.loader.disk import Disk
from envdoctor.model.frozen import replace
from envdoctor.probes.registry import PROBES
from envdoctor.probes.venv.startup_hooks import StartupHooks

_PLAYED = "torch"
_MAXIMUM = 4 << 20
# With which Python imports the same modules from the same places.
_PLAIN_OPTIONS = ("-u", "-B", "-q", "-b", "-O", "-OO")
# Any of them may bring another torch, or run code before the command's own.
_HARMLESS_HOOKS = ("/_virtualenv.pth", "/distutils-precedence.pth", "/_cuda_bindings_redirector.pth")
_UNSURE = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT")


def error_of(command: Sequence[str], copy: Path, host: Host, environment: Mapping[str, str]) -> str:
    """Return the exception that a command is certain to end with in a copy; empty where only a run can tell.

    That is so for `python` on code, a script or a module (`-m torch…`), and for a script of the copy's bin, that import
    torch first, where playing the import over the copy's files ends in an error.
    """
    if not _imports_torch_first(command, copy, host.cwd) or any(environment.get(name) for name in _UNSURE):
        return ""
    host = replace(host, environ=dict(environment))
    reading = Reading(target=resolve(copy), host=host, options=Options(ask_nvml=False), probes=PROBES)
    if any(not hook.path.endswith(_HARMLESS_HOOKS) for hook in reading.fact(StartupHooks).hooks):
        return ""  # it runs first, and may load what would be missing
    return import_error(play(reading, Disk()))


def _imports_torch_first(command: Sequence[str], copy: Path, cwd: Path) -> bool:
    folder, _, name = command[0].rpartition("/")
    if folder not in ("", f"{copy}/bin"):
        return False
    if not name.startswith("python"):
        # torchrun and its like: a script of the copy's own, which its Python starts.
        return not _outside_packages(copy, name) and _of_file(copy / "bin" / name, copy / "bin")
    words = list(command[1:])
    while words and words[0] in _PLAIN_OPTIONS:
        del words[0]
    if len(words) > 1 and words[0] == "-c":
        return _of_code(words[1].encode("utf-8", "surrogateescape")) and not _shadowed(cwd)
    if len(words) > 1 and words[0] == "-m":
        return words[1].partition(".")[0] == _PLAYED and not _shadowed(cwd)
    if not words or words[0].startswith("-"):
        return False
    script = Path(cwd, words[0])
    return script.suffix == ".py" and _of_file(script, script.parent)


def _outside_packages(copy: Path, name: str) -> bool:
    """Tell whether what has that name in the copy's bin is not a script that the copy's Python starts."""
    try:
        return not read_regular(copy / "bin" / name, _MAXIMUM).startswith(f"#!{copy}/bin/python".encode())
    except OSError:
        return True


def _of_file(script: Path, folder: Path) -> bool:
    try:
        return _of_code(read_regular(script, _MAXIMUM)) and not _shadowed(folder)
    except OSError:
        return False


def _of_code(code: bytes) -> bool:
    """Tell whether, but for the standard library, the first statement is an import of torch."""
    try:
        statements = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for statement in statements:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            names = [statement.module]
        else:
            return False
        for name in names:
            top = name.partition(".")[0]
            if top == _PLAYED:
                return True
            if top not in sys.stdlib_module_names:
                return False
    return False


def _shadowed(folder: Path) -> bool:
    """Tell whether a folder that comes first on sys.path has anything that could be taken for torch."""
    return any(name.partition(".")[0] == _PLAYED for name in os.listdir(folder))
