"""What a venv's files say about its own folder, when that is another one: scripts, texts, and lines of .pth files."""

import os
import re
import shlex
from collections.abc import Iterable

from envdoctor.standards.recorded import without_interpreter
from envdoctor.swap.outward_links import names_path

# The kernel cuts a longer first line off (execve(2)); installers write a shell line then.
_LONGEST_LINE = 120
# A Python by its absolute path, in the first line or in the shell line of uv and distlib.
_STARTS = re.compile(rb"""\A#!(?:/bin/sh\n'''exec' )?["']?(/[^\n"'\0]*)/(python[\d.]*)["']?(?: "\$0" "\$@")?\n""")
# What a path ends at in a script, a list of paths or a line of Python, and what may stand before one.
_ENDS = rb"(?=[/\s\"'`:;,)\]}<>|&\\\0=]|\Z)"
_BEGINS = rb"(?:(?<![^\s\"'`:;,(\[{<>|&!=\0])|(?<=file://)|(?<=\s-[IL]))"


def moved(content: bytes, names: Iterable[str], new: str) -> bytes:
    """Return a text with one folder in place of another, where a name of that is the whole beginning of a path."""
    longest_first = sorted({os.fsencode(name) for name in names}, key=len, reverse=True)
    if not longest_first:
        return content
    named = re.compile(_BEGINS + b"(?:" + b"|".join(map(re.escape, longest_first)) + b")" + _ENDS)
    after = os.fsencode(new)
    return named.sub(lambda _: after, content)


def moved_pth(content: bytes, names: Iterable[str], new: str) -> bytes:
    """Return a .pth file with one folder in place of another: a line is code, or one path with all of its blanks."""
    known = [os.fsencode(name) for name in names]
    lines = []
    for line in content.splitlines(keepends=True):
        path = line.rstrip()
        if names_path(path):
            whole = next((name for name in known if path == name or path.startswith(name + b"/")), b"")
            lines.append(os.fsencode(new) + line[len(whole) :] if whole else line)
        else:
            lines.append(moved(line, map(os.fsdecode, known), new))
    return b"".join(lines)


def started_by(script: bytes, folder: str, names: Iterable[str]) -> bytes:
    """Return a script with a Python of `folder` in the line that starts it, where that names one of a venv of `names`.

    So where it names one that is gone: a venv that was moved has scripts that start it where it was. As it is where it
    names another Python, which somebody wants, finds its own, or starts none.
    """
    named = _STARTS.match(script)
    if named is None or not _stands_for_the_venvs(named, names):
        return script
    body = without_interpreter(script).partition(b"\n")[2]
    python = f"{folder}/{named[2].decode()}"
    if len(python) <= _LONGEST_LINE and " " not in python:
        return b"#!" + os.fsencode(python) + b"\n" + body
    return b"#!/bin/sh\n'''exec' " + os.fsencode(shlex.quote(python)) + b" \"$0\" \"$@\"\n' '''\n" + body


def without_python(script: bytes, names: Iterable[str]) -> bytes:
    """Return a script with `#!python` for the line that starts it; as it is where that names a Python of another place.

    Two venvs have the same script where this is the same.
    """
    named = _STARTS.match(script)
    return script if named and not _stands_for_the_venvs(named, names) else without_interpreter(script)


def _stands_for_the_venvs(named: "re.Match[bytes]", names: Iterable[str]) -> bool:
    folder, python = os.fsdecode(named[1]), os.fsdecode(named[2])
    return _is_gone(f"{folder}/{python}") or os.path.realpath(folder) in {
        os.path.realpath(f"{name}/bin") for name in names
    }


def _is_gone(path: str) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # it could not be told
    return False
