"""The hidden folder beside a venv: builds under way, kept generations, the journal and the lock."""

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.facts.folders import remove_folder
from envdoctor.facts.whole_file import beside, create, open_own, write_whole
from envdoctor.model.frozen import frozen

_WAIT_FOR_ORPHAN = 60.0
_ATTEMPTS, _PAUSE = 6, 0.1
STORE = ".envdoctor"
"""Name of the hidden folder."""
PRUNED = "pruned-"
"""Begins the name, in `builds`, of a generation that is being removed: half of one is not a generation any more."""


@frozen
class BackupStore:
    """`<parent>/.envdoctor/<venv name>`: on the venv's file system, and no sibling that a listing would pick up."""

    target: Path
    """The venv, symlinks resolved."""
    inside: bool = False
    """The venv's folder cannot be renamed (a mount point, a parent that one may not write): the store is in it."""

    @classmethod
    def of(cls, venv: Path) -> "BackupStore":
        """Return the store of a venv; of a symlinked one, the store beside the real folder."""
        # Not Path.resolve: that raises RuntimeError for a link that leads to itself.
        linked = venv.is_symlink()
        target = Path(os.path.realpath(venv if linked else venv.parent), *(() if linked else (venv.name,)))
        # One that is inside is found again whatever has become of the mount or the permissions meanwhile.
        inside = (target / STORE / target.name).is_dir() or (
            target.is_dir()
            and (is_mount_point(target) or not os.access(target.parent, os.W_OK | os.X_OK))
            and os.access(target, os.W_OK | os.X_OK)
        )
        return cls(target=target, inside=inside)

    @property
    def beside(self) -> Path:
        """The folder that the store is made in."""
        return self.target if self.inside else self.target.parent

    @property
    def root(self) -> Path:
        """Where everything of this venv is kept."""
        return self.beside / STORE / self.target.name

    @property
    def witness(self) -> Path:
        """Return the path whose inode changes with a swap, and with nothing else."""
        return self.target / "pyvenv.cfg" if self.inside else self.target

    @property
    def builds(self) -> Path:
        """Copies under construction; whatever is here outside a running restore is left over."""
        return self.root / "builds"

    @property
    def scratches(self) -> Path:
        """Copies on which something is tried, each held by the command that tries it."""
        return self.root / "scratch"

    @property
    def generations(self) -> Path:
        """Former venvs, by number."""
        return self.root / "generations"

    def generation(self, number: int) -> Path:
        """Return the folder of a generation, kept or not."""
        return self.generations / f"{number:04d}"

    def refuse_planted(self) -> None:
        """Raise RestoreError where a part of the store is not a real folder of ours.

        What is in it is moved and removed without a question; through a symlink, or in a folder that somebody else
        made in a shared place, that would be files that are not envdoctor's.
        """
        if not self.beside.exists():
            return  # nothing can be in a folder that is yet to be made
        for path in (self.root.parent, self.root, self.builds, self.scratches, self.generations):
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if not stat.S_ISDIR(status.st_mode) or status.st_uid not in self.owners:
                what = "belongs to another user" if stat.S_ISDIR(status.st_mode) else "is not a real folder"
                raise RestoreError(
                    f"{path} {what}, so nothing in it is touched",
                    f"look at what it is and move it away; envdoctor makes {self.root} itself",
                )

    @property
    def owners(self) -> frozenset[int]:
        """Users who may have made the store: this one, and the owner of the folder it is in."""
        return frozenset({os.getuid(), self.beside.stat().st_uid})

    @property
    def journal(self) -> Path:
        """The transaction under way; absent when there is none."""
        return self.root / "journal.json"

    @property
    def verdicts(self) -> Path:
        """What the checks found in each kept venv."""
        return self.root / "verdicts.json"

    def numbers(self) -> list[int]:
        """Return the numbers of the kept generations, ascending."""
        return sorted(
            number
            for number, path in self._numbered()
            if path == self.generation(number) and path.is_dir() and not path.is_symlink()
        )

    def next_generation(self) -> Path:
        """Return the folder the present venv would be kept in: one above the highest number that anything there has."""
        return self.generation(max((number for number, _ in self._numbered()), default=0) + 1)

    def _numbered(self) -> Iterator[tuple[int, Path]]:
        if self.generations.is_dir():
            yield from ((int(path.name), path) for path in self.generations.iterdir() if path.name.isdecimal())


