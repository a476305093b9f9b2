"""One examination for all ranks of a node: the first one examines, the others wait and take what it found.

A verdict is taken only from a file that this user made, in a folder that only this user can enter, for the same
launch and the same question: venv, profile, lock, every variable but the ranks' own, current folder, mount namespace.
Each rank takes it once. Where anything of this cannot be had, a rank examines by itself.
"""

import fcntl
import json
import math
import os
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Self, TextIO

from envdoctor import __version__
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import EnvdoctorError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.host import Host
from envdoctor.facts.launch import Launch, launch_of, local_rank, shared
from envdoctor.model.codec import CodecError, decode, encode
from envdoctor.model.frozen import frozen, replace

_MAXIMUM = 4 * 1024 * 1024
_LASTS_SECONDS = 600.0
"""How old a verdict may be in a launch whose launcher ends with it."""
_WORD_SECONDS, _NEXT_WORD_SECONDS = 2.0, 60.0
"""How long a rank waits before it says so; again then, and each time that it has waited twice as long."""
PATIENCE_SECONDS = 600.0
"""The lock is free when the process that examines has died; on a slow file system those that give up make it slower."""
_OLD_SECONDS = 3600.0
LONG_SECONDS = 100.0
"""After such a wait every rank speaks for itself: the one that speaks for all may be the one that hangs."""
Waiting = Callable[[str, float], None]
"""Told that a rank waits, and for how many seconds so far."""
_MOST_LOOKED_AT = 1000
"""Of a folder's verdicts at one start: what is older than an hour goes, little by little where it is a lot."""
_LOOK_SECONDS = 0.05


@frozen
class Told:
    """What an examination found, for ranks that did not make it."""

    code: int
    """The verdict's exit code."""
    found: tuple[str, ...] = ()
    """Codes of the findings."""
    torch: str | None = None
    """The examined folder of torch; empty for none, None where it could not be determined."""
    report: str = ""
    colored: str = ""
    """The report for a terminal."""
    sheet: str = ""
    """What the stack is, for the comparison of all ranks of the job; empty where there is none."""
    problem: str = ""
    """Why nothing could be examined; `code` is then the error's."""
    hint: str = ""

    def shown_on(self, stream: TextIO | None, environ: Mapping[str, str]) -> str:
        """Return the report for a stream, which may be somebody's own, closed or None."""
        with suppress(AttributeError, ValueError):
            if stream is not None and stream.isatty() and not environ.get("NO_COLOR"):
                return self.colored
        return self.report

    def error(self) -> EnvdoctorError:
        """Return the error that another rank met, with its exit code."""
        error = EnvdoctorError(self.problem, self.hint)
        error.exit_code = ExitCode(self.code)
        return error


@frozen
class _Shared:
    told: Told
    by: str
    """The launch."""
    ended: float
    """Seconds of CLOCK_BOOTTIME."""
    ranks: tuple[str, ...]
    """The local ranks that have it."""
    reporter: str = ""
    """The local rank that prints the report."""


