"""Wheels as projects publish them, flaws included: what is true and breaks nothing is not an error."""

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from envdoctor.facts.host import Host
from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_linked_torch, object_bytes, real_error
from tests.factories.make_elf import make_program, make_shared, make_stub
from tests.factories.make_torch_loader import make_torch
from tests.factories.make_venv import Venv, edit_in_place, install, make_venv, run_uv, uninstall
from tests.factories.make_wheel import make_wheel

HEADER = "shared/thing.h"


def _python(venv: Venv, code: str, tmp_path: Path) -> str:
    return real_error(venv, code, host_without_cache(tmp_path / "home"))


def _wrong_about(size: int, folder: Path) -> Path:
    files = {"thing/__init__.py": "", "thing/lib/libthing.so.1": "patched after RECORD was written"}
    return make_wheel(folder, "thing", "1.0", files=files, record_sizes={"thing/lib/libthing.so.1": size})


def _host(tmp_path: Path, cache: Path | None = None) -> Host:
    return host_without_cache(tmp_path / "home", UV_CACHE_DIR=str(cache or tmp_path / ".uv-cache"))


def test_a_wheel_whose_own_record_is_wrong_is_worth_a_note(tmp_path: Path) -> None:
    for mode in ("hardlink", "copy"):
        venv = make_venv(tmp_path / mode)
        install(venv, _wrong_about(7, tmp_path / "wheels"), link_mode=mode)
        verdict = verdict_of(venv.prefix, _host(tmp_path))
        assert outline(verdict, tmp_path) == [
            "note ED202 thing 1.0 was published with a RECORD that is wrong about 1 file"
        ]
        assert (verdict.exit_code(), verdict.findings[0].remediation.commands) == (0, ())
        site = venv.site_packages.relative_to(venv.prefix)
        assert verdict.findings[0].extent == {f"published:{site}/thing/lib/libthing.so.1"}
        size, cached = verdict.findings[0].evidence
        assert size == "another size than RECORD says: thing/lib/libthing.so.1"
        start = f"uv's cache has it at this size since it unpacked that wheel: {tmp_path}/.uv-cache/archive-v"
        assert cached.startswith(start)


