"""Symbols against pyelftools on real objects, and lookups against dlsym and dlvsym of the real loader."""

import ctypes
import ctypes.util
from itertools import islice
from pathlib import Path

import pytest

from envdoctor.elf import strings
from envdoctor.elf.symbol_hash import gnu_hash, sysv_hash
from envdoctor.elf.symbols import SymbolTable, first_relocated
from envdoctor.errors import ElfError
from tests.factories.make_elf import make_program, make_shared, make_stub
from tests.unit.elf.oracles import shared_objects, symbols_by_pyelftools, undefined_by_readelf

OBJECTS = shared_objects()
SMALL = [path for path in OBJECTS if path.stat().st_size < 400_000]
SAMPLE = SMALL[:: max(1, len(SMALL) // 40)] + [path for path in OBJECTS if path.name in {"libc10.so", "libc.so.6"}]


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.name)
def test_symbols_are_those_pyelftools_reads(path: Path) -> None:
    table = SymbolTable(str(path))
    theirs = symbols_by_pyelftools(path)
    undefined = [(symbol.name, symbol.weak, symbol.version) for symbol in table.undefined()]
    assert undefined == [
        (name, binding == "STB_WEAK", version) for name, binding, state, version, _ in theirs if state == "undefined"
    ]
    exported = {(symbol.name, symbol.version, symbol.default) for symbol in table.exported()}
    defined = {(name, version, not hidden) for name, _, state, version, hidden in theirs if state == "defined"}
    # Linker marks and symbols without a value are there too; a lookup ends at none of them.
    assert exported <= defined
    assert {item for item in defined - exported if not table.defines(item[0], item[1])} == defined - exported


@pytest.mark.torch_stack
@pytest.mark.parametrize("name", ["libtorch_cpu.so", "libtorch_python.so", "libc10.so", "libarrow.so"])
def test_large_objects_need_what_readelf_prints(name: str) -> None:
    path = next(item for item in OBJECTS if item.name.startswith(name))
    needed = [(symbol.name, symbol.version) for symbol in SymbolTable(str(path)).undefined()]
    assert needed == undefined_by_readelf(path)
    assert len(needed) > 100


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.name)
def test_every_exported_symbol_is_found_by_its_hash(path: Path) -> None:
    table = SymbolTable(str(path))
    for symbol in islice(table.exported(), 3000):
        assert table.defines(symbol.name, symbol.version), symbol
        if symbol.default:
            assert table.defines(symbol.name), symbol
    assert not table.defines("no_such_symbol_anywhere")


@pytest.mark.parametrize("path", SAMPLE[::4], ids=lambda path: path.name)
def test_a_string_table_that_is_too_large_to_hold_says_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = SymbolTable(str(path))
    monkeypatch.setattr(strings, "HELD", 64)
    pieced = SymbolTable(str(path))
    assert list(pieced.undefined()) == list(held.undefined())
    exported = list(islice(held.exported(), 1000))
    assert list(islice(pieced.exported(), 1000)) == exported
    assert all(pieced.defines(symbol.name, symbol.version) for symbol in exported)
    assert not pieced.defines("no_such_symbol_anywhere")


def test_a_large_string_table_whose_file_goes_or_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["e" * 60_000, "b"]
    made = make_shared(tmp_path / "liblong.so", exports=names)
    monkeypatch.setattr(strings, "HELD", 64)
    assert sorted(symbol.name for symbol in SymbolTable(str(made)).exported()) == sorted(names)
    table = SymbolTable(str(made))
    made.write_bytes(b"")
    assert not table.defines(names[0])
    made.unlink()
    with pytest.raises(ElfError) as caught:
        table.defines(names[0])
    assert caught.value.message == f"{made}: cannot open shared object file: No such file or directory"


