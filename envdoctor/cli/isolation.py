"""Starts this program's own Python so that no module of the caller's folder or variables is imported by it."""

import os
import sys
from collections.abc import Sequence

# Where an interpreter is told to take modules from; a venv under examination is what they often name.
_PLACES = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE")
_OWN_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120 - pathlib may be what is shadowed


def isolate() -> None:
    """Take the current folder out of sys.path; where a variable leads Python elsewhere, start again with `-I`.

    To be called before the first import that is not Python's own. The variables stay in the environment, since they are
    facts that are reported. What Python itself imports at its start (sitecustomize) has run by then.
    """
    current = _current_folder()
    sys.path[:] = [entry for entry in sys.path if entry and entry != current]
    if sys.flags.isolated or not sys.executable or not any(os.environ.get(name) for name in _PLACES):
        return
    named = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)}  # noqa: PTH100
    kept = [entry for entry in sys.path if os.path.abspath(entry) not in named]  # noqa: PTH100
    try:
        os.execv(sys.executable, [sys.executable, *_options(), "-c", _start([*kept, _OWN_ROOT]), *sys.argv[1:]])  # noqa: S606
    except OSError:
        # No second start (no memory, a policy): the folders named are left out all the same.
        sys.path[:] = [*kept, _OWN_ROOT]


def own_folder() -> str:
    """Return the folder that the package `envdoctor` is in, for the sys.path of a child."""
    return _OWN_ROOT


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - as above
    except OSError:
        return ""


def _options() -> Sequence[str]:
    """Return what of the variables that `-I` ignores is about output and files, not about modules."""
    unbuffered = ("-u",) if os.environ.get("PYTHONUNBUFFERED") else ()
    no_bytecode = ("-B",) if sys.flags.dont_write_bytecode else ()
    return ("-I", f"-Xutf8={sys.flags.utf8_mode}", *unbuffered, *no_bytecode)


def _start(more: Sequence[str]) -> str:
    # Behind the interpreter's own: a json.py beside this package must not stand in front of Python's.
    return (
        f"import sys; sys.argv[0] = {sys.argv[0]!r}; "
        f"sys.path += [entry for entry in {list(more)!r} if entry not in sys.path]; "
        "from envdoctor.__main__ import main; main()"
    )
