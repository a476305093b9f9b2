"""What an interpreter's executable is and where its standard library lies, told without starting it."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from envdoctor.elf import reader
from envdoctor.errors import ElfError
from envdoctor.facts.regular_file import read_prefix
from envdoctor.model.pattern import pattern

_NAMED = pattern(r"python(3\.\d+)t?\Z")
_SONAME = pattern(r"libpython(3\.\d+)t?\.so(?:\.|\Z)")
_FOLDER = pattern(r"python(3\.\d+)t?\Z")
_STARTS = (b"\x7fELF", b"#!")


def barred_by(executable: Path) -> str:
    """Return which folder keeps this user from the file behind an interpreter's links; empty when none does."""
    at = executable
    for _ in range(40):
        # parents[0] is the nearest: the outermost folder that may not be entered is the one to name.
        closed = next((at_ for at_ in reversed(at.parents) if _closed(at_)), None)
        if closed is not None:
            leads = f"{executable} leads to {at}, and " if at != executable else ""
            return f"{leads}{closed} may not be entered by this user"
        try:
            at = Path(os.path.normpath(at.parent / os.readlink(at)))  # noqa: PTH115 - the link's text, as it stands
        except OSError:
            return ""
    return ""


def _closed(folder: Path) -> bool:
    return os.path.isdir(folder) and not os.access(folder, os.X_OK)  # noqa: PTH112 - never raises


def problem_of(executable: Path) -> str:
    """Return why the kernel would not start this file, as the end of "it ..."; empty when it would."""
    try:
        status = executable.stat()
        if stat.S_ISDIR(status.st_mode):
            return "is a folder"
        if not stat.S_ISREG(status.st_mode):
            return "is not a regular file"
    except OSError:
        return ""  # a dangling link is reported separately
    # The content first: a shell runs an empty file that may be executed, with exit code 0.
    with suppress(OSError):  # what may not be read may still be started
        if not read_prefix(executable, 4).startswith(_STARTS):
            return "is neither a program (ELF) nor a script (#!)"
    return "" if status.st_mode & 0o111 else "may not be executed by anybody (chmod +x)"


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
        if any(_is_folder(base / lib / library) for lib in ("lib", "lib64")):
            return base
    return next((base for base in candidates if _is_folder(base)), prefix)


def platform_library(base: Path, library: str) -> Path:
    """Return the standard library's folder: below lib64 where that is the build's sys.platlibdir, as on Fedora."""
    usual, other = base / "lib" / library, base / "lib64" / library
    return other if _is_file(other / "os.py") and not _is_file(usual / "os.py") else usual


def lacking(base: Path, library: str) -> Iterator[str]:
    """Yield the files without which no interpreter of that base starts."""
    standard = platform_library(base, library)
    zipped = base / "lib" / f"{library.rstrip('t').replace('.', '')}.zip"
    # A folder that is not there at all can be built in elsewhere, which is not known from outside.
    if not _is_folder(standard) or _is_file(zipped):
        return
    for module in ("os", "encodings/__init__"):
        if not any(_is_file(standard / f"{module}{suffix}") for suffix in (".py", ".pyc")):
            yield str(standard / f"{module}.py")


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - Path's raises PermissionError where the way there is closed


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - as above
