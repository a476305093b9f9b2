"""The host's share of a search: what ld.so has built in, against what ld.so itself reports."""

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.elf.reader import read
from envdoctor.errors import ElfError
from envdoctor.loader.disk import Disk
from envdoctor.loader.host import glibc_version, hardware_subdirectories, search_roots, system_directories
from envdoctor.loader.search import expand, split_library_path, split_preload
from tests.factories.make_elf import make_program
from tests.unit.loader.real_loader import cpu_flags, host_roots

INTERPRETER = str(read(sys.executable).interpreter)
V2 = {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}
V3 = V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def diagnostics() -> dict[str, str]:
    """Return what `ld.so --list-diagnostics` says."""
    text = subprocess.run([INTERPRETER, "--list-diagnostics"], check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r'^([^=\n]+)="?([^"\n]*)"?$', text, re.MULTILINE))


def test_the_default_directories_are_those_of_this_loader() -> None:
    said = [value.rstrip("/") for key, value in diagnostics().items() if key.startswith("path.system_dirs")]
    assert list(system_directories(INTERPRETER)) == said


def test_a_file_without_default_directories_is_refused(tmp_path: Path) -> None:
    path = make_program(tmp_path / "program")
    with pytest.raises(ElfError) as caught:
        system_directories(str(path))
    reason = "the loader's default directories cannot be read; it may not be glibc's"
    assert caught.value.message == f"{path}: {reason}"


def test_platform_and_levels_are_those_of_this_loader() -> None:
    said = diagnostics()
    roots = host_roots({}, Path("/"), Disk())
    assert roots.platform == said["dl_platform"]
    active = int(said["dl_hwcaps_subdirs_active"], 16)
    # The lowest bit stands for the first name (dl_hwcaps_subdirs_build_bitmask), which is the best level.
    levels = [name for bit, name in enumerate(said["dl_hwcaps_subdirs"].split(":")) if active >> bit & 1]
    ours = [item.removeprefix("glibc-hwcaps/") for item in roots.hwcaps if item.startswith("glibc-hwcaps/")]
    assert ours == levels


def test_the_whole_search_path_is_the_one_the_loader_prints(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import ctypes; ctypes.CDLL('libnowhere.so')"]
    env = {"LD_DEBUG": "libs", "LD_LIBRARY_PATH": str(tmp_path)}
    text = subprocess.run(command, env=env, check=False, capture_output=True, text=True).stderr
    line = re.search(r"find library=libnowhere.so.*?search path=(\S+)\s+\(LD_LIBRARY_PATH\)", text, re.DOTALL)
    assert line is not None
    printed = list(dict.fromkeys(line[1].split(":")))
    roots = search_roots(sys.executable, cpu_flags=cpu_flags())
    whole = [f"{tmp_path}/{item}" for item in roots.hwcaps] + [str(tmp_path)]
    # The loader drops a subdirectory for good once it has found that it does not exist.
    assert printed == [item for item in whole if item in printed]
    assert printed[-1] == str(tmp_path)
    first = re.search(r"search path=(\S+)\s+\(LD_LIBRARY_PATH\)", text)
    assert first is not None
    # Where the platform is called x86_64 as well, the loader looks into some of them twice.
    assert list(dict.fromkeys(first[1].split(":"))) == whole


def test_the_glibc_version_is_the_running_one() -> None:
    roots = host_roots({}, Path("/"), Disk())
    assert ".".join(map(str, glibc_version(roots, Disk()))) == platform.libc_ver()[1]


@pytest.mark.parametrize(
    ("flags", "glibc", "expected"),
    [
        (V4, (2, 40), ("glibc-hwcaps/x86-64-v4", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2")),
        (V3, (2, 40), ("glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2")),
        (V4 - {"ssse3"}, (2, 40), ()),
        (set(), (2, 40), ()),
        (V2, (2, 28), ("tls/x86_64/x86_64", "tls/x86_64", "tls", "x86_64/x86_64", "x86_64")),
        # Of the same flags on another vendor's processor glibc makes nothing.
        (V4 | {"AuthenticAMD"}, (2, 28), ("tls/x86_64/x86_64", "tls/x86_64", "tls", "x86_64/x86_64", "x86_64")),
        (
            V3 | {"GenuineIntel"},
            (2, 28),
            (
                "tls/haswell/x86_64",
                "tls/haswell",
                "tls/x86_64",
                "tls",
                "haswell/x86_64",
                "haswell",
                "x86_64",
            ),
        ),
    ],
    ids=["v4", "v3", "v4 without ssse3", "none", "v2 on 2.28", "AMD's v4 on 2.28", "Intel's v3 on 2.28"],
)
def test_levels_by_flags_and_version(flags: set[str], glibc: tuple[int, int], expected: tuple[str, ...]) -> None:
    assert hardware_subdirectories(flags, glibc) == expected


@pytest.mark.parametrize(
    ("value", "elements"),
    [
        ("", ()),
        (":", ("", "")),
        ("/a:/b", ("/a", "/b")),
        ("/a;/b:", ("/a", "/b", "")),
        ("/cuda-12.1/lib64:", ("/cuda-12.1/lib64", "")),
    ],
)
def test_library_path_elements(value: str, elements: tuple[str, ...]) -> None:
    assert split_library_path(value) == elements


@pytest.mark.parametrize(("value", "names"), [("", ()), (" a.so  /b/c.so:d.so ", ("a.so", "/b/c.so", "d.so"))])
def test_preload_names(value: str, names: tuple[str, ...]) -> None:
    assert split_preload(value) == names


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$ORIGIN/../x", "/o/../x"),
        ("${ORIGIN}", "/o"),
        ("/a/$LIB/${LIB}/b", "/a/lib64/lib64/b"),
        ("$PLATFORM", "x86_64"),
        ("$LIBRARY:$ORIGINAL", "$LIBRARY:$ORIGINAL"),
        ("$HOME/lib", "$HOME/lib"),
        ("plain", "plain"),
    ],
)
def test_tokens(text: str, expanded: str) -> None:
    assert expand(text, "/o", search_roots(sys.executable)).replace("lib/x86_64-linux-gnu", "lib64") == expanded