def test_lookups_in_libc_are_those_of_dlsym_and_dlvsym() -> None:
    path = ctypes.util.find_library("c")
    assert path is not None
    libc = ctypes.CDLL(path)
    libc.dlvsym.restype = libc.dlsym.restype = ctypes.c_void_p
    libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    libc.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    table = SymbolTable(next(str(item) for item in OBJECTS if item.name == "libc.so.6"))
    names = ["memcpy", "printf", "pthread_create", "dlopen", "realpath", "no_such_thing", "errno"]
    versions = ["GLIBC_2.2.5", "GLIBC_2.14", "GLIBC_2.34", "GLIBC_2.99", "GLIBC_PRIVATE"]
    for name in names:
        real = libc.dlsym(libc._handle, name.encode()) is not None
        assert table.defines(name) == real, name
        for version in versions:
            real = libc.dlvsym(libc._handle, name.encode(), version.encode()) is not None
            assert table.defines(name, version) == real, (name, version)


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_each_hash_table_finds_what_is_there(style: str, tmp_path: Path) -> None:
    names = [f"function_{index}" for index in range(200)]
    path = make_shared(tmp_path / "libmany.so", exports=names, flags=[f"-Wl,--hash-style={style}"])
    table = SymbolTable(str(path))
    assert [name for name in names if not table.defines(name)] == []
    assert [name for name in names if table.defines(name + "_")] == []
    assert {symbol.name for symbol in table.exported()} >= set(names)


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_an_object_that_exports_nothing_still_has_its_needs_read(style: str, tmp_path: Path) -> None:
    low = make_shared(tmp_path / "liblow.so", exports=["low"], version="LOW_1")
    hide = "{ local: *; };"
    (tmp_path / "map").write_text(hide)
    flags = [f"-Wl,--hash-style={style}", f"-Wl,--version-script={tmp_path}/map"]
    top = make_shared(tmp_path / "libtop.so", needed=[low], undefined=["low"], flags=flags)
    table = SymbolTable(str(top))
    assert list(table.exported()) == []
    assert ("low", "LOW_1", "liblow.so") in {(item.name, item.version, item.file) for item in table.undefined()}


def test_versions_decide(tmp_path: Path) -> None:
    versioned = SymbolTable(str(make_shared(tmp_path / "libnew.so", exports=["feature"], version="NEW_2")))
    plain = SymbolTable(str(make_shared(tmp_path / "libold.so", exports=["feature"])))
    answers = [
        (versioned.defines("feature", "NEW_2"), versioned.defines("feature", "NEW_1"), versioned.defines("feature")),
        (plain.defines("feature", "NEW_2"), plain.defines("feature", "NEW_1"), plain.defines("feature")),
    ]
    assert answers == [(True, False, True), (True, True, True)]


def test_two_versions_of_one_symbol(tmp_path: Path) -> None:
    source = (
        "int old_f(void) { return 1; }\nint new_f(void) { return 2; }\n"
        '__asm__(".symver old_f,f@V_1");\n__asm__(".symver new_f,f@@V_2");\n'
    )
    (tmp_path / "map").write_text("V_1 { global: f; local: *; };\nV_2 { global: f; } V_1;\n")
    flags = [f"-Wl,--version-script={tmp_path}/map"]
    table = SymbolTable(str(make_shared(tmp_path / "libtwo.so", source=source, flags=flags)))
    found = {(item.version, item.default) for item in table.exported() if item.name == "f"}
    assert found == {("V_1", False), ("V_2", True)}
    assert [table.defines("f", version) for version in (None, "V_1", "V_2", "V_3")] == [True, True, True, False]


def test_weak_and_strong_needs(tmp_path: Path) -> None:
    stub = make_stub(tmp_path, "liblow.so", exports=["strong_one", "weak_one"])
    path = make_shared(tmp_path / "libtop.so", needed=[stub], undefined=["strong_one"], weak=["weak_one"])
    found = {item.name: item.weak for item in SymbolTable(str(path)).undefined()}
    assert (found["strong_one"], found["weak_one"]) == (False, True)


def test_the_first_relocated_symbol_is_the_one_the_loader_names(tmp_path: Path) -> None:
    stub = make_stub(tmp_path, "liblow.so", exports=["zeta", "alpha", "middle"])
    make_shared(tmp_path / "liblow.so")
    path = make_shared(tmp_path / "libtop.so", needed=[stub], undefined=["zeta", "alpha", "middle"], runpath="$ORIGIN")
    with pytest.raises(OSError, match="undefined symbol") as caught:
        ctypes.CDLL(str(path))
    missing = {item.row: item.name for item in SymbolTable(str(path)).undefined() if not item.weak}
    first = first_relocated(
        str(path), [index for index, name in missing.items() if name in {"zeta", "alpha", "middle"}]
    )
    assert first is not None
    assert str(caught.value) == f"{path}: undefined symbol: {missing[first]}"


def test_hashes_of_the_documented_examples() -> None:
    # From the gABI's text and from glibc's own table of names.
    assert [sysv_hash(name) for name in (b"", b"printf", b"exit")] == [0, 0x077905A6, 0x0006CF04]
    assert [gnu_hash(name) for name in (b"", b"printf", b"exit")] == [0x1505, 0x156B2BB8, 0x7C967E3F]
    assert gnu_hash("é".encode()) == gnu_hash(b"\xc3\xa9")


def test_a_static_program_has_no_table(tmp_path: Path) -> None:
    path = make_program(tmp_path / "static", flags=["-static"])
    with pytest.raises(ElfError) as caught:
        SymbolTable(str(path))
    assert caught.value.message == f"{path}: object file has no dynamic symbol table"
