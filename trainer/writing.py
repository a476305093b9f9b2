"""Writing files of a run: a full disk is one clear error, and half a file never stands for a whole one."""

import fcntl
import os
import socket
import stat
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn, TextIO

from trainer.errors import ConfigError, OutputError, TrainerError

_ELSEWHERE = "make room, or send stdout to another file"
QUIET_SECONDS = 2.0
"""Nothing is silent for longer."""
RESUME = "make room or give the folder back, then go on with --resume"


def say(text: str) -> None:
    """Print a line on stderr, as far as it takes one: a pipe whose reader is gone must not end a run."""
    # Without a stderr, print would write among the results on stdout.
    if sys.stderr is not None:
        with suppress(OSError):
            print(text, file=sys.stderr, flush=True)  # noqa: T201 - what a person is told


def write_result(text: str) -> None:
    """Write a command's result to stdout. A reader that has left (`.. | head`) is not an error.

    Raises OutputError where stdout is closed or takes no more. Signs that its encoding lacks are written out.
    """
    if sys.stdout is None:
        raise OutputError("stdout: cannot be written: it is closed", _ELSEWHERE)
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        _let_go(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise OutputError(f"stdout: cannot be written: {error.strerror}", _ELSEWHERE) from error


def _let_go(stream: TextIO) -> None:
    # Python writes what is left in the buffer once more on its way out and complains: to a file that takes it.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def leave(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a command on the process's arguments and end the process with its exit code.

    A stdout that takes no more is told in a line, where the command has not told it, and the exit code is 2. A closed
    stderr becomes /dev/null: the next file that is opened would get its number, and with it what C code says there.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it stays open
    try:
        code: int | str | None = main(sys.argv[1:])
    except SystemExit as asked:
        # argparse, after --help or a bad flag.
        code = asked.code
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        _let_go(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            say(f"error: stdout: cannot be written: {error.strerror}")
            code = code or OutputError.exit_code
    sys.exit(code)


def say_error(error: TrainerError) -> None:
    """Print an error and its hint on stderr."""
    say(f"error: {error.message}")
    if error.hint:
        say(f"hint: {error.hint}")


@contextmanager
def writing(place: Path, hint: str = RESUME, *also: type[Exception]) -> Iterator[None]:
    """Raise OutputError for an OSError of the body, or for one of the errors in `also`, about writing `place`."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (OSError, *also)):
            raise
        told = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise OutputError(f"{place}: cannot be written: {told}", hint) from error


@contextmanager
def whole(file: Path, hint: str = RESUME, *also: type[Exception], shared: bool = False) -> Iterator[Path]:
    """Give a path beside `file` to write to, which then takes its place: what was there stays until then.

    With `shared` several processes may write the file at once, each to a path of its own; without it what a killed
    run left is overwritten by the next.

    Raises OutputError as `writing` does, and leaves nothing behind.
    """
    partial = file.with_name(f".{file.name}{f'.{uuid.uuid4().hex[:16]}' if shared else ''}.partial")
    try:
        with writing(file, hint, *also):
            file.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            with partial.open("rb") as written:
                os.fsync(written.fileno())
            partial.replace(file)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_whole(file: Path, text: str, hint: str = RESUME, *, shared: bool = False) -> None:
    """Write a text file as `whole` does; raises OutputError."""
    with whole(file, hint, shared=shared) as partial:
        partial.write_text(text, encoding="utf-8", errors="replace")


@contextmanager
def locked(file: Path, taken: str, cure: str) -> Iterator[None]:
    """Hold a lock on `file`, which says who holds it, until the body ends, or the process however it ends.

    Raises ConfigError(taken, cure) where another process has the lock, OutputError where the file cannot be written.
    """
    with ExitStack() as stack:
        with writing(file, cure):
            file.parent.mkdir(parents=True, exist_ok=True)
            held = stack.enter_context(file.open("a+b"))
        host = socket.gethostname()
        if not _flocked(held, file, f"that no other process writes to {file.parent}"):
            holder = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
            # A host ends the locks of its processes; a server of files may keep those of a host that went down.
            if " on " in holder and not holder.endswith(f" on {host}"):
                cure += f"; if that host went down and its lock stayed on the server, remove {file}"
            raise ConfigError(f"{taken}{f' ({holder})' if holder else ''}", cure)
        with writing(file, cure):
            held.truncate(0)
            held.write(f"process {os.getpid()} on {host}".encode())
            held.flush()
        yield


def _flocked(held: BinaryIO, file: Path, unchecked: str) -> bool:
    """Return whether `held` is locked now; where the file system has no locks, say what is `unchecked` and go on."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        say(f"note: {file}: cannot be locked ({error.strerror}): {unchecked} is not checked")
    return True


ROOM_TO_KEEP = "make room, or set XDG_CACHE_HOME to a folder that can be written"


def kept_folder(name: str) -> Path:
    """Return the folder of this name in the user's cache, made where it is missing; raises OutputError."""
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envdoctor" / name
    with writing(place, ROOM_TO_KEEP):
        place.mkdir(parents=True, exist_ok=True)
    return place


@contextmanager
def one_at_a_time(lock: Path, doing: str) -> Iterator[None]:
    """Let one process of a host do something; the others then find what it kept, and say that they wait for it."""
    with ExitStack() as stack:
        with writing(lock, ROOM_TO_KEEP):
            held = stack.enter_context(lock.open("ab"))
        since, told = time.monotonic(), False
        while not _flocked(held, lock, f"that no other process is {doing}"):
            if not told and time.monotonic() - since > QUIET_SECONDS:
                told = True
                say(f"waiting: another process is {doing}")
            time.sleep(0.05)
        yield


def folder_bytes(place: Path) -> int:
    """Return the bytes of the files under `place`; what another run removes meanwhile is not counted."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    total = 0
    for folder, _, names in os.walk(place, onerror=refuse):
        for name in names:
            with suppress(FileNotFoundError):
                found = Path(folder, name).stat()
                total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


class Lines:
    """A file that whole lines are appended to. A line that cannot be written leaves none of its bytes."""

    def __init__(self, path: Path, hint: str = RESUME) -> None:
        """Open it for appending, ending a line that a killed run left unfinished; raises OutputError."""
        self.path, self.hint = path, hint
        with writing(path, hint):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b", buffering=0)
            size = self._file.seek(0, os.SEEK_END)
            if size:
                self._file.seek(size - 1)
                if self._file.read(1) != b"\n":
                    self._write(b"\n")

    def write(self, text: str) -> None:
        """Append lines, each ended by a newline; raises OutputError."""
        with writing(self.path, self.hint):
            self._write(text.encode())

    def _write(self, data: bytes) -> None:
        before = os.fstat(self._file.fileno()).st_size
        try:
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), before)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()
