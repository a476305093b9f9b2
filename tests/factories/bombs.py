"""Files of at most 64 MB that are made to take all memory, or all time, of what reads them."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

from tests.factories.make_venv import Venv

MEGABYTES = 1 << 20
PT_LOAD, PT_DYNAMIC = 1, 2
DT_NEEDED, DT_STRTAB, DT_STRSZ, DT_VERNEED, DT_VERNEEDNUM = 1, 5, 10, 0x6FFFFFFE, 0x6FFFFFFF
DT_HASH, DT_SYMTAB = 4, 6


def elf(entries: list[tuple[int, int]], strings: bytes, more: bytes = b"") -> bytes:
    """Return a shared object of three parts: dynamic entries, strings, and what follows; (tag, -1) is where that is.

    A value of -2 stands for the strings.
    """
    dynamic_at = 64 + 2 * 56
    strings_at = dynamic_at + 16 * (len(entries) + 1)
    more_at = strings_at + len(strings)
    places = {-1: more_at, -2: strings_at}
    size = more_at + len(more)
    header = b"\x7fELF\2\1\1" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    header += struct.pack("<IIQQQQQQ", PT_LOAD, 5, 0, 0, 0, size, size, 4096)
    length = 16 * (len(entries) + 1)
    header += struct.pack("<IIQQQQQQ", PT_DYNAMIC, 6, dynamic_at, dynamic_at, 0, length, length, 8)
    slots = b"".join(struct.pack("<QQ", tag, places.get(value, value)) for tag, value in (*entries, (0, 0)))
    return header + slots + strings + more


def many_needed(*, same: bool) -> bytes:
    """Return an object that asks 60,000 times for a name of 64 KB: the same, or each time another tail of it."""
    strings = b"\0" + b"a" * 65_000 + b"\0"
    needed = [(DT_NEEDED, 1 if same else 1 + at) for at in range(60_000)]
    return elf([*needed, (DT_STRTAB, -2), (DT_STRSZ, len(strings))], strings)


def many_versions() -> bytes:
    """Return an object that asks for 65,000 versions, each a tail of one name."""
    strings = b"\0lib.so\0" + b"v" * 60_000 + b"\0"
    count = 65_000
    needs = struct.pack("<HHIII", 1, count, 1, 16, 0)
    needs += b"".join(struct.pack("<IHHII", 0, 0, at + 2, 8 + at % 60_000, 16) for at in range(count))
    entries = [(DT_STRTAB, -2), (DT_STRSZ, len(strings)), (DT_VERNEED, -1), (DT_VERNEEDNUM, 1)]
    return elf(entries, strings, needs)


def many_symbols() -> bytes:
    """Return an object whose 1,000,000 symbols each have another tail of a name of 8 MB."""
    strings = b"\0" + b"s" * (8 * MEGABYTES) + b"\0"
    count = 1_000_000
    row = struct.Struct("<IBBHQQ")
    symbol_table = b"".join(row.pack(1 + at, 0x12, 0, 0, 0, 0) for at in range(count))
    table = struct.pack("<II", 1, count) + struct.pack("<I", 1) + struct.pack("<I", 0) * count
    entries = [(DT_STRTAB, -2), (DT_STRSZ, len(strings)), (DT_HASH, -1), (DT_SYMTAB, 0)]
    made = bytearray(elf(entries, strings, table + symbol_table))
    # The symbols are behind the hash table.
    at = made.index(struct.pack("<QQ", DT_SYMTAB, 0))
    made[at : at + 16] = struct.pack("<QQ", DT_SYMTAB, len(made) - len(symbol_table))
    return bytes(made)


def _record(piece: bytes, times: int) -> Callable[[Venv], None]:
    return lambda venv: _replace(_info(venv) / "RECORD", piece * times)


def _many_rows(venv: Venv) -> None:
    _replace(_info(venv) / "RECORD", b"".join(b"thing/%d.py,,\n" % at for at in range(1_000_000)))


def _info(venv: Venv) -> Path:
    return venv.site_packages / "thing-1.0.dist-info"


def _replace(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def _objects(content: Callable[[], bytes]) -> Callable[[Venv], None]:
    def place(venv: Venv) -> None:
        made = content()
        for name in ("torch/_C.abi3.so", "torch/lib/libtorch_python.so", "torch/lib/libtorch_global_deps.so"):
            _replace(venv.site_packages / name, made)

    return place


def _many_records(venv: Venv) -> None:
    for at in range(20):
        info = venv.site_packages / f"many{at}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: many{at}\nVersion: 1.0\n")
        (info / "RECORD").write_bytes(b"x" * (3 * MEGABYTES) + b",,\n")


def _path_file(venv: Venv) -> None:
    folders = venv.prefix / "many"
    folders.mkdir()
    for at in range(3000):
        (folders / str(at)).mkdir()
    (venv.site_packages / "extra.pth").write_text("".join(f"{folders}/{at}\n" for at in range(3000)))


def _requirements(venv: Venv) -> None:
    lines = "".join(f"Requires-Dist: a{at}>=1\n" for at in range(180_000))
    _replace(_info(venv) / "METADATA", f"Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n{lines}".encode())


def _each(venv: Venv, times: int, name: str, content: Callable[[int], bytes]) -> None:
    """Put one file into so many metadata folders: a limit for each of them is none."""
    for at in range(times):
        info = venv.site_packages / f"many{at}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: many{at}\nVersion: 1.0\n")
        (info / "RECORD").touch()
        (info / name).write_bytes(content(at))


def _deep_paths(at: int) -> bytes:
    return b"".join(
        b"%d-%d/%sx.py,sha256=%s,1\n" % (at, row, b"x/" * 190 + b"y" * 2000 + b"/", b"a" * 43) for row in range(4000)
    )


def _long_rows(at: int) -> bytes:
    return b"".join(b"%d-%d/%s.py,sha256=%s,1\n" % (at, row, b"x" * 60, b"a" * 43) for row in range(63_000))


def _path_files(venv: Venv) -> None:
    for at in range(256):
        (venv.site_packages / f"many{at}.pth").write_bytes(b"import a\n" * 28_000)


BOMBS: dict[str, Callable[[Venv], None]] = {
    "one needed name 60,000 times": _objects(lambda: many_needed(same=True)),
    "60,000 tails of one needed name": _objects(lambda: many_needed(same=False)),
    "65,000 versions": _objects(many_versions),
    "1,000,000 symbols": _objects(many_symbols),
    "RECORD of returns": _record(b"a,,\r", 8 * MEGABYTES),
    "RECORD of empty rows": _record(b"\n", 32 * MEGABYTES),
    "RECORD of quotes": _record(b'"', 32 * MEGABYTES),
    "RECORD of commas": _record(b",", 32 * MEGABYTES),
    "RECORD of 1,000,000 rows": _many_rows,
    "20 RECORDs of one path": _many_records,
    "3,000 folders in a .pth": _path_file,
    "180,000 requirements": _requirements,
    "METADATA of one line": lambda venv: _replace(_info(venv) / "METADATA", b"Name: " + b"x" * (60 * MEGABYTES)),
    "direct_url of tables": lambda venv: _replace(
        _info(venv) / "direct_url.json", b'{"url": [' + b"{}," * 20_000_000 + b"{}]}"
    ),
    "entry_points of sections": lambda venv: _replace(
        _info(venv) / "entry_points.txt", b"[console_scripts]\n" + b"a=b\n" * 8_000_000
    ),
    "16 METADATAs of headers": lambda venv: _each(venv, 16, "METADATA", lambda _: b"a:\n" * 1_300_000),
    "126 METADATAs of requirements": lambda venv: _each(
        venv, 126, "METADATA", lambda _: b"Name: x\n" + b"Requires-Dist: a>=1\n" * 25_000
    ),
    "5 RECORDs of deep paths": lambda venv: _each(venv, 5, "RECORD", _deep_paths),
    "2 RECORDs of 8 MB": lambda venv: _each(venv, 2, "RECORD", _long_rows),
    "256 WHEELs of tags": lambda venv: _each(venv, 256, "WHEEL", lambda _: b"Tag: a\n" * 37_000),
    "256 direct_urls of one URL": lambda venv: _each(
        venv, 256, "direct_url.json", lambda _: b'{"url": "https://h/' + b"a" * 250_000 + b'"}'
    ),
    "256 .pth of imports": _path_files,
    "pyvenv.cfg of keys": lambda venv: _replace(venv.prefix / "pyvenv.cfg", b"a = b\n" * 10_000_000),
    "torch/version.py of lines": lambda venv: _replace(
        venv.site_packages / "torch/version.py", b"cuda = '12.8'\n" * 4_000_000
    ),
    "torch/__init__.py of imports": lambda venv: _replace(
        venv.site_packages / "torch/__init__.py", b"import a\n" * 6_000_000
    ),
}


def fingerprint_of_tables() -> bytes:
    """Return a document of 63 MB that looks like a fingerprint's beginning."""
    head = json.dumps({"schema_version": 1})[:-1].encode()
    return head + b', "sections": [' + b"{}," * 21_000_000 + b"{}]}"
