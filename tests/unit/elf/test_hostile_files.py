"""Files that lie: whatever the bytes are, a reader answers or says why not, soon and without much memory."""

import os
import resource
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envdoctor.elf.reader import read
from envdoctor.elf.symbols import SymbolTable, first_relocated
from envdoctor.errors import ElfError
from envdoctor.loader.binding import Binder
from envdoctor.loader.disk import Disk
from envdoctor.loader.graph import Loader
from envdoctor.loader.ldcache import parse_cache
from envdoctor.loader.search import SearchRoots
from envdoctor.loader.torch_init import parse_init
from tests.factories.make_elf import dynamic_slots, make_shared, patched

MANY = settings(
    max_examples=int(os.environ.get("ENVDOCTOR_FUZZ_EXAMPLES", "200")),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@contextmanager
def bounded(seconds: int = 20) -> Iterator[None]:
    """End a test that hangs, and one that asks for more than another 512 MB."""

    def stop(*_: object) -> None:
        raise AssertionError("it hangs")

    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    previous = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + (512 << 20), before[1]))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, previous)


def use_everything(path: Path) -> int:
    """Read a file in every way there is; return how many ways were refused."""
    refused = 0
    try:
        read(str(path))
    except ElfError:
        refused += 1
    try:
        table = SymbolTable(str(path))
        for symbol in table.undefined():
            table.defines(symbol.name, symbol.version)
        for exported in table.exported():
            table.defines(exported.name, exported.version)
        table.defines("nothing", "NOTHING_1")
    except ElfError:
        refused += 1
    with suppress(ElfError):
        first_relocated(str(path), [1, 2, 3])
    loader = Loader(SearchRoots(), Disk(), binder=Binder())
    loader.start(str(path))
    loader.open(str(path))
    return refused


@pytest.fixture(scope="module")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("specimen")
    low = make_shared(folder / "liblow.so", exports=["low_one", "low_two"], version="LOW_1")
    return make_shared(
        folder / "libtop.so",
        needed=[low],
        undefined=["low_one", "low_two"],
        exports=["top_one", "top_two", "top_three"],
        version="TOP_1",
        runpath="$ORIGIN:/opt/lib",
        flags=["-s"],
    )


@pytest.mark.property
@MANY
@given(data=st.data())
def test_mutated_bytes(specimen: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = specimen.read_bytes()
    # Most of the file is code and padding; what decides is in the headers, the tables and the strings.
    heads = st.integers(0, 0x1000) | st.integers(0x2D00, 0x3200) | st.integers(0, len(content) - 9)
    value = st.binary(min_size=1, max_size=8) | st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f", b"\1"])
    changes = data.draw(st.dictionaries(heads, value, min_size=1, max_size=6))
    with bounded():
        use_everything(patched(specimen, tmp_path / "libodd.so", changes))


@pytest.mark.property
@MANY
@given(data=st.data())
def test_dynamic_entries_that_lie(specimen: Path, tmp_path: Path, data: st.DataObject) -> None:
    slots = dynamic_slots(specimen)
    edges = [0, 1, 8, 0xFFF, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1]
    numbers = st.sampled_from(edges) | st.integers(0, 1 << 64)
    changes = {}
    for offset, tag, value in data.draw(st.lists(st.sampled_from(slots), min_size=1, max_size=4)):
        new_tag = data.draw(st.sampled_from([tag, *(other for _, other, _ in slots)]))
        new_value = data.draw(numbers | st.just(value)) & 0xFFFFFFFFFFFFFFFF
        changes[offset] = struct.pack("<QQ", new_tag, new_value)
    with bounded():
        use_everything(patched(specimen, tmp_path / "libodd.so", changes))


def test_every_truncation(specimen: Path, tmp_path: Path) -> None:
    content = specimen.read_bytes()
    path = tmp_path / "libshort.so"
    refused = 0
    with bounded(120):
        for length in [*range(0, 0x1200, 16), *range(0x1200, len(content), 97)]:
            path.write_bytes(content[:length])
            refused += use_everything(path) > 0
    assert refused > 300
    assert use_everything(specimen) == 0


@pytest.mark.property
@MANY
@given(content=st.binary(max_size=600))
def test_any_bytes_after_a_plausible_head(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "libnoise.so"
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQ", 3, 62, 1, 0, 64, 0) + content)
    with bounded():
        use_everything(path)


def test_a_huge_sparse_file_costs_nothing(specimen: Path, tmp_path: Path) -> None:
    path = patched(specimen, tmp_path / "libhuge.so", {})
    os.truncate(path, 1 << 40)
    with bounded():
        assert use_everything(path) == 0


def test_a_string_table_that_claims_to_be_huge(specimen: Path, tmp_path: Path) -> None:
    offset = next(at for at, tag, _ in dynamic_slots(specimen) if tag == 10)
    path = patched(specimen, tmp_path / "libodd.so", {offset: struct.pack("<QQ", 10, 1 << 40)})
    os.truncate(path, 1 << 41)
    with bounded(), pytest.raises(ElfError) as caught:
        SymbolTable(str(path))
    assert caught.value.message == f"{path}: a table of {1 << 40} bytes is not plausible"


def test_version_records_that_run_in_a_circle_end(specimen: Path, tmp_path: Path) -> None:
    content = specimen.read_bytes()
    address = next(value for _, tag, value in dynamic_slots(specimen) if tag == 0x6FFFFFFE)
    # vn_next of 2^32 - 16 would come back to where it started if offsets were added in 32 bits.
    path = patched(specimen, tmp_path / "libodd.so", {address + 12: struct.pack("<I", (1 << 32) - 16)})
    assert struct.unpack_from("<H", content, address)[0] == 1
    with bounded(), pytest.raises(ElfError) as caught:
        read(str(path))
    assert caught.value.message == f"{path}: its version records are not plausible"


def test_a_hash_chain_that_never_ends(tmp_path: Path) -> None:
    path = make_shared(tmp_path / "liblow.so", exports=["one", "two"], flags=["-Wl,--hash-style=sysv"])
    address = next(value for _, tag, value in dynamic_slots(path) if tag == 4)
    buckets, count = struct.unpack_from("<II", path.read_bytes(), address)
    loop = {address + 8 + 4 * index: struct.pack("<I", 1) for index in range(buckets + count)}
    table = SymbolTable(str(patched(path, tmp_path / "libodd.so", loop)))
    with bounded():
        assert not table.defines("nothing_of_that_name")


def test_a_name_that_is_no_text_survives(tmp_path: Path) -> None:
    path = make_shared(tmp_path / "libname.so", soname="libXXXX.so")
    odd = patched(path, tmp_path / "libodd.so", {path.read_bytes().index(b"XXXX"): b"\xff\xfe\x80\x01"})
    soname = read(str(odd)).soname
    assert soname is not None
    assert soname.encode("utf-8", "surrogateescape") == b"lib\xff\xfe\x80\x01.so"


@pytest.mark.property
@MANY
@given(noise=st.binary(max_size=400), head=st.sampled_from([b"glibc-ld.so.cache1.1", b"ld.so-1.7.0\0", b""]))
def test_any_loader_cache(noise: bytes, head: bytes) -> None:
    with bounded(), suppress(ElfError):
        cache = parse_cache(head + noise, "cache")
        assert [cache.entries(name) for name in cache.rows]


@pytest.mark.property
@MANY
@given(noise=st.text(max_size=300))
def test_any_init_text(noise: str) -> None:
    with bounded():
        parse_init("def _preload_cuda_deps(err):\n" + noise + "\ndef _load_global_deps():\n" + noise)
