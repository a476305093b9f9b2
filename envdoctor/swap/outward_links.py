"""Links and .pth lines of a venv in a copy of it: relative ones that leave the folder were made for its own place."""

import os
from collections.abc import Iterable, Iterator


def led(leads_to: str, folder: str, names: Iterable[str], home: str, new: str) -> str:
    """Return where a link leads in a copy of its venv: to the copy's own files, and outside to the same as before.

    folder: the link's, relative to the venv. names: of the venv's folder. home: the folder that relative links were
    made for. new: where the copy is or will be.
    """
    if leads_to.startswith("/"):
        for name in names:
            if leads_to == name or leads_to.startswith(f"{name}/"):
                return new + leads_to[len(name) :]
        return leads_to
    if not leaves(folder, leads_to) or new == home:
        return leads_to
    # The kernel goes up from the real folder, whatever links lead to it (path_resolution(7)).
    real = os.path.realpath(home)
    target = os.path.normpath(f"{real}/{folder}/{leads_to}")
    if target == real or target.startswith(f"{real}/"):
        return os.path.relpath(target, f"{real}/{folder}")
    return target


def leaves(folder: str, leads_to: str) -> bool:
    """Tell whether a relative path goes above the venv's folder, from a folder inside."""
    return os.path.normpath(f"{folder}/{leads_to}" if folder else leads_to).split("/", 1)[0] == ".."


def leaving_lines(content: bytes, folder: str, home: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield (line, the absolute path that Python makes of it) for each line of a .pth file that leaves the venv.

    folder: of the file, relative to the venv at `home`. Python joins the names and resolves no link (site.makepath).
    """
    for line in content.splitlines():
        path = line.rstrip()
        if names_path(path) and not path.startswith(b"/") and leaves(folder, os.fsdecode(path)):
            yield path, os.fsencode(os.path.normpath(f"{home}/{folder}/{os.fsdecode(path)}"))


def with_lines(content: bytes, lines: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a text in which each of those whole lines is replaced."""
    new = dict(lines)
    made = []
    for line in content.splitlines(keepends=True):
        path = line.rstrip()
        made.append(new[path] + line[len(path) :] if path in new else line)
    return b"".join(made)


def names_path(line: bytes) -> bool:
    """Tell a line of a .pth file that is a path from code and remarks."""
    return bool(line) and not line.startswith((b"#", b"import ", b"import\t"))
