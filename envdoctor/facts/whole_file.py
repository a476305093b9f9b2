"""Writing a file so that a reader, a crash or a full disk sees the old one or the new one, never a part."""

import os
from pathlib import Path

# O_NOFOLLOW goes with O_EXCL: nothing that somebody put there, link or file, is ever written to.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def beside(path: Path) -> Path:
    """Return a name beside a file, for what is to take its place, that nobody can have foreseen."""
    return path.with_name(f".{path.name[:100]}.{os.urandom(8).hex()}.tmp")


def create(path: Path, mode: int = 0o666) -> int:
    """Return the descriptor of a new file, `mode` less the umask. Raises FileExistsError for whatever is there."""
    return os.open(path, _NEW, mode)


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file in one step, on the disk before it has its name. Raises OSError, the old file as it was."""
    temporary = beside(path)
    try:
        with os.fdopen(create(temporary, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
