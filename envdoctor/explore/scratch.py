"""A scratch copy of a venv, to try an install on: no byte of the target venv can change with it.

Files are cloned where the file system can (FICLONE, see ioctl_ficlone(2)). Where it cannot, what is in a package's
folder is hard-linked: 7 GB of libraries are not copied to be thrown away. Into such a folder uv only writes wheel
contents, here as symlinks to its cache, and it replaces what is there by renaming, so a linked file is never written
to; that it was not is checked all the same. Launchers, metadata, data files and the like are copied.
"""

import fcntl
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

from envdoctor.errors import ProbeError, UsageError
from envdoctor.model.frozen import field, mutable
from envdoctor.swap.hardlinks import copy_file, copy_tree, hard_link
from envdoctor.swap.outward_links import leaving_lines, led, with_lines
from envdoctor.swap.scratch_folder import scratch_folder
from envdoctor.swap.store import BackupStore, remove_tree

_MAXIMUM_PTH = 1 << 20
_IN_SITE = 4
"""Slashes of `/lib/python3.12/site-packages/NAME`."""
_FICLONE = 0x40049409
_IN_PACKAGE = re.compile(r"/(?:site|dist)-packages/(?![^/]+\.(?:dist|egg)-info/)[^/]+/")


@mutable
class Scratch:
    """A copy under construction, then in use."""

    source: str
    copy: str
    linked: dict[str, tuple[int, int]] = field(default_factory=dict)
    """File of the source that the copy shares -> its size and time of last change of contents."""
    left_out: list[str] = field(default_factory=list)
    """FIFOs, sockets and devices: not copied."""
    clone: bool = True
    """Until the file system refuses."""
    copy_up_to: int = -1
    """Bytes: a file that is not larger is copied and never linked, where what works on the copy may write into it."""

    def fill(self) -> None:
        """Copy the tree. Raises UsageError when a folder in it is a link out of it: a copy would share that folder."""
        copy_tree(self.source, self.copy, self._put)

    def _put(self, entry: "os.DirEntry[str]", target: str) -> None:
        path, status = target.removeprefix(self.copy), entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            self._link(path)
        elif stat.S_ISREG(status.st_mode):
            self._file(path, status)
        else:
            self.left_out.append(entry.path)

    def _link(self, path: str) -> None:
        leads_to = os.readlink(self.source + path)
        real = os.path.realpath(self.source + path)
        home = os.path.realpath(self.source)
        inside = real == home or real.startswith(home + os.sep)
        if not inside and os.path.isdir(real):
            raise UsageError(
                f"{self.source}{path} is a link out of the environment, to {real}: a copy would share that folder",
                "try the install in a venv of its own",
            )
        if inside:
            # The copy's link must lead to the copy, however the original is written.
            leads_to = os.path.relpath(self.copy + real[len(home) :], os.path.dirname(self.copy + path))
        else:
            leads_to = led(leads_to, os.path.dirname(path).lstrip("/"), (self.source, home), home, self.copy)
        os.symlink(leads_to, self.copy + path)

    def _file(self, path: str, status: os.stat_result) -> None:
        if path.endswith(".pth") and path.count("/") == _IN_SITE and status.st_size <= _MAXIMUM_PTH:
            content = Path(self.source + path).read_bytes()
            if lines := list(leaving_lines(content, os.path.dirname(path).lstrip("/"), self.source)):
                Path(self.copy + path).write_bytes(with_lines(content, lines))
                os.chmod(self.copy + path, stat.S_IMODE(status.st_mode))
                return
        if self.clone and self._cloned(path, status):
            return
        may_link = status.st_size > self.copy_up_to and _IN_PACKAGE.search(path)
        if may_link and hard_link(self.source + path, self.copy + path):
            self.linked[self.source + path] = (status.st_size, status.st_mtime_ns)
            return
        copy_file(self.source + path, self.copy + path)

    def _cloned(self, path: str, status: os.stat_result) -> bool:
        with open(self.source + path, "rb") as source, open(self.copy + path, "wb") as target:
            try:
                fcntl.ioctl(target.fileno(), _FICLONE, source.fileno())
            except OSError:
                self.clone = False
        if self.clone:
            os.chmod(self.copy + path, stat.S_IMODE(status.st_mode))
            os.utime(self.copy + path, ns=(status.st_atime_ns, status.st_mtime_ns))
        else:
            os.unlink(self.copy + path)
        return self.clone

    def refuse_changes(self) -> None:
        """Raise ProbeError when a file that the copy shared with the source was written to."""
        changed = [path for path, before in self.linked.items() if _state(path) != before]
        if changed:
            raise ProbeError(
                f"{len(changed)} files of {self.source} changed while the copy was in use, first {changed[0]}",
                "something else is changing that venv, or the install wrote through a link: "
                f"`envdoctor check --deep {shlex.quote(str(self.source))}`",
            )


def _state(path: str) -> tuple[int, int]:
    try:
        status = os.lstat(path)
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


@contextmanager
def scratch_copy(venv: Path, filling: AbstractContextManager[None] | None = None) -> Iterator[Scratch]:
    """Give a copy of the venv, on its own file system where that can be written; it is gone afterwards.

    `filling` is open while the copy is made. Raises RestoreError for a store that is not ours.
    """
    with ExitStack() as until:
        try:
            folder = until.enter_context(scratch_folder(BackupStore.of(venv)))
        except OSError:
            folder = Path(tempfile.mkdtemp(prefix="envdoctor-scratch-"))
            until.callback(remove_tree, folder)
        scratch = Scratch(source=str(venv), copy=str(folder / venv.name))
        with filling or nullcontext():
            scratch.fill()
        yield scratch
        scratch.refuse_changes()