def test_an_edit_of_such_a_file_is_none_of_the_wheels(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", _wrong_about(7, tmp_path / "wheels"))
    with (venv.site_packages / "thing/lib/libthing.so.1").open("ab") as file:
        file.write(b" and by hand")
    assert outline(verdict_of(venv.prefix, _host(tmp_path)), tmp_path) == [
        "error ED202 thing 1.0: 1 of 9 files changed"
    ]


def test_an_edit_in_a_cache_that_was_copied_later_is_none_of_the_wheels(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "thing", "1.0", files={"thing/__init__.py": "x = 1\n"})
    venv = make_venv(tmp_path / "venv", wheel)
    (cached,) = (tmp_path / ".uv-cache").glob("archive-v*/*/thing/__init__.py")
    edit_in_place(cached, b"x = 1\ny = 2\n")
    later = time.time() + 3600
    os.utime(cached, (later, later))
    shutil.copytree(tmp_path / ".uv-cache", tmp_path / "copied", symlinks=True)
    (finding,) = verdict_of(venv.prefix, _host(tmp_path, tmp_path / "copied")).findings
    assert (finding.severity, finding.title) == ("error", "thing 1.0: 1 of 8 files changed")


def test_an_owner_that_something_requires_stays_and_the_wanted_one_is_written_last(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    torch = make_linked_torch(wheels, "2.14.0", "13.0", needs={}, requires=["bindings==13.5.0"])
    wanted = make_wheel(wheels, "bindings", "13.5.0", files={HEADER: "thirteen"})
    other = make_wheel(wheels, "old-python", "12.6", files={HEADER: "twelve", "old_python.py": ""})
    asks = make_wheel(wheels, "asks", "1", requires=["old-python>=12"])
    venv = make_venv(tmp_path / "venv", torch, wanted, asks)
    install(venv, other)
    verdict = verdict_of(venv.prefix, _host(tmp_path))
    assert outline(verdict, tmp_path) == ["error ED203 1 file of bindings holds the bytes of old-python"]
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package bindings bindings==13.5.0"
    ]
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert (venv.site_packages / HEADER).read_text() == "thirteen"
    assert (venv.site_packages / "old_python.py").exists()
    after = verdict_of(venv.prefix, _host(tmp_path))
    assert outline(after, tmp_path) == [
        "note ED203 1 file of bindings also owned by old-python, whose uninstall would delete them"
    ]
    assert after.findings[0].remediation.text == (
        "Nothing is wrong as it is. old-python stays, since asks requires it; another version of it may leave these "
        "paths alone. After an uninstall of either, force-reinstall the other"
    )


def test_a_build_backend_that_two_wheels_pack_is_a_note_until_their_code_imports_it(tmp_path: Path) -> None:
    def venv_of(name: str, code: str) -> Venv:
        folder = tmp_path / name
        one = make_wheel(folder / "wheels", "one", "1", files={"build_backend.py": "a = 1\n", "one/__init__.py": code})
        two = make_wheel(folder / "wheels", "two", "1", files={"build_backend.py": "b = 22\n"})
        venv = make_venv(folder / "venv", one)
        install(venv, two)
        return venv

    title = "ED409 the module build_backend is installed by one 1 and two 1 at once; the one on disk is two's"
    for number, code in enumerate(("", "from . import build_backend_of_mine\n", "build_backend = 1\n")):
        verdict = verdict_of(venv_of(str(number), code).prefix)
        assert outline(verdict, tmp_path) == [f"note {title}"]
        assert "no Python file of theirs imports it" in verdict.findings[0].evidence
    imports = ("import os, build_backend\n", "    from build_backend import a\n", "import_module('build_backend')")
    for number, code in enumerate(imports, 10):
        verdict = verdict_of(venv_of(str(number), code).prefix)
        assert outline(verdict, tmp_path) == [f"warning {title}"]
        assert "imported by one/__init__.py" in verdict.findings[0].evidence


def test_an_extension_that_is_not_linked_against_torch_is_not_built_for_another(tmp_path: Path) -> None:
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    made = make_torch(site, cuda=None, extension=str(sysconfig.get_config_var("EXT_SUFFIX")))
    needed = [make_stub(tmp_path, "libc10.so")]
    make_shared(made / "lib/libtorch_cpu.so", exports=["aoti_torch_get_dim"], needed=needed, rpath="$ORIGIN")
    packed = {str(path.relative_to(site)): path.read_bytes() for path in made.rglob("*") if path.is_file()}
    torch = make_wheel(wheels, "torch", "2.10.0", files=packed)
    bridges = {
        f"core/_{name}.so": object_bytes(f"_{name}.so", undefined=[symbol])
        for name, symbol in (("bridge", "aoti_torch_get_dim"), ("newer", "aoti_torch_get_dim_of_2_20"))
    }
    core = make_wheel(wheels, "core", "1", files={"core/__init__.py": "", **bridges})
    venv = make_venv(tmp_path / "venv", torch, core)
    open_torch = "import ctypes, torch; ctypes.CDLL(torch.__path__[0] + '/lib/libtorch_cpu.so', ctypes.RTLD_GLOBAL); "
    load = "import ctypes; ctypes.CDLL('{}')"
    bridge, newer = (venv.site_packages / f"core/_{name}.so" for name in ("bridge", "newer"))
    assert "undefined symbol: aoti_torch_get_dim" in _python(venv, "import torch; " + load.format(bridge), tmp_path)
    assert _python(venv, open_torch + load.format(bridge), tmp_path) == ""
    assert "undefined symbol" in _python(venv, open_torch + load.format(newer), tmp_path)
    verdict = verdict_of(venv.prefix, _host(tmp_path))
    assert outline(verdict, tmp_path) == [
        "error ED309 core/_newer.so of core 1 was built for another torch; torch here is 2.10.0",
        "note ED305 core/_bridge.so of core 1 is not linked against torch/lib/libtorch_cpu.so, whose symbols it needs",
    ]


def test_builds_for_several_torches_of_which_none_is_this_one(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    torch = make_linked_torch(wheels, "2.14.0+cu130", "13.0", needs={}, c10=["_ZN3c103newEv"])

    def addon(*series: str) -> list[str]:
        files = {
            f"addon/libaddon_torch{one}.so": object_bytes(
                f"libaddon_torch{one}.so", stubs={"libc10.so": ("_ZN3c103oldEv",)}
            )
            for one in series
        }
        made = make_wheel(tmp_path / "-".join(series), "addon", "0.1", files={"addon/__init__.py": "", **files})
        venv = make_venv(tmp_path / f"venv-{'-'.join(series)}", torch, made)
        return outline(verdict_of(venv.prefix, _host(tmp_path)), tmp_path)

    assert addon("24", "29", "210") == [
        "note ED309 addon 0.1 was built for torch 2.4, 2.9, 2.10, and torch 2.14.0+cu130 can load none of its builds"
    ]
    assert addon("27") == ["warning ED309 addon 0.1 was built for torch 2.7, and torch 2.14.0+cu130 cannot load it"]
    assert addon("29", "214")[0].startswith("error ED309 addon/libaddon_torch214.so of addon 0.1 was built for")


def test_a_module_for_another_python_in_a_wheel_for_this_one_was_published_so(tmp_path: Path) -> None:
    def outline_of(tag: str, *more: str) -> list[str]:
        names = ["kernel/_old.cpython-310-x86_64-linux-gnu.so", *more]
        files = {"kernel/__init__.py": "", **dict.fromkeys(names, "no object")}
        made = make_wheel(tmp_path / tag / str(len(more)), "kernel", "1", files=files, tag=tag)
        venv = make_venv(tmp_path / f"{tag}-{len(more)}")
        run_uv("pip", "install", "--python", venv.python, "--no-deps", made, cache=tmp_path / ".uv-cache")
        return [line for line in outline(verdict_of(venv.prefix), tmp_path) if "ED104" in line]

    python = f"3.{sys.version_info.minor}"
    part = f"kernel/_old.cpython-310-x86_64-linux-gnu.so of kernel 1 cannot be imported by CPython {python}"
    whole = f"kernel 1 cannot be imported by CPython {python} on x86_64"
    tag = "cp310-abi3-manylinux2014_x86_64"
    built = "built for cpython-310-x86_64-linux-gnu"
    assert outline_of(tag, "kernel/_ops.abi3.so") == [f"note ED104 {part}: {built}"]
    assert outline_of(tag) == [f"error ED104 {whole}: {built}"]
    # pip and uv go by the wheel's tag, so that a reinstall would bring the same file.
    (finding,) = [item for item in verdict_of(tmp_path / f"{tag}-0").findings if item.code == "ED104"]
    assert finding.remediation.commands == ()
    assert finding.remediation.text.startswith(
        "the wheel says that it is for this Python, so a reinstall changes nothing"
    )


def test_a_file_that_many_own_alike_is_told_once_and_put_back_by_one(tmp_path: Path) -> None:
    """As nvidia/__init__.py, which eleven of NVIDIA's wheels own: uninstalling one of them deletes it for all."""
    wheels = [
        make_wheel(tmp_path / "wheels", name, "1", files={"vendor/__init__.py": "", f"vendor/{name}.py": ""})
        for name in ("one", "two", "three", "four")
    ]
    venv = make_venv(tmp_path / "venv", *wheels)
    uninstall(venv, "three")
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == ["error ED202 four 1: 1 of 9 files missing"]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_a_program_that_nobody_may_execute_is_told_and_let_run(tmp_path: Path) -> None:
    """As triton's ptxas: kernels are compiled by starting it, and RECORD knows no modes."""
    program = make_program(tmp_path / "made")
    files = {
        "tool/__init__.py": "",
        "tool/bin/tool": program.read_bytes(),
        "tool/bin/data.txt": "x",
        "tool/bin/libx.so": object_bytes("libx.so"),
    }
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "tool", "1", files=files))
    at = venv.site_packages / "tool/bin/tool"
    at.chmod(0o644)
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == ["warning ED202 tool 1: 1 program of it may not be executed by anybody"]
    assert verdict.findings[0].remediation.commands == (f"chmod a+x {at}",)
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    subprocess.run([at], check=True)
    assert verdict_of(venv.prefix).findings == ()
