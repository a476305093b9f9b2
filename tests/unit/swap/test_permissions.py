"""ACLs and SELinux labels of an old venv, on the new one; modes and groups are in tests/integration/test_restore.py."""

import errno
import os
import stat
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from envdoctor.swap.permissions import carry_over

ACCESS, DEFAULT, LABEL = "system.posix_acl_access", "system.posix_acl_default", "security.selinux"
# linux/posix_acl.h and posix_acl_xattr.h: version 2, then (tag, permissions, id) of each entry.
USER_OBJ, USER, GROUP_OBJ, MASK, OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
NOBODY = 0xFFFFFFFF
READER = 54321


def _acl(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


# u::rwx, u:54321:r-x, g::---, m::r-x, o::---
SHARED = _acl((USER_OBJ, 7, NOBODY), (USER, 5, READER), (GROUP_OBJ, 0, NOBODY), (MASK, 5, NOBODY), (OTHER, 0, NOBODY))


def _entries(path: Path, name: str = ACCESS) -> Sequence[tuple[int, ...]]:
    return list(struct.iter_unpack("<HHI", os.getxattr(path, name)[4:]))


@pytest.fixture
def venvs(tmp_path: Path) -> tuple[Path, Path]:
    """Make an old folder, and a new one that a narrow umask made: a private file, an open one, one of a cache."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir(mode=0o700)
    for path in (new / "lib", tmp_path / "cache"):
        path.mkdir(parents=True, mode=0o700)
    new.chmod(0o700)
    for name, mode in (("private.py", 0o600), ("open.py", 0o644), ("tool", 0o700)):
        (new / "lib" / name).write_text("x = 1\n")
        (new / "lib" / name).chmod(mode)
    (tmp_path / "cache/linked.py").write_text("x = 2\n")
    (tmp_path / "cache/linked.py").chmod(0o600)
    os.link(tmp_path / "cache/linked.py", new / "lib/linked.py")
    (new / "lib/link.py").symlink_to("open.py")
    return old, new


def _give(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EPERM):
            raise
        pytest.skip(f"{name} cannot be set here: {error.strerror}")


def test_who_an_acl_lets_in_is_let_into_the_new_venv(venvs: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = venvs
    _give(old, ACCESS, SHARED)
    _give(old, DEFAULT, SHARED)
    carry_over(old, new)
    for folder in (new, new / "lib"):
        assert os.getxattr(folder, ACCESS) == os.getxattr(folder, DEFAULT) == SHARED
    lib = new / "lib"
    masks = {name: [entry[1] for entry in _entries(lib / name) if entry[0] == MASK] for name in ("private.py", "tool")}
    # A file of data is read, a program is started, and neither can be written into.
    assert masks == {"private.py": [4], "tool": [5]}
    assert (USER, 5, READER) in _entries(lib / "linked.py")
    assert ACCESS not in os.listxattr(lib / "open.py"), "everybody may read it anyway"
    cached = (tmp_path / "cache/linked.py").stat()
    assert (stat.S_IMODE(cached.st_mode), cached.st_nlink) == (0o600, 1), "the cache's file is as it was"
    assert (lib / "linked.py").read_text() == "x = 2\n"
    assert not [path for path in lib.iterdir() if "envdoctor-copy" in path.name]


def test_a_venv_without_acls_gets_none(venvs: tuple[Path, Path]) -> None:
    old, new = venvs
    carry_over(old, new)
    assert [os.listxattr(path) for path in (new, *new.rglob("*")) if not path.is_symlink()] == [[]] * 6


def test_the_label_of_the_old_venv_is_the_new_ones(venvs: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = venvs
    label = b"system_u:object_r:container_file_t:s0\0"
    _give(old, LABEL, label)
    carry_over(old, new)
    assert {path: os.getxattr(path, LABEL) for path in (new, new / "lib", new / "lib/open.py")} == dict.fromkeys(
        (new, new / "lib", new / "lib/open.py"), label
    )
    assert LABEL not in os.listxattr(tmp_path / "cache/linked.py")
