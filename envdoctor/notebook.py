"""`%load_ext envdoctor`: a magic that examines the environment of the kernel.

%envdoctor                    check it
%envdoctor -p good --deep     compare it with a profile, hash every file
%envdoctor why libcudnn.so.9  any other command, as a terminal would have it
"""

import argparse
import shlex
import subprocess
import sys
from typing import Any, NoReturn

from IPython.core.error import UsageError

from envdoctor import api
from envdoctor.errors import EnvdoctorError


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%envdoctor: {message}")


def load_ipython_extension(shell: Any) -> None:
    """Register the magic `%envdoctor`."""
    shell.register_magic_function(envdoctor, "line", "envdoctor")


def envdoctor(line: str) -> Any:
    """Check the environment that this kernel runs in, or run any other command of envdoctor.

    A check returns its verdict, which the notebook shows. A venv that is named is examined in place of the kernel's.
    Raises IPython's UsageError for what envdoctor refuses.
    """
    words = shlex.split(line, comments=True)
    of_check = not words or words[0] == "check" or words[0].startswith(("-", ".", "~")) or "/" in words[0]
    if not of_check:
        done = subprocess.run(
            # -P: not what the notebook's folder has under this name.
            [sys.executable, "-P", "-m", "envdoctor", *words],
            capture_output=True,
            text=True,
            check=False,
            errors="replace",
        )
        print(done.stdout, end="")  # noqa: T201 - a cell's output
        print(done.stderr, end="", file=sys.stderr)  # noqa: T201
        return None
    parser = _Parser(prog="%envdoctor", add_help=False)
    parser.add_argument("venv", nargs="?", default=sys.prefix)
    parser.add_argument("-p", "--profile")
    parser.add_argument("--lock")
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--require", action="append", default=[])
    asked = parser.parse_args(words[1:] if words[:1] == ["check"] else words)
    try:
        return api.check(asked.venv, asked.profile, lock=asked.lock, deep=asked.deep, require=asked.require)
    except EnvdoctorError as error:
        raise UsageError(f"{error.message}\n{error.hint}".rstrip()) from error
