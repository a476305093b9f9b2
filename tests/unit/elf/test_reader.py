"""The reader against pyelftools and readelf on every shared object at hand, and on files that are none."""

import os
import socket
from pathlib import Path

import pytest

from envdoctor.elf.reader import ElfObject, read
from envdoctor.errors import ElfError
from tests.factories.make_elf import make_program, make_shared
from tests.unit.elf.oracles import by_pyelftools, by_readelf, shared_objects

OBJECTS = shared_objects()
MACHINES = {62: "EM_X86_64", 183: "EM_AARCH64", 3: "EM_386"}


def joined(elements: tuple[str, ...] | None) -> str | None:
    return None if elements is None else ":".join(elements)


def facts_of(elf: ElfObject) -> dict[str, object]:
    return {
        "needed": list(elf.needed),
        "soname": elf.soname,
        "rpath": joined(elf.rpath),
        "runpath": joined(elf.runpath),
        "flags": elf.flags,
        "flags_1": elf.flags_1,
        "bits": elf.bits,
        "machine": MACHINES[elf.machine],
        "interpreter": elf.interpreter,
        "needs": [(need.file, need.name) for need in elf.needs],
        "defines": None if elf.defines is None else list(elf.defines),
    }


def test_there_is_something_to_compare() -> None:
    assert len(OBJECTS) > 100


def test_every_object_reads_as_pyelftools_reads_it() -> None:
    for path in OBJECTS:
        assert facts_of(read(str(path))) == by_pyelftools(path), path


def test_every_object_reads_as_readelf_prints_it() -> None:
    for path in OBJECTS:
        elf = facts_of(read(str(path)))
        assert {key: elf[key] for key in ("needed", "soname", "rpath", "runpath")} == by_readelf(path), path


def test_a_made_object(tmp_path: Path) -> None:
    low = make_shared(tmp_path / "liblow.so.1", exports=["low"], version="LOW_1")
    top = make_shared(tmp_path / "libtop.so", needed=[low], undefined=["low"], runpath="$ORIGIN:/opt/lib:")
    elf = read(str(top))
    status = top.stat()
    assert (elf.path, elf.identity, elf.size) == (str(top), (status.st_dev, status.st_ino), status.st_size)
    assert (elf.soname, elf.needed[0], elf.rpath, elf.runpath) == (
        "libtop.so",
        "liblow.so.1",
        None,
        ("$ORIGIN", "/opt/lib", ""),
    )
    assert [(need.file, need.name, need.weak) for need in elf.needs if need.file == "liblow.so.1"] == [
        ("liblow.so.1", "LOW_1", False)
    ]
    assert read(str(low)).defines == ("liblow.so.1", "LOW_1")


def test_a_program_and_a_static_one(tmp_path: Path) -> None:
    program = read(str(make_program(tmp_path / "program")))
    assert program.interpreter is not None
    assert program.dynamic
    static = read(str(make_program(tmp_path / "static", flags=["-static"])))
    assert (static.interpreter, static.dynamic, static.needed, static.soname) == (None, False, (), None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "file too short"),
        (b"\x7fELF", "file too short"),
        (b"INPUT(libfoo.so.1)\n" * 8, "invalid ELF header"),
        (b"version https://git-lfs.github.com/spec/v1\n" * 4, "invalid ELF header"),
        (b"\x7fELF\x03\x01\x01" + bytes(64), "invalid ELF header"),
        (b"\x7fELF\x02\x05\x01" + bytes(64), "invalid ELF header"),
        (b"\x7fELF\x02\x01\x01" + bytes(45), "file too short"),
    ],
    ids=["empty", "only the magic", "linker script", "LFS pointer", "class 3", "byte order 5", "half a header"],
)
def test_what_is_no_elf_object_says_so(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "libodd.so"
    path.write_bytes(content)
    with pytest.raises(ElfError) as caught:
        read(str(path))
    assert caught.value.message == f"{path}: {reason}"


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    messages = {}
    for name in ("fifo", "folder", "loop", "socket", "gone", "/dev/null", "nul\0byte"):
        with pytest.raises(ElfError) as caught:
            read(os.path.join(tmp_path, name))  # noqa: PTH118 - Path would refuse the NUL byte first
        messages[name] = caught.value.message.removeprefix(f"{tmp_path}/")
    assert messages == {
        "fifo": "fifo: not a regular file",
        "folder": "folder: cannot read file data: Is a directory",
        "loop": "loop: cannot open shared object file: Too many levels of symbolic links",
        "socket": "socket: not a regular file",
        "gone": "gone: cannot open shared object file: No such file or directory",
        "/dev/null": "/dev/null: not a regular file",
        "nul\0byte": "nul\0byte: cannot open shared object file: embedded null byte",
    }


def test_a_symlink_is_read_through_and_keeps_its_name(tmp_path: Path) -> None:
    real = make_shared(tmp_path / "libreal.so.1.2")
    link = tmp_path / "libreal.so"
    link.symlink_to(real)
    assert read(str(link)).identity == read(str(real)).identity
    assert read(str(link)).path == str(link)
