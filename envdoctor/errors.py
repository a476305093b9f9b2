"""Every error envdoctor raises on purpose.

EnvdoctorError                 message + hint + exit code
├── UsageError                 bad input: exit 2
│   ├── TargetError            the folder or interpreter is not a Python environment
│   │   └── NoTargetError      none was named, and none is active or near
│   ├── ProfileError           a profile is unknown or malformed
│   ├── LockError              a lock is missing or malformed
│   └── FingerprintError       a fingerprint file is malformed or of another schema
├── ElfError                   a file is not the ELF object it should be (recorded as a fact)
├── ProbeError                 a fact could not be read (recorded as a fact; the checks that need it say so)
├── CacheError                 a snapshot or a warm-up is not what it should be; nothing was taken from it: exit 1
├── CaptureError               a venv cannot be captured as it is; nothing was written: exit 1
├── RestoreError               a restore stopped and the old venv is untouched: exit 4
├── Interrupted                a command was asked to stop, and says what the venv is now: exit 130
└── FetchError                 not every wheel could be fetched; what was fetched is verified and kept: exit 4
"""

import errno
import os
import sys
from collections.abc import Mapping

from envdoctor.exitcodes import ExitCode

_SHOWN = 200
"""Characters of a path that are shown where it is longer."""


class EnvdoctorError(Exception):
    """Root of the hierarchy. `message` says what is wrong with its evidence, `hint` the next command to run."""

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, hint: str = "") -> None:
        """Keep the message and the hint apart, so that each output format can place them."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(EnvdoctorError):
    """The caller's input cannot be used."""


class TargetError(UsageError):
    """The named folder or interpreter is not a Python environment."""


class NoTargetError(TargetError):
    """No environment was named, and none is active or near."""


class ProfileError(UsageError):
    """A profile is unknown or malformed."""


class LockError(UsageError):
    """A lock is missing or malformed."""


class FingerprintError(UsageError):
    """A fingerprint file is malformed, or of a schema this version does not read."""


class ElfError(EnvdoctorError):
    """A file is not a readable ELF object."""


class ProbeError(EnvdoctorError):
    """A fact could not be read; the reason is kept as a fact."""

    exit_code = ExitCode.UNKNOWN


_FULL = (UsageError, "make room on its file system; `df -h` says how full each is")
_FAILS = (ProbeError, "its file system fails: `dmesg` says why, and a network file system may have to be mounted again")
_OF_A_PLACE: Mapping[int, tuple[type[EnvdoctorError], str] | None] = {
    errno.EACCES: None,
    errno.EPERM: None,
    errno.ELOOP: (UsageError, "name another path"),
    errno.ENAMETOOLONG: (UsageError, "name a shorter path"),
    errno.EROFS: (UsageError, "name a place that can be written; this one is mounted read-only"),
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EIO: _FAILS,
    errno.ESTALE: _FAILS,
}
"""Errors about a path -> what they are and what to do; None where permissions decide that."""


class CacheError(EnvdoctorError):
    """A snapshot of a compile cache is foreign, damaged or forged, or a warm-up did not warm."""

    exit_code = ExitCode.FINDINGS


class RestoreError(EnvdoctorError):
    """A restore stopped; the old venv is as it was."""

    exit_code = ExitCode.RESTORE_FAILED


class Interrupted(EnvdoctorError):  # noqa: N818 - the person's wish, no mistake
    """The command was interrupted, after which it says what the venv is now."""

    exit_code = ExitCode.INTERRUPTED


class CaptureError(EnvdoctorError):
    """A venv cannot be captured as it is; nothing was written."""

    exit_code = ExitCode.FINDINGS


class FetchError(EnvdoctorError):
    """Not every wheel could be fetched; what was fetched is verified and kept."""

    exit_code = ExitCode.RESTORE_FAILED


def closed_place(error: BaseException) -> EnvdoctorError | None:
    """Return an error of the system about a path that cannot be used, by its errno; None for any other exception.

    What this user may not do is bad input, a file system that fails is "could not tell". `Path.is_dir` and its like
    raise these before Python 3.14.
    """
    if (
        not isinstance(error, OSError)
        or error.errno is None
        or error.errno not in _OF_A_PLACE
        or not isinstance(error.filename, str | bytes)
    ):
        return None
    path = os.path.abspath(os.fsdecode(error.filename))  # noqa: PTH100 - links are not followed
    to = os.fsdecode(error.filename2) if isinstance(error.filename2, str | bytes) else ""
    shown = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…"
    message = f"{shown}{f' -> {to}' if to else ''}: {error.strerror}"
    if kind := _OF_A_PLACE[error.errno]:
        return kind[0](message, kind[1])
    places = [path, *([os.path.abspath(to)] if to else [])]  # noqa: PTH100 - as above
    for refused in filter(None, map(_refused, places)):
        return UsageError(f"{message}: {refused[0]}", refused[1])
    folders = dict.fromkeys(map(os.path.dirname, places))
    return UsageError(
        f"{message}: not by their permissions; a sticky folder, the server of a network file system, a mount option or "
        "a security module may refuse it",
        f"run envdoctor as the owner of {' and '.join(folders)}, or name another place",
    )


def _refused(path: str) -> tuple[str, str] | None:
    """Return what of that path its permissions keep from this user, and what lets it through."""
    parts = path.split("/")
    above = ("/".join(parts[:length]) or "/" for length in range(1, len(parts)))
    closed = next((folder for folder in above if not os.access(folder, os.X_OK)), "")
    there, folder = os.path.lexists(path), os.path.dirname(path)  # noqa: PTH120 - links are not followed
    if closed:
        doing, place = "enter", closed
    elif there and not os.access(path, os.R_OK):
        doing, place = "read", path
    elif there and not os.access(path, os.W_OK):
        doing, place = "write", path
    elif not os.access(folder, os.W_OK):
        doing, place = "write", folder
    else:
        return None
    return f"this user may not {doing} {place}", f"run envdoctor as the owner of {place}, or let this user {doing} it"


def internal_error(error: BaseException) -> str:
    """Return what is said of an exception nobody foresaw: "internal error: KeyError: 'x', raised in checks/gone.py:12".

    The place is the innermost frame, by its last two path components. A name of a file that this process cannot write
    is no fault of ours, but the locale's it was started in.
    """
    names = sys.getfilesystemencoding()
    if names != "utf-8" and isinstance(error, UnicodeEncodeError):
        sign = error.object[error.start : error.start + 1]
        return f"a file name has {sign!a}, and this process was started with names in {names}: set PYTHONUTF8=1"
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if at is None:
        return f"internal error: {said}"
    place = "/".join(at.tb_frame.f_code.co_filename.split("/")[-2:])
    return f"internal error: {said}, raised in {place}:{at.tb_lineno}"


def traceback_of(error: BaseException) -> str:
    """Return the traceback as Python prints it, without the last line break."""
    import traceback  # noqa: PLC0415 - imports a tokenizer, for what almost never happens

    return "".join(traceback.format_exception(error)).rstrip()