def is_mount_point(folder: Path) -> bool:
    """Tell whether something is mounted there; a bind mount on its own file system shows in mountinfo only, proc(5)."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return folder.is_mount()
    # The kernel writes blanks, line feeds and backslashes of a path as \040, \012 and \134.
    written = re.sub(rb"[ \t\n\\]", lambda match: b"\\%03o" % match[0][0], os.fsencode(folder))
    return any(line.split(b" ", 5)[4] == written for line in lines)


@contextmanager
def locked(store: BackupStore, waiting: Callable[[str], None]) -> Iterator[int]:
    """Hold the store's lock, creating the store, and give the lock's file descriptor.

    The descriptor is passed on to uv: after a kill -9 the lock stays held until the uv that was left behind has ended.
    Raises RestoreError when another restore holds it, or the folder cannot be written.
    """
    try:
        store.refuse_planted()
        store.root.mkdir(parents=True, exist_ok=True)
        if store.root.stat().st_dev != store.beside.stat().st_dev:
            raise RestoreError(
                f"{store.root} is on another file system than {store.target}, so nothing can be swapped between them",
                f"replace {store.root.parent} by a folder of the same file system",
            )
        ignore = store.root.parent / ".gitignore"
        if not os.path.lexists(ignore):
            write_whole(ignore, b"*\n")
        descriptor = own_lock(store.root / "lock")
    except OSError as error:
        raise RestoreError(
            f"{store.root} cannot be written: {error.strerror}",
            "run it as the owner of that folder",
        ) from error
    try:
        _take(descriptor, store, waiting)
        _sign(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def refuse_held(store: BackupStore) -> None:
    """Raise RestoreError where another command holds the lock. Changes nothing."""
    try:
        descriptor = os.open(store.root / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # nobody has made one, or it is not a lock of ours
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        holder, on = _holder(descriptor)
        raise _held(store, holder, on) from None
    finally:
        os.close(descriptor)


def own_lock(path: Path) -> int:
    """Return the descriptor of a lock in a folder of ours. Raises RestoreError for what is not a file of ours.

    A lock with a second name (`cp -al` of the project) gives way to a new one: nothing is written to the other.
    """
    if _has_second_name(path):
        _renew(path)
    try:
        return open_own(path, os.O_RDWR, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENXIO):
            second = _has_second_name(path)
            raise RestoreError(
                f"{path} "
                + ("has a second name, as a hard link" if second else "is not a file that envdoctor made")
                + ", so nothing is written to it",
                "look at what it is and move it away",
            ) from error
        raise


def _has_second_name(path: Path) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def _renew(path: Path) -> None:
    """Put a new file in place of a lock of this user's, or for root the folder's owner's, that nobody holds."""
    owners = {os.getuid(), path.parent.stat().st_uid} if os.getuid() == 0 else {os.getuid()}
    had = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(had)
        if status.st_uid not in owners or not stat.S_ISREG(status.st_mode):
            return
        try:
            fcntl.flock(had, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RestoreError(
                f"{path} is held by another process, here or where its second name is (a hard link)",
                "wait until the other envdoctor is done, then run this again",
            ) from None
        if os.path.samestat(status, path.lstat()):  # not renewed by another meanwhile
            new = beside(path)
            made = create(new, 0o644)
            if status.st_uid != os.getuid():
                os.fchown(made, status.st_uid, status.st_gid)
            os.close(made)
            new.replace(path)
    finally:
        os.close(had)


def _sign(descriptor: int) -> None:
    """Write this process's number into the lock, its boot and its host, for one that finds it taken.

    On a network file system that may be another host, where the number is another process's; so it is in another
    container of this machine.
    """
    try:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {_boot()} {os.uname().nodename}\n".encode(), 0)
        os.fsync(descriptor)  # a client of NFS keeps it to itself until then
    except OSError as error:
        # `prune` must work on a full disk; the lock holds without a name in it.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise RestoreError(
                f"the lock cannot be written: {error.strerror}", "run it as the owner of the venv's folder"
            ) from error


def _take(descriptor: int, store: BackupStore, waiting: Callable[[str], None]) -> None:
    until = time.monotonic() + _WAIT_FOR_ORPHAN
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder, on = _holder(descriptor)
            if on or _alive(holder) or time.monotonic() > until:
                raise _held(store, holder, on) from None
            if not told:
                waiting("an interrupted restore left a uv behind; waiting until it has ended")
                told = True
            time.sleep(0.1)
        else:
            return


def _holder(descriptor: int) -> tuple[str, str]:
    """Return the number of the process that signed a lock, and where it is: " on n2", empty for here."""
    holder, _, elsewhere = os.pread(descriptor, 256, 0).decode("ascii", "replace").strip().partition(" ")
    boot, _, name = elsewhere.partition(" ")
    here = (_boot(), name and os.uname().nodename)
    return holder, f" on {name or 'another machine'}" if boot and (boot, name) != here else ""


def _held(store: BackupStore, holder: str, on: str) -> RestoreError:
    return RestoreError(
        f"another envdoctor (process {holder or 'unknown'}{on}) is changing {store.target}",
        "wait until it is done, then run this again",
    )


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _alive(holder: str) -> bool:
    try:
        os.kill(int(holder), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError):
        return True
    return True


def remove_tree(path: Path) -> None:
    """Remove a folder of ours, read-only folders inside included; one that is already gone is fine.

    Only permissions are changed, and only of folders: files may be hardlinked to uv's cache.
    """
    if not os.path.lexists(path):
        return
    if path.is_symlink():
        path.unlink()
        return
    for attempt in range(_ATTEMPTS):
        try:
            remove_folder(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        except FileNotFoundError:
            if not os.path.lexists(path):
                return  # another process of ours was faster
            if attempt == _ATTEMPTS - 1:
                raise
        except OSError as error:
            # Something is still writing into it, and may be about to end.
            if error.errno != errno.ENOTEMPTY or attempt == _ATTEMPTS - 1:
                raise
            time.sleep(_PAUSE * attempt)
        else:
            return
