"""Starts this program's own Python so that no module or library of the caller's folder or variables is taken by it."""

import os
import sys
from collections.abc import Mapping, Sequence

# Where an interpreter is told to take modules from; a venv under examination is what they often name.
_PLACES = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE")
_LIBRARY_PATH = "LD_LIBRARY_PATH"
_OWN_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120 - pathlib may be what is shadowed


def isolate() -> None:
    """Take the current folder out of sys.path; where a variable leads Python elsewhere, start again with `-I`.

    The same where LD_LIBRARY_PATH would serve Python's own extension modules from another environment, or with a
    library that they cannot be loaded with (another libcrypto.so.3): the loader reads it at the start of a process
    alone, so one is started without it. And where the locale has another encoding of file names than UTF-8, in which
    RECORD and every other file names them.

    To be called before the first import that is not Python's own. The variables stay in the environment, since they are
    facts that are reported. What Python itself imports at its start (sitecustomize) has run by then.
    """
    current = _current_folder()
    sys.path[:] = [entry for entry in sys.path if entry and entry != current]
    if sys.flags.isolated or not sys.executable:
        return
    libraries = _libraries()
    if libraries is None and _names_are_utf8() and not any(os.environ.get(name) for name in _PLACES):
        return
    named = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)}  # noqa: PTH100
    kept = [entry for entry in sys.path if os.path.abspath(entry) not in named]  # noqa: PTH100
    _say_what_ran()
    environ = os.environ if libraries is None else _with_libraries(libraries)
    command = [sys.executable, *_options(), "-c", _start([*kept, _OWN_ROOT], _shown()), *sys.argv[1:]]
    try:
        os.execve(sys.executable, command, environ)  # noqa: S606
    except OSError:
        # No second start (no memory, a policy): the folders named are left out all the same.
        sys.path[:] = [*kept, _OWN_ROOT]


def start_of_a_child() -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return the words and the variables that start this program again, as a child that writes UTF-8.

    It takes modules from the folders of this process alone, and no start-up code of a folder that a variable names.
    Arguments are to be added. What it reports are the variables of this process.
    """
    libraries = _libraries()
    if libraries is None:
        libraries = _library_path_at_start()
    return (sys.executable, *_options(), "-c", _start([*sys.path, _OWN_ROOT])), _with_libraries(libraries)


def _with_libraries(libraries: str) -> Mapping[str, str]:
    environ = {name: value for name, value in os.environ.items() if name != _LIBRARY_PATH}
    return environ | ({_LIBRARY_PATH: libraries} if libraries else {})


def _library_path_at_start() -> str:
    """Return what the loader took this process's libraries from; a start without it put the variable back later."""
    mark = f"{_LIBRARY_PATH}=".encode()
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - as above
            entries = file.read().split(b"\0")
    except OSError:
        return os.environ.get(_LIBRARY_PATH, "")
    return next((os.fsdecode(entry.removeprefix(mark)) for entry in entries if entry.startswith(mark)), "")


def _say_what_ran() -> None:
    """Say which start-up code of a folder that a variable names ran before this program: nothing can prevent that."""
    for name in ("sitecustomize", "usercustomize"):
        path = getattr(sys.modules.get(name), "__file__", None)
        variable = next((place for place in _PLACES if path and _is_in(path, os.environ.get(place, ""))), "")
        if variable and sys.stderr is not None:
            print(  # noqa: T201 - nothing of ours is imported yet
                f"warning: {variable} made Python run {path!a} before envdoctor began; "
                f"`{sys.executable} -I -m envdoctor` starts without it, and reports {variable} all the same",
                file=sys.stderr,
            )


def _is_in(path: str, folders: str) -> bool:
    wanted = os.path.abspath(path)  # noqa: PTH100 - as above
    return any(wanted.startswith(os.path.abspath(at).rstrip("/") + "/") for at in folders.split(os.pathsep) if at)  # noqa: PTH100


def _libraries() -> str | None:
    """Return the LD_LIBRARY_PATH that this program can be started with; None where it is as it may be."""
    value = os.environ.get(_LIBRARY_PATH, "")
    if not value:
        return None
    elements = value.split(":")
    kept = [element for element in elements if not _is_of_an_environment(element)]
    if len(kept) < len(elements):
        return ":".join(kept)
    try:
        import _hashlib  # noqa: F401 - what nearly every command imports, and what it is linked with
        import zlib  # noqa: F401 - the same
    except ImportError:
        return ""
    return None


def _is_of_an_environment(folder: str) -> bool:
    """Tell a folder inside a venv or conda environment that is not this program's own."""
    at = os.path.abspath(folder) if folder else ""  # noqa: PTH100 - as above
    while at not in ("", os.sep):
        if at in (sys.prefix, sys.base_prefix):
            return False
        if any(os.path.exists(f"{at}/{mark}") for mark in ("pyvenv.cfg", "conda-meta")):  # noqa: PTH110
            return True
        at = os.path.dirname(at)  # noqa: PTH120
    return False


def _names_are_utf8() -> bool:
    return sys.getfilesystemencoding() == "utf-8"


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - as above
    except OSError:
        return ""


def _options() -> Sequence[str]:
    """Return what of the variables that `-I` ignores is about output and files, not about modules."""
    unbuffered = ("-u",) if os.environ.get("PYTHONUNBUFFERED") else ()
    no_bytecode = ("-B",) if sys.flags.dont_write_bytecode else ()
    return ("-I", f"-Xutf8={sys.flags.utf8_mode or int(not _names_are_utf8())}", *unbuffered, *no_bytecode)


def _shown() -> str:
    # What the terminal shows is another matter than how files are named; and -I ignores PYTHONIOENCODING.
    if sys.stdout is None or _names_are_utf8():
        return ""
    return f"sys.stdout.reconfigure(encoding={sys.stdout.encoding!r}); "


def _start(more: Sequence[str], shown: str = "") -> str:
    # Behind the interpreter's own: a json.py beside this package must not stand in front of Python's.
    value = os.environ.get(_LIBRARY_PATH)
    # It stays a fact that is reported, and what this program starts gets it as it was.
    back = f"import os; os.environ[{_LIBRARY_PATH!r}] = {value!r}; " if value is not None else ""
    return (
        f"{back}import sys; {shown}sys.argv[0] = {sys.argv[0]!r}; "
        f"sys.path += [entry for entry in {list(more)!r} if entry not in sys.path]; "
        "from envdoctor.__main__ import main; main()"
    )
