"""Hashes of the training code's own files."""

import os
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen

_MAXIMUM_SOURCE = 16 * 1024 * 1024


@frozen
class SourceFile:
    """One source file."""

    path: str
    """Relative to the project root, as the profile names it."""
    sha256: str
    """Empty when it is missing or could not be read."""
    problem: str
    """"missing" or the reason it could not be read; empty when hashed."""


@frozen
class Sources:
    """The files a profile names."""

    root: str
    files: tuple[SourceFile, ...]


def probe(reading: Reading) -> Sources:
    """Hash the files the options name; none are named without a profile that lists sources."""
    root = reading.options.source_root
    if root is None:
        return Sources(root="", files=())
    files: list[SourceFile] = []
    for name in reading.options.source_files:
        path = Path(os.path.realpath(root / name))
        if not path.is_relative_to(os.path.realpath(root)):
            files.append(SourceFile(path=name, sha256="", problem="leads out of the project"))
            continue
        try:
            import hashlib  # noqa: PLC0415 - it loads OpenSSL, and few checks hash anything

            digest = hashlib.sha256(read_regular(path, _MAXIMUM_SOURCE)).hexdigest()
        except FileNotFoundError:
            files.append(SourceFile(path=name, sha256="", problem="missing"))
        except OSError as error:
            files.append(SourceFile(path=name, sha256="", problem=error.strerror or str(error)))
        else:
            files.append(SourceFile(path=name, sha256=digest, problem=""))
    return Sources(root=str(root), files=tuple(files))
