"""Who may use a venv: mode, group, owner, ACLs and SELinux label of the old one, carried over to its successor."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_ACCESS, _DEFAULT, _LABEL = "system.posix_acl_access", "system.posix_acl_default", "security.selinux"


def carry_over(old: Path, new: Path) -> None:
    """Give `new` the top folder's mode (setgid included), group, ACLs, label and, where allowed, owner of `old`.

    Where the umask of this process, or of the one that filled uv's cache, would let fewer people in than the old venv
    did, what is inside is opened to the same people. Nothing is taken away. A file that uv's cache shares is copied
    first: its mode is the cache's. A group that this user is not in stays as it is; that is not a reason to fail. Nor
    is an `old` that somebody has deleted since: then there is nothing to carry over.
    """
    made = new.stat()
    try:
        wanted = old.stat()
    except FileNotFoundError:
        return
    bits = stat.S_IMODE(wanted.st_mode)
    others = wanted.st_gid != made.st_gid or wanted.st_uid != made.st_uid
    narrower = bits & ~stat.S_IMODE(made.st_mode)
    for path in (str(new), *(_inside(str(new)) if others or narrower else ())):
        status = os.lstat(path)
        if others:
            status = _chown(path, wanted, status)
        mode = stat.S_IMODE(status.st_mode)
        opened = bits if path == str(new) else _opened(status, bits)
        if not stat.S_ISLNK(status.st_mode) and opened != mode:
            _chmod(path, opened, status)
    _carry_lists(str(old), str(new))


def _carry_lists(old: str, new: str) -> None:
    """Set the ACLs and the SELinux label of the old top folder, where it has any (acl(5), xattr(7)).

    Folders inside get the same ACLs, and so do the files that not everybody may read. The label goes to all but files
    that uv's cache shares: theirs is the cache's.
    """
    access, default, label = (_attribute(old, name) for name in (_ACCESS, _DEFAULT, _LABEL))
    label = b"" if label == _attribute(new, _LABEL) else label
    if not (access or default or label):
        return
    for path in (new, *_inside(new)):
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            continue
        folder = stat.S_ISDIR(status.st_mode)
        if folder:
            _set(path, _DEFAULT, default)
        if access and (folder or not status.st_mode & stat.S_IROTH):
            _grant(path, access, status)
        if label and (folder or os.lstat(path).st_nlink == 1):
            _set(path, _LABEL, label)


def _grant(path: str, access: bytes, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        _set(path, _ACCESS, access)
        return
    # The group bits are the mask of an ACL: a file of data is not made executable, and none can be written into.
    masked = (mode & ~stat.S_IRWXG) | (mode & (stat.S_IRUSR | stat.S_IXUSR)) >> 3
    _chmod(path, masked, status)
    _set(path, _ACCESS, access)
    os.chmod(path, masked)  # noqa: PTH101 - thousands of string paths


def _attribute(path: str, name: str) -> bytes:
    try:
        return os.getxattr(path, name)
    except OSError:
        return b""  # it has none, or the file system knows none


def _set(path: str, name: str, value: bytes) -> None:
    if value:
        with contextlib.suppress(OSError):
            os.setxattr(path, name, value)


def _inside(folder: str) -> Iterator[str]:
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                yield entry.path
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)


def _opened(status: os.stat_result, bits: int) -> int:
    """Return the mode with what the owner may also allowed to those who may enter the top folder."""
    mode = stat.S_IMODE(status.st_mode)
    user = (mode & stat.S_IRWXU) >> 6
    for shift in (3, 0):
        # Files are replaced, never written into: who may write to the folders needs no more.
        allowed = (bits >> shift) & (0o7 if stat.S_ISDIR(status.st_mode) else 0o5)
        mode |= (user & allowed) << shift
    return mode | (bits & stat.S_ISGID if stat.S_ISDIR(status.st_mode) else 0)


def _chown(path: str, wanted: os.stat_result, status: os.stat_result) -> os.stat_result:
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        return status  # the inode is the cache's too
    owner = wanted.st_uid if os.geteuid() == 0 else -1
    try:
        os.chown(path, owner, wanted.st_gid, follow_symlinks=False)
    except PermissionError:
        return status
    return os.lstat(path)


def _chmod(path: str, mode: int, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_nlink == 1:
        os.chmod(path, mode)  # noqa: PTH101 - as above
        return
    copy = f"{path}.envdoctor-copy"
    with open(path, "rb") as source, open(copy, "xb") as target:  # noqa: PTH123 - as above
        while piece := source.read(1024 * 1024):
            target.write(piece)
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.chmod(copy, mode)  # noqa: PTH101 - as above
    os.replace(copy, path)  # noqa: PTH105 - as above
