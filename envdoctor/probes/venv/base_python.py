"""What an interpreter's executable is and where its standard library lies, told without starting it."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from envdoctor.elf import reader
from envdoctor.errors import ElfError

_NAMED = re.compile(r"python(3\.\d+)t?\Z")
_SONAME = re.compile(r"libpython(3\.\d+)t?\.so(?:\.|\Z)")
_FOLDER = re.compile(r"python(3\.\d+)t?\Z")
_STARTS = (b"\x7fELF", b"#!")


def problem_of(executable: Path) -> str:
    """Return why the kernel would not start this file, as the end of "it ..."; empty when nothing speaks against it."""
    try:
        status = executable.stat()
        if stat.S_ISDIR(status.st_mode):
            return "is a folder"
        if not stat.S_ISREG(status.st_mode):
            return "is no regular file"
        if not status.st_mode & 0o111:
            return "may not be executed by anybody (chmod +x)"
        with executable.open("rb") as file:
            start = file.read(4)
    except OSError:
        return ""  # a dangling link is told apart, and what may not be read may still be started
    return "" if start.startswith(_STARTS) else "is neither a program (ELF) nor a script (#!)"


def minor_of(resolved: Path) -> str:
    """Return the "3.13" an executable is: by its name, its libpython, or its prefix's only include folder; or empty."""
    if match := _NAMED.match(resolved.name):
        return match[1]
    try:
        needed = reader.read(str(resolved)).needed
    except ElfError:
        needed = ()
    for soname in needed:
        if match := _SONAME.match(soname):
            return match[1]
    try:
        names = os.listdir(resolved.parent.parent / "include")  # noqa: PTH208 - names only
    except OSError:
        return ""
    minors = {match[1] for name in names if (match := _FOLDER.match(name))}
    return minors.pop() if len(minors) == 1 else ""


def base_of(home: str, resolved: str, prefix: Path, library: str) -> Path:
    """Return the folder whose `lib/<library>` holds the standard library.

    getpath.py of CPython 3.11 and later looks from pyvenv.cfg's `home` upward and, where that leads nowhere, falls back
    to where the executable's links end.
    """
    candidates = [Path(at).parent for at in (home, resolved and os.path.dirname(resolved)) if at]  # noqa: PTH120 - str
    for base in candidates:
        if any((base / lib / library).is_dir() for lib in ("lib", "lib64")):
            return base
    return next((base for base in candidates if base.is_dir()), prefix)


def platform_library(base: Path, library: str) -> Path:
    """Return the standard library's folder: below lib64 where that is the build's sys.platlibdir, as on Fedora."""
    other = base / "lib64" / library
    return (
        other
        if (other / "os.py").is_file() and not (base / "lib" / library / "os.py").is_file()
        else (base / "lib" / library)
    )


def lacking(base: Path, library: str) -> Iterator[str]:
    """Yield the files without which no interpreter of that base starts."""
    standard = platform_library(base, library)
    zipped = base / "lib" / f"{library.rstrip('t').replace('.', '')}.zip"
    # A folder that is not there at all can be built in elsewhere, which is not known from outside.
    if not standard.is_dir() or zipped.is_file():
        return
    for module in ("os", "encodings/__init__"):
        if not any((standard / f"{module}{suffix}").is_file() for suffix in (".py", ".pyc")):
            yield str(standard / f"{module}.py")
