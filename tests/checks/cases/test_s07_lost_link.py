"""The library is there under its full name and its soname's link is lost: conda's libstdc++ (and any other)."""

from pathlib import Path

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_cuda import host_without_cache, object_bytes, real_error
from tests.factories.make_elf import make_shared
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel

TITLE = "someext/ext.so of someext 1.0 needs GLIBCXX_3.4.99; libstdc++.so.6 here has"
INIT = "void *PyInit_ext(void) { return 0; }"
# $ORIGIN/../../.. of someext/ext.so is the environment's lib folder, where conda has its libraries.
SEARCHED = "$ORIGIN/../../.."


def _venv(root: Path, soname: str, symbol: str) -> Venv:
    extension = object_bytes("ext.so", stubs={soname: (symbol,)}, runpath=SEARCHED, source=INIT)
    files = {"someext/__init__.py": "from . import ext\n", "someext/ext.so": extension}
    return make_venv(root / "venv", make_wheel(root / "wheels", "someext", "1.0", files=files))


def test_s07_a_newer_one_is_found_and_linked_again(tmp_path: Path) -> None:
    venv = _venv(tmp_path, "libstdc++.so.6", "brnew@GLIBCXX_3.4.99")
    host = host_without_cache(tmp_path / "home")
    load = f"import ctypes; ctypes.CDLL('{venv.site_packages}/someext/ext.so')"
    real = real_error(venv, load, host)
    assert "version `GLIBCXX_3.4.99' not found" in real
    (alone,) = verdict_of(venv.prefix, host).findings
    assert alone.remediation.commands == ()

    make_shared(
        venv.prefix / "lib/libstdc++.so.6.0.99", soname="libstdc++.so.6", exports=["brnew"], version="GLIBCXX_3.4.99"
    )
    assert real_error(venv, load, host) == real
    verdict = verdict_of(venv.prefix, host)
    (line,) = outline(verdict, tmp_path)
    assert line.startswith(f"error ED310 {TITLE}")
    (finding,) = verdict.findings
    assert finding.evidence[-1] == "lib/libstdc++.so.6.0.99 has that version, and no link libstdc++.so.6 leads to it"
    assert commands_of(finding, tmp_path) == ["ln -s libstdc++.so.6.0.99 [TMP]/venv/lib/libstdc++.so.6"]
    mend(finding, wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert real_error(venv, load, host) == ""
    assert verdict_of(venv.prefix, host).findings == ()


def test_s07_of_a_library_that_is_nowhere_else_too(tmp_path: Path) -> None:
    venv = _venv(tmp_path, "libbrnew.so.1", "brnew_x")
    host = host_without_cache(tmp_path / "home")
    load = f"import ctypes; ctypes.CDLL('{venv.site_packages}/someext/ext.so')"
    make_shared(venv.prefix / "lib/libbrnew.so.1.0.0", soname="libbrnew.so.1", exports=["brnew_x"])
    missing = "libbrnew.so.1: cannot open shared object file: No such file or directory"
    assert real_error(venv, load, host) == f"OSError: {missing}"
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [f"warning ED307 someext/ext.so of someext 1.0 cannot be loaded: {missing}"]
    assert verdict.findings[0].evidence == (
        "lib/libbrnew.so.1.0.0 is that library, and no link libbrnew.so.1 leads to it",
        "importing someext opens it, and lets the error through",
    )
    assert commands_of(verdict.findings[0], tmp_path) == ["ln -s libbrnew.so.1.0.0 [TMP]/venv/lib/libbrnew.so.1"]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert real_error(venv, load, host) == ""
    assert verdict_of(venv.prefix, host).findings == ()
