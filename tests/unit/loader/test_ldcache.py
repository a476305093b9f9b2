"""The parser of ld.so.cache against ldconfig, which writes such files in every format, and prints them."""

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from envdoctor.errors import ElfError
from envdoctor.loader.ldcache import NEW_MAGIC, NO_CACHE, LoaderCache, parse_cache, read_cache
from tests.factories.make_elf import make_shared

LDCONFIG = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin") or "ldconfig"
X86_64 = 0x0303
LINE = re.compile(r"^\t(\S+) \((.*)\) => (.+)$", re.MULTILINE)


def make_cache(folder: Path, style: str, *directories: Path) -> Path:
    configuration = folder / "ld.so.conf"
    configuration.write_text("".join(f"{directory}\n" for directory in directories))
    cache = folder / "ld.so.cache"
    command = [LDCONFIG, "-X", "-c", style, "-C", str(cache), "-f", str(configuration)]
    subprocess.run(command, check=True, capture_output=True)
    return cache


def printed(cache: Path) -> list[tuple[str, str]]:
    text = subprocess.run([LDCONFIG, "-p", "-C", str(cache)], check=True, capture_output=True, text=True).stdout
    return sorted((name, path) for name, _, path in LINE.findall(text))


def read_out(cache: LoaderCache) -> list[tuple[str, str]]:
    return sorted((entry.soname, entry.path) for name in cache.rows for entry in cache.entries(name))


def test_this_hosts_cache_is_what_ldconfig_prints() -> None:
    cache = Path("/etc/ld.so.cache")
    assert read_out(read_cache(str(cache))) == printed(cache)


@pytest.mark.parametrize("style", ["new", "compat", "old"])
def test_each_format(style: str, tmp_path: Path) -> None:
    make_shared(tmp_path / "one/libalpha.so.1")
    make_shared(tmp_path / "two/libalpha.so.1")
    make_shared(tmp_path / "two/libbeta.so.2")
    path = make_cache(tmp_path, style, tmp_path / "one", tmp_path / "two")
    assert path.read_bytes().startswith(NEW_MAGIC if style == "new" else b"ld.so-1.7.0")
    cache = read_cache(str(path))
    assert [pair for pair in read_out(cache) if str(tmp_path) in pair[1]] == [
        ("libalpha.so.1", f"{tmp_path}/one/libalpha.so.1"),
        ("libalpha.so.1", f"{tmp_path}/two/libalpha.so.1"),
        ("libbeta.so.2", f"{tmp_path}/two/libbeta.so.2"),
    ]
    assert read_out(cache) == printed(path)
    assert cache.choose("libalpha.so.1", flags=X86_64, hwcaps=()) == f"{tmp_path}/one/libalpha.so.1"
    assert cache.choose("libgamma.so", flags=X86_64, hwcaps=()) is None
    assert cache.choose("libalpha.so.1", flags=0x0A03, hwcaps=()) is None


def test_hardware_subdirectories_in_a_cache(tmp_path: Path) -> None:
    make_shared(tmp_path / "one/libalpha.so.1")
    for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        make_shared(tmp_path / f"one/glibc-hwcaps/{level}/libalpha.so.1")
    cache = read_cache(str(make_cache(tmp_path, "new", tmp_path / "one")))
    chosen = {
        levels: cache.choose("libalpha.so.1", flags=X86_64, hwcaps=levels)
        for levels in ((), ("x86-64-v2",), ("x86-64-v3", "x86-64-v2"), ("x86-64-v4", "x86-64-v3", "x86-64-v2"))
    }
    assert {levels: path and path.removeprefix(f"{tmp_path}/one/") for levels, path in chosen.items()} == {
        (): "libalpha.so.1",
        ("x86-64-v2",): "glibc-hwcaps/x86-64-v2/libalpha.so.1",
        ("x86-64-v3", "x86-64-v2"): "glibc-hwcaps/x86-64-v3/libalpha.so.1",
        ("x86-64-v4", "x86-64-v3", "x86-64-v2"): "glibc-hwcaps/x86-64-v4/libalpha.so.1",
    }


def test_a_missing_cache_is_an_empty_one(tmp_path: Path) -> None:
    cache = read_cache(str(tmp_path / "gone"))
    assert (cache.rows, cache.choose("libc.so.6", flags=X86_64, hwcaps=())) == ({}, None)
    assert NO_CACHE.entries("libc.so.6") == ()


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (b"", "{path}: not a loader cache: it starts with b''", "run `ldconfig` to rebuild it"),
        (b"#!/bin/sh\n", "{path}: not a loader cache: it starts with b'#!/bin/sh\\n'", "run `ldconfig` to rebuild it"),
        (
            NEW_MAGIC + struct.pack("=IIB3xI", 1, 0, 3, 0) + bytes(12),
            "{path}: the loader cache was written for the other byte order",
            "run `ldconfig` to rebuild it",
        ),
        (
            NEW_MAGIC + struct.pack("=IIB3xI", 99, 0, 2, 0) + bytes(12),
            "{path}: the loader cache is truncated (99 entries need 2424 bytes, there are 48)",
            "",
        ),
    ],
    ids=["empty", "a script", "other byte order", "truncated"],
)
def test_what_is_no_cache_says_so(content: bytes, message: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "ld.so.cache"
    path.write_bytes(content)
    with pytest.raises(ElfError) as caught:
        read_cache(str(path))
    assert (caught.value.message, caught.value.hint) == (message.format(path=path), hint)


def test_every_truncation_is_an_error_or_a_smaller_cache(tmp_path: Path) -> None:
    make_shared(tmp_path / "one/glibc-hwcaps/x86-64-v2/libalpha.so.1")
    make_shared(tmp_path / "one/libalpha.so.1")
    data = make_cache(tmp_path, "new", tmp_path / "one").read_bytes()
    refused = 0
    for length in range(0, len(data), max(1, len(data) // 300)):
        try:
            cache = parse_cache(data[:length], "cache")
        except ElfError:
            refused += 1
            continue
        assert all(cache.entries(name) for name in cache.rows)
    assert refused > 200
