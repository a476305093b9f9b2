"""LD_LIBRARY_PATH puts another build of a system library in front, proven by the real loader."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.factories.examine_venv import commands_of, environment_after, outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_linked_torch, object_bytes, real_error
from tests.factories.make_elf import make_shared
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel

NAME = "libhelper.so.1"
ASSERTION = (
    "Inconsistency detected by ld.so: check_match: Assertion `version->filename == NULL || ! _dl_name_match_p "
    "(version->filename, map)' failed!"
)


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    """Two extensions that ask for a version of a library whose right build is beside them."""
    files = {"thing/__init__.py": "", f"thing/{NAME}": _library(tmp_path, "good", version="HELPER_2").read_bytes()}
    for name in ("_one", "_two"):
        stubs = {NAME: ("helped@HELPER_2",)}
        files[f"thing/{name}.so"] = object_bytes(f"{name}.so", stubs=stubs, runpath="$ORIGIN")
    torch = make_linked_torch(tmp_path / "wheels", "2.11.0", "12.8", needs={})
    return make_venv(tmp_path / "venv", torch, make_wheel(tmp_path / "wheels", "thing", "1.0", files=files))


def _library(tmp_path: Path, folder: str, **options: object) -> Path:
    return make_shared(tmp_path / folder / NAME, exports=["helped"], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("exports", "version", "code", "said"),
    [
        (["helped"], None, "ED305", ASSERTION),
        (["other"], None, "ED305", "undefined symbol: helped, version HELPER_2"),
        (["helped"], "HELPER_1", "ED305", "version `HELPER_2' not found"),
    ],
    ids=["no versions at all", "not even the symbol", "an older one"],
)
def test_one_cause_for_all_that_it_breaks(
    venv: Venv, tmp_path: Path, exports: list[str], version: str | None, code: str, said: str
) -> None:
    folder = tmp_path / "old"
    # Without a libc to link against there is no table of versions.
    make_shared(folder / NAME, exports=exports, version=version, flags=["-nostdlib"])
    host = host_without_cache(tmp_path / "home", LD_LIBRARY_PATH=str(folder))
    real = real_error(venv, f"import ctypes; ctypes.CDLL('{venv.site_packages}/thing/_one.so')", host)
    # The real one names glibc's source line too.
    assert said.rpartition("check_match: ")[2] in real
    verdict = verdict_of(venv.prefix, host)
    title = f"{NAME} is taken from LD_LIBRARY_PATH ([TMP]/old/{NAME}) and lacks what this environment needs of it"
    first, *rest = outline(verdict, tmp_path)
    assert first == f"error ED602 {title}"
    assert {line.split()[1] for line in rest} == {code}
    assert all(line.startswith("  ") for line in rest)
    assert said in verdict.findings[1].evidence[0]
    assert commands_of(verdict.findings[0], tmp_path) == ["unset LD_LIBRARY_PATH"]
    mended = environment_after(replace(host), *verdict.findings[0].remediation.commands)
    assert verdict_of(venv.prefix, mended).findings == ()


def test_a_stub_of_the_same_name_lacks_a_symbol_whose_name_tells_no_library(tmp_path: Path) -> None:
    wheels, linked = tmp_path / "wheels", {"libcusparse.so.12": ()}
    stubs = {NAME: ("FLAGS_level",)}
    cusparse = object_bytes("libcusparse.so.12", stubs=stubs, runpath="$ORIGIN")
    files = {
        "thing/__init__.py": "",
        "thing/_one.so": object_bytes("_one.so", stubs=stubs, runpath="$ORIGIN/../nvidia/cusparse/lib"),
        "nvidia/cusparse/lib/libcusparse.so.12": cusparse,
        f"nvidia/cusparse/lib/{NAME}": object_bytes(NAME, exports=["FLAGS_level"]),
    }
    torch = make_linked_torch(wheels, "2.11.0", "12.8", needs=linked)
    venv = make_venv(tmp_path / "venv", torch, make_wheel(wheels, "thing", "1.0", files=files))
    stub = make_shared(tmp_path / "stub" / NAME, exports=["nothing"])
    host = host_without_cache(tmp_path / "home", LD_LIBRARY_PATH=str(stub.parent))
    raised = real_error(venv, "import torch", host)
    assert raised.endswith("/libcusparse.so.12: undefined symbol: FLAGS_level")
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        f"error ED602 {NAME} is taken from LD_LIBRARY_PATH ([TMP]/stub/{NAME}) instead of this environment",
        raised.replace("ImportError: ", "  error ED305 `import torch` fails: ").replace(str(tmp_path), "[TMP]"),
        "  error ED305 thing/_one.so of thing 1.0 cannot be imported: undefined symbol FLAGS_level",
    ]
    assert commands_of(verdict.findings[0], tmp_path) == ["unset LD_LIBRARY_PATH"]
    mended = environment_after(host, *verdict.findings[0].remediation.commands)
    assert real_error(venv, "import torch", mended) == ""
    assert verdict_of(venv.prefix, mended).findings == ()


def test_an_unversioned_library_that_is_looked_into_later_breaks_nothing(venv: Venv, tmp_path: Path) -> None:
    make_shared(tmp_path / "old" / NAME, exports=["helped"], flags=["-nostdlib"])
    first = _library(tmp_path, "first", version="HELPER_2")
    host = host_without_cache(tmp_path / "home", LD_LIBRARY_PATH=f"{first.parent}:{tmp_path / 'old'}")
    assert verdict_of(venv.prefix, host).findings == ()
