"""Folders however deep: nothing here calls itself for each level, as os.walk and shutil.rmtree do in Python 3.11."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_DEPTH = 100
"""Folders that are open at once while a tree is removed; what is deeper is moved up first."""
_MOVED = "envdoctor-moved-up-"


def walk(top: str | Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (folder, names of folders, other names), the upper folder first, as os.walk does.

    Links to folders count as folders and are not followed; a name that is taken out of the list is not looked into. A
    folder that cannot be read is left out.
    """
    todo = [os.fspath(top)]
    while todo:
        at = todo.pop()
        folders: list[str] = []
        others: list[str] = []
        links: set[str] = set()
        try:
            with os.scandir(at) as entries:
                for entry in entries:
                    (folders if _leads_to_folder(entry) else others).append(entry.name)
                    if entry.is_symlink():
                        links.add(entry.name)
        except OSError:
            continue
        yield at, folders, others
        todo += [f"{at}/{name}" for name in reversed(folders) if name not in links]


def _leads_to_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def remove_folder(path: str | Path) -> None:
    """Remove a folder with all that is in it, read-only folders too. No link is followed. Raises OSError.

    Only permissions are changed, and only of folders: files may have names elsewhere.
    """
    top = _opened(os.fspath(path), None)
    try:
        _empty(top)
    finally:
        os.close(top)
    os.rmdir(path)  # noqa: PTH106 - a path of any kind


def _empty(top: int) -> None:
    opened, names, left = [top], [""], [_entries(top)]
    try:
        while True:
            if not left[-1]:
                if len(opened) == 1:
                    return
                os.close(opened.pop())
                left.pop()
                os.rmdir(names.pop(), dir_fd=opened[-1])
                continue
            name, is_folder = left[-1].pop()
            if not is_folder:
                os.unlink(name, dir_fd=opened[-1])
            elif len(opened) < _DEPTH:
                opened.append(_opened(name, opened[-1]))
                names.append(name)
                left.append(_entries(opened[-1]))
            else:
                os.close(_opened(name, opened[-1]))  # what cannot be written cannot be moved
                moved = f"{_MOVED}{os.urandom(8).hex()}"
                os.rename(name, moved, src_dir_fd=opened[-1], dst_dir_fd=top)
                left[0].append((moved, True))
    finally:
        for descriptor in opened[1:]:
            os.close(descriptor)


def _entries(descriptor: int) -> list[tuple[str, bool]]:
    with os.scandir(descriptor) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _opened(name: str, above: int | None) -> int:
    """Open a folder, never a link, to be emptied."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except PermissionError:
        os.chmod(name, stat.S_IRWXU, dir_fd=above)
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(descriptor, mode | stat.S_IRWXU)
    return descriptor