class Node:
    """What the ranks of this launch on this node share: one examination, and one report of it. A context manager."""

    def __init__(self, host: Host, question: tuple[object, ...], *, whatever_variables: bool = False) -> None:
        """Take the host and what the verdict depends on beside its variables, as plain values.

        whatever_variables: it does not depend on them.
        """
        self._host, self._question = host, question
        self._variables = {} if whatever_variables else shared(host.environ)
        self._launch = launch_of(host)
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        """Open the file of the question, where this process is one of several."""
        if self._launch is not None:
            self._descriptor = _open(self._host, _name(self._launch, self._question, self._host, self._variables))
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._leave()

    def told(
        self,
        examine: Callable[[], Told],
        say: Waiting,
        patience: float = PATIENCE_SECONDS,
        doing: str = "examines the same environment",
    ) -> Told:
        """Return what `examine` finds, in this process or in another rank of the launch that was asked the same.

        say: tells a person that this rank waits, for `patience` seconds at most; doing: for what, as a clause. Raises
        what `examine` raises.
        """
        launch, descriptor = self._launch, self._descriptor
        if launch is None or descriptor is None:
            return examine()
        with _locked(descriptor, say, patience, doing) as alone:
            if not alone:
                self._leave()
                return examine()
            known = _read(descriptor)
            if known is not None and _holds(known, launch):
                _write(descriptor, replace(known, ranks=(*known.ranks, launch.rank)))
                return known.told
            try:
                told = examine()
            except EnvdoctorError as error:
                _write(
                    descriptor, _made(Told(code=int(error.exit_code), problem=error.message, hint=error.hint), launch)
                )
                raise
            _write(descriptor, _made(told, launch))
            return told

    @contextmanager
    def alone(self, say: Waiting, doing: str) -> Iterator[bool]:
        """Run the block in one rank after the other, however long that takes; tell whether there are several."""
        if self._descriptor is None:
            yield False
            return
        with _locked(self._descriptor, say, math.inf, doing):
            yield True

    def reports(self, told: Told, wait: float) -> bool:
        """Tell whether this rank prints the report of what it was told: local rank 0 where it was told the same.

        wait: seconds in which local rank 0 may still come. After them the first rank prints it: local rank 0 may have
        another verdict, and a cause is printed by somebody.
        """
        first = not local_rank(self._host.environ)
        launch, descriptor = self._launch, self._descriptor
        if launch is None or descriptor is None:
            return first or bool(told.code)
        until = time.monotonic() + wait
        while not first:
            known = _read(descriptor)
            if known is not None and known.by == launch.by and (known.reporter or "0" in known.ranks):
                return False
            if time.monotonic() >= until:
                break
            time.sleep(_LOOK_SECONDS)
        with _locked(descriptor, lambda _, __: None) as alone:
            known = _read(descriptor) if alone else None
            if known is None or known.by != launch.by or launch.rank not in known.ranks:
                return True
            if known.reporter:
                return False
            _write(descriptor, replace(known, reporter=launch.rank))
            return True

    def _leave(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def of_profile(workspace: Workspace) -> tuple[object, ...]:
    """Return what a verdict depends on in the profile of a workspace that has one: its name and files, the lock's."""
    asked = workspace.needs_profile("start on", 'gate.require("NAME")')
    return (asked.asked, *map(_identity, (asked.path, asked.lock_path)))


def _identity(path: Path) -> list[object]:
    try:
        status = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _made(told: Told, launch: Launch) -> _Shared:
    return _Shared(told=told, by=launch.by, ended=time.clock_gettime(time.CLOCK_BOOTTIME), ranks=(launch.rank,))


def _holds(known: _Shared, launch: Launch) -> bool:
    """Tell whether a verdict is of this launch, and not of an earlier process of this rank.

    Where the launcher goes on after a launch, the examination must have ended in this process's lifetime.
    """
    if known.by != launch.by or launch.rank in known.ranks:
        return False
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - known.ended
    return 0 <= age < _LASTS_SECONDS and (launch.ends or known.ended >= launch.started)


def _name(launch: Launch, question: tuple[object, ...], host: Host, environ: Mapping[str, str]) -> str:
    """Return the file of a question: a digest, since variables may hold secrets."""
    import hashlib  # noqa: PLC0415 - a process that is not one of several hashes nothing

    namespace = os.stat(host.proc / "self/ns/mnt").st_ino if (host.proc / "self/ns/mnt").exists() else 0  # noqa: PTH116 - as below
    root = os.stat("/")  # noqa: PTH116 - a status alone
    variables = sorted(environ.items())
    asked = [__version__, launch.by, namespace, root.st_dev, root.st_ino, host.uid, str(host.cwd), variables, *question]
    return hashlib.sha256(json.dumps(asked).encode("utf-8", "surrogateescape")).hexdigest()[:40] + ".verdict"


def _open(host: Host, name: str) -> int | None:
    """Return the opened file of that name in a folder of this user's own, made where it is not there; else None."""
    runtime = host.environ.get("XDG_RUNTIME_DIR", "")
    own = f"envdoctor-{host.uid}"
    for folder in (
        Path(runtime, "envdoctor") if runtime.startswith("/") else None,
        Path("/dev/shm", own),  # noqa: S108 - looked at before it is used
        host.tmp / own,
    ):
        if folder is None:
            continue
        try:
            return _opened(folder, name)
        except OSError:
            continue  # the next one may be ours
    return None


def _opened(folder: Path, name: str) -> int:
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _refuse(os.fstat(inside), stat.S_ISDIR, folder)
        _forget_old(inside)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o600, dir_fd=inside)
    finally:
        os.close(inside)
    try:
        _refuse(os.fstat(descriptor), stat.S_ISREG, folder / name)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse(status: os.stat_result, kind: Callable[[int], bool], path: Path) -> None:
    if not kind(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(f"{path} is not this user's own")


def _forget_old(folder: int) -> None:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, _MOST_LOOKED_AT)]
    for name in names:
        if name.endswith(".verdict"):
            try:
                if time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime > _OLD_SECONDS:
                    os.unlink(name, dir_fd=folder)
            except OSError:
                continue  # another rank did


@contextmanager
def _locked(
    descriptor: int, say: Waiting, patience: float = PATIENCE_SECONDS, doing: str = "examines the same environment"
) -> Iterator[bool]:
    """Hold the file for oneself, when the process that examines is done or dead; False after a long wait."""
    started, word, pause = time.monotonic(), _WORD_SECONDS, 0.002
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            waited = time.monotonic() - started
        except OSError:  # a file system without locks
            yield False
            return
        if waited > patience:
            yield False
            return
        if waited > word:
            so_far = f": {waited:.0f} s so far" if word > _WORD_SECONDS else ""
            say(f"waiting for another rank of this node, which {doing}{so_far}", waited)
            word = max(_NEXT_WORD_SECONDS, 2 * word)
        time.sleep(pause)
        pause = min(0.05, pause * 1.5)
    try:
        yield True
    finally:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _read(descriptor: int) -> _Shared | None:
    """Return what the file holds; None when it is new, or was left by a rank that died while it wrote."""
    try:
        data = os.pread(descriptor, _MAXIMUM, 0)
        checksum, _, body = data.partition(b"\n")
        if checksum != b"%08x" % zlib.crc32(body):
            return None
        return decode(_Shared, json.loads(body))  # type: ignore[no-any-return]
    except (OSError, ValueError, RecursionError, CodecError):
        return None


def _write(descriptor: int, known: _Shared) -> None:
    try:
        body = json.dumps(encode(known)).encode()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%08x\n%b" % (zlib.crc32(body), body), 0)
    except (OSError, UnicodeError):
        return  # the next rank examines by itself
