"""Which rows of a RECORD say what a distribution is, and which only how, where and by whom it was installed."""

import base64

from envdoctor.model.pattern import pattern

INSTALLER_FILES = frozenset(
    {
        "RECORD",
        "RECORD.jws",
        "RECORD.p7s",
        "INSTALLER",
        "REQUESTED",
        "direct_url.json",
        "uv_build.json",
        "uv_cache.json",
    }
)
"""Files of a dist-info folder that the installer writes (packaging.python.org, "Recording installed projects"; the
last two are uv's)."""
SCRIPTS = "../../../bin/"
"""Where scripts lie, seen from a venv's site-packages."""
_SECTIONS = ("[console_scripts]", "[gui_scripts]")
# uv's and distlib's launcher for a path that is long, holds a blank or is relative: a shell line that execs Python.
_TRAMPOLINE = pattern(rb"\A#!/bin/sh\n'''exec' [^\n]* \"\$0\" \"\$@\"\n' '''\n")
_PYTHON_LINE = pattern(rb"\A#![^\n]*python[^\n]*\n")


def lasting(path: str, info: str) -> bool:
    """Tell whether a row (its normalized path) belongs to the distribution itself, whose dist-info folder is `info`."""
    if path.endswith(".pyc"):
        return False
    return not (path.startswith(info + "/") and path[len(info) + 1 :] in INSTALLER_FILES)


def generated_scripts(entry_points: str) -> frozenset[str]:
    """Return the names of the scripts an installer makes from entry_points.txt."""
    found: set[str] = set()
    wanted = False
    for raw in entry_points.splitlines():
        line = raw.strip()
        if line.startswith("["):
            wanted = line in _SECTIONS
        elif wanted and "=" in line and not line.startswith(("#", ";")):
            found.add(line.partition("=")[0].strip())
    return frozenset(found)


def without_interpreter(script: bytes) -> bytes:
    """Return a script with the line that names its Python written as a wheel has it: `#!python`."""
    for line in (_TRAMPOLINE, _PYTHON_LINE):
        if match := line.match(script):
            return b"#!python\n" + script[match.end() :]
    return script


def hash_field(digest: bytes) -> str:
    """Return a sha256 digest as a RECORD writes it: "sha256=…", urlsafe base64 without padding."""
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def hex_of(field: str) -> str:
    """Return the digest of a RECORD's sha256 field in hex; empty for another algorithm. Raises ValueError."""
    algorithm, _, text = field.partition("=")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex() if algorithm == "sha256" else ""
