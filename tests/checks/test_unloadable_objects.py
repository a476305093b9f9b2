"""Compiled files of the recorded size that the real loader refuses: what it says, and that the command fixes."""

import struct
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_cuda import host_without_cache, object_bytes, real_error
from tests.factories.make_venv import Venv, make_venv, rewrite
from tests.factories.make_wheel import make_wheel

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
MODULE = f"thing/_thing{SUFFIX}"
LIBRARY = "thing.libs/libhelper.so.1"
SOURCE = """
extern void *PyModuleDef_Init(void *);
static struct { long head[5]; const char *name; void *doc; long size; void *rest[5]; } module = {{1}, "_thing"};
void *PyInit__thing(void) { return PyModuleDef_Init(&module); }
"""


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    stubs = {"libhelper.so.1": ("helped",)}
    files = {
        "thing/__init__.py": "",
        MODULE: object_bytes(f"_thing{SUFFIX}", stubs=stubs, runpath="$ORIGIN/../thing.libs", source=SOURCE),
        LIBRARY: object_bytes("libhelper.so.1", exports=["helped"]),
    }
    return make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1.0", files=files))


def _zeros(data: bytes) -> bytes:
    return bytes(len(data))


def _at(offset: int, value: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data[:offset] + value + data[offset + len(value) :]


def _without_dynamic(data: bytes) -> bytes:
    changed = bytearray(data)
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(table, table + size * count, size):
        if struct.unpack_from("<I", data, at)[0] == 2:
            struct.pack_into("<I", changed, at, 0)
    return bytes(changed)


DAMAGES = {
    "zeros": (_zeros, "invalid ELF header"),
    "another machine": (_at(18, b"\xb7\x00"), "it was built for another machine"),
    "32 bits": (_at(4, b"\x01"), "wrong ELF class: ELFCLASS32"),
    "no dynamic section": (_without_dynamic, "object file has no dynamic section"),
}


@pytest.mark.skipif(sys.platform != "linux" or struct.calcsize("P") != 8, reason="the damages are of 64-bit ELF files")
@pytest.mark.parametrize("path", [MODULE, LIBRARY], ids=["a module", "a library it needs"])
@pytest.mark.parametrize("name", DAMAGES)
def test_it_is_told_from_the_header_and_the_command_mends(venv: Venv, tmp_path: Path, name: str, path: str) -> None:
    change, said = DAMAGES[name]
    host = host_without_cache(tmp_path / "home", UV_CACHE_DIR=str(tmp_path / ".uv-cache"))
    assert real_error(venv, "import thing._thing", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()
    at = venv.site_packages / path
    rewrite(at, change(at.read_bytes()))
    real = real_error(venv, "import thing._thing", host)
    assert real.startswith("ImportError: ")
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [f"error ED311 {path} of thing 1.0 cannot be loaded: {said}"]
    # Of a library without a dynamic section the real one names no folder.
    assert verdict.findings[0].evidence[0].endswith(real.rpartition(": ")[2])
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package thing thing==1.0"
    ]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert real_error(venv, "import thing._thing", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()


def test_passes_ed311_what_is_no_module_of_this_python(tmp_path: Path) -> None:
    files = {"thing/__init__.py": "", "thing/linker_script.so": "INPUT(-lm)", "thing/data/libdata.so": "no object"}
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1.0", files=files))
    assert verdict_of(venv.prefix).findings == ()


def test_finds_ed311_under_the_size_that_tells_it_first(venv: Venv, tmp_path: Path) -> None:
    rewrite(venv.site_packages / MODULE, "text in its place")
    assert outline(verdict_of(venv.prefix, host_without_cache(tmp_path / "home")), tmp_path) == [
        "error ED202 thing 1.0: 1 of 10 files changed",
        f"  error ED311 {MODULE} of thing 1.0 cannot be loaded: file too short",
    ]
