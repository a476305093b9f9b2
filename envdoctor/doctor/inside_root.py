"""Reads an environment inside a root folder (a mounted image, a container's file system) as that root itself would.

A child process makes the folder its root (chroot(2)), so that absolute links, `home` of pyvenv.cfg, RPATHs and the
loader's cache mean that root's files and nothing of this machine. Before, it loads all that it needs and empties the
places that modules come from: no code of the root is imported, and nothing in it is started or written.
"""

import codecs
import ctypes
import importlib
import json
import os
import pkgutil
import platform
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import BuiltinImporter, FrozenImporter
from pathlib import Path
from typing import Any, NoReturn

from envdoctor.doctor import examine
from envdoctor.documents.fingerprint_file import document, parse
from envdoctor.errors import EnvdoctorError, ProbeError, TargetError, UsageError
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host, default_library_dirs
from envdoctor.facts.locate import locate
from envdoctor.facts.on_failure import on_failure
from envdoctor.facts.stops import end_by_stops, fork, put_off
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.probes.loading.demangle import demangle

_ROOMS = ("analysis", "catalog", "compare", "elf", "facts", "loader", "model", "probes", "standards")
# Imported in functions of these rooms, when they are needed. NVML's module is not: a root folder has no GPU of its own.
_LATE = (
    *(
        "ast",
        "base64",
        "concurrent.futures.thread",
        "csv",
        "ctypes",
        "dataclasses",
        "fcntl",
        "glob",
        "hashlib",
        "importlib.util",
        "io",
    ),
    *("packaging.markers", "packaging.pylock", "packaging.requirements", "packaging.specifiers", "packaging.version"),
    *("pwd", "shutil", "subprocess", "symtable", "tempfile", "threading", "warnings"),
)
_CODECS = ("ascii", "latin-1", "utf-8", "utf-8-sig", "utf-16", "utf-32", "idna")
_CLONE_NEWUSER = 0x10000000
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def facts_inside(root: Path, named: str, options: Options) -> Fingerprint:
    """Return the facts of the environment at the path `named` of that root (one below `root` means the same).

    Raises UsageError where there is no such root or no name, TargetError where no environment is there, ProbeError
    where this user may not change the root folder of a process.
    """
    if not root.is_dir():
        raise UsageError(f"{root} is not a directory", "name the folder that holds the root's usr and etc")
    if not named:
        raise UsageError(
            "--root needs the environment's path inside it",
            f"`envdoctor check --root {shlex.quote(str(root))} /opt/venv`",
        )
    inner = _inner(root, named)
    _load_everything()
    answer = _in_child(lambda: _read(root, inner, options))
    if "error" in answer:
        kind = {"TargetError": TargetError, "UsageError": UsageError}.get(answer["kind"], ProbeError)
        raise kind(answer["error"], answer["hint"])
    return parse(answer)


def _inner(root: Path, named: str) -> str:
    absolute, whole = os.path.abspath(named), os.path.abspath(root)  # noqa: PTH100 - links are left as they are
    below = absolute.removeprefix(whole) if absolute.startswith(f"{whole}/") else named
    return below if below.startswith("/") else f"/{below}"


def _load_everything() -> None:
    for room in _ROOMS:
        package = importlib.import_module(f"envdoctor.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    for name in _LATE:
        importlib.import_module(name)
    for name in _CODECS:
        codecs.lookup(name)
    demangle("_Z1fv")  # opens this machine's libstdc++; later it would be the root's


def _in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = 0

    def end() -> None:
        if child:
            with suppress(OSError):  # it has ended, and was waited for
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    with on_failure(end):
        with put_off():
            child = fork()
            if child == 0:
                _in_the_child(work, reading, writing)
        os.close(writing)
        with os.fdopen(reading, encoding="ascii") as pipe:
            text = pipe.read()
        _, status = os.waitpid(child, 0)
    if not text:
        raise ProbeError(f"the child that read the root folder gave no answer ({os.waitstatus_to_exitcode(status)})")
    answer: dict[str, Any] = json.loads(text)
    return answer


def _in_the_child(work: Callable[[], dict[str, Any]], reading: int, writing: int) -> NoReturn:
    code = 1
    try:
        end_by_stops()
        os.close(reading)
        with os.fdopen(writing, "w", encoding="ascii") as pipe:
            pipe.write(json.dumps(_answer(work)))
        code = 0
    finally:
        os._exit(code)  # whatever happened: this process must not return into the caller's code


def _answer(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return work()
    except EnvdoctorError as error:
        return {"error": error.message, "hint": error.hint, "kind": type(error).__name__}
    except Exception as error:  # noqa: BLE001 - a child's traceback helps nobody, its last line does
        return {"error": f"the root could not be read: {type(error).__name__}: {error}", "hint": "", "kind": ""}


def _read(root: Path, named: str, options: Options) -> dict[str, Any]:
    _enter(root)
    machine = platform.machine()
    host = Host(
        environ={"PATH": _PATH},
        home=Path("/root"),
        user="root",
        uid=0,
        cwd=Path("/"),
        machine=machine,
        library_dirs=default_library_dirs(machine),
        remembers=False,
    )
    return document(examine.take_fingerprint(locate(named, host).target, host, options))


def _enter(root: Path) -> None:
    try:
        if os.geteuid() != 0:
            # A user namespace of its own gives the right to chroot(2); where it is refused, chroot says so.
            ctypes.CDLL(None).unshare(_CLONE_NEWUSER)
        os.chroot(root)
        os.chdir("/")
    except OSError as error:
        raise ProbeError(
            f"{root} cannot be made a process's root folder: {error.strerror}",
            "run it as root, or where unprivileged user namespaces are allowed",
        ) from error
    # From here on a path means the root's file, and an import would run its code.
    sys.path[:] = []
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter]
    sys.path_importer_cache.clear()
