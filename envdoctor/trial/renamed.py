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
_STARTS = re.compile(rb"""\A#!(?:/bin/sh\n'''exec' )?["']?/[^\n"']*/(python[\d.]*)["']?(?: "\$0" "\$@")?\n""")
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


def started_by(script: bytes, folder: str) -> bytes:
    """Return a script with a Python of `folder` in the line that starts it; as it is where it finds its own, or none.

    Whatever Python it names: a venv that was copied has scripts that start the original's.
    """
    named = _STARTS.match(script)
    if named is None:
        return script
    body = without_interpreter(script).partition(b"\n")[2]
    python = f"{folder}/{named[1].decode()}"
    if len(python) <= _LONGEST_LINE and " " not in python:
        return b"#!" + os.fsencode(python) + b"\n" + body
    return b"#!/bin/sh\n'''exec' " + os.fsencode(shlex.quote(python)) + b" \"$0\" \"$@\"\n' '''\n" + body
