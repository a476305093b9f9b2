"""One of several builds must load, and none does: torchcodec without FFmpeg."""

from dataclasses import replace
from pathlib import Path

from tests.factories.examine_venv import outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_linked_torch, object_bytes, real_error
from tests.factories.make_elf import make_shared
from tests.factories.make_venv import install, make_venv
from tests.factories.make_wheel import make_wheel

TITLE = "torchcodec 0.11.1 needs FFmpeg 6 to 8, and none of its 3 builds can be loaded here"
INIT = """
import ctypes, os, torch
errors = []
for v in (8, 7, 6):
    try:
        ctypes.CDLL(os.path.join(os.path.dirname(__file__), f"libtorchcodec_core{v}.so"))
        break
    except OSError as x:
        errors.append(f"FFmpeg version {v}: {x}")
else:
    raise RuntimeError("Could not load libtorchcodec. " + "; ".join(errors))
"""


def test_n02b_no_build_loads_until_one_does(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    files: dict[str, bytes | str] = {"torchcodec/__init__.py": INIT}
    for release in (6, 7, 8):
        core, ops = f"libtorchcodec_core{release}.so", f"libtorchcodec_custom_ops{release}.so"
        needs: dict[str, tuple[str, ...]] = {"libc10.so": (), f"libavutil.so.{release + 52}": ("av_x",)}
        files[f"torchcodec/{core}"] = object_bytes(core, stubs=needs)
        files[f"torchcodec/{ops}"] = object_bytes(ops, stubs={core: (), "libc10.so": ()})
    venv = make_venv(
        tmp_path / "venv",
        make_linked_torch(wheels, "2.11.0+cu128", "12.8", needs={}),
        make_wheel(wheels, "torchcodec", "0.11.1", files=files),
    )
    host = host_without_cache(tmp_path / "home")
    missing = "cannot open shared object file: No such file or directory"
    assert real_error(venv, "import torchcodec", host) == (
        f"RuntimeError: Could not load libtorchcodec. FFmpeg version 8: libavutil.so.60: {missing}; FFmpeg version 7: "
        f"libavutil.so.59: {missing}; FFmpeg version 6: libavutil.so.58: {missing}"
    )
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [f"warning ED307 {TITLE}"]
    assert verdict.findings[0].evidence == tuple(
        f"torchcodec/libtorchcodec_core{release}.so: libavutil.so.{release + 52}: {missing}" for release in (6, 7, 8)
    )
    # The trap is the message's third line, which blames the version of torch.
    assert verdict.findings[0].remediation.text == (
        "If torchcodec is used, install FFmpeg (Debian and Ubuntu: apt-get install ffmpeg); the others may stay missing"
    )

    # Another package's own copy, where no search path leads, changes nothing: the third build is still one of them.
    copy = object_bytes("libavutil.so.60", exports=["av_x"])
    install(venv, make_wheel(wheels, "pynvvideocodec", "2.0.4", files={"PyNvVideoCodec/libavutil.so.60": copy}))
    assert f"libavutil.so.60: {missing}" in real_error(venv, "import torchcodec", host)
    assert outline(verdict_of(venv.prefix, host), tmp_path) == [f"warning ED307 {TITLE}"]

    ffmpeg = make_shared(tmp_path / "ffmpeg/libavutil.so.59", exports=["av_x"])
    there = replace(host, environ={**host.environ, "LD_LIBRARY_PATH": str(ffmpeg.parent)})
    assert real_error(venv, "import torchcodec", there) == ""
    assert [item.code for item in verdict_of(venv.prefix, there).findings if item.code == "ED307"] == []


def test_n02b_a_module_whose_package_opens_its_library_first(tmp_path: Path) -> None:
    """Torchaudio 2.8: libtorio_ffmpeg6.so is opened by a name put together, then the module that needs it."""
    wheels = tmp_path / "wheels"
    files: dict[str, bytes | str] = {"torio/__init__.py": ""}
    for release in (5, 6):
        library, module = f"libtorio_ffmpeg{release}.so", f"_torio_ffmpeg{release}"
        needs: dict[str, tuple[str, ...]] = {"libc10.so": (), f"libavutil.so.{release + 52}": ("av_x",)}
        files[f"torio/lib/{library}"] = object_bytes(library, stubs=needs)
        source = f"void *PyInit_{module}(void) {{ return 0; }}"
        files[f"torio/lib/{module}.so"] = object_bytes(f"{module}.so", stubs={library: ()}, source=source)
    venv = make_venv(
        tmp_path / "venv",
        make_linked_torch(wheels, "2.8.0+cu128", "12.8", needs={}),
        make_wheel(wheels, "torchaudio", "2.8.0", files=files),
    )
    host = host_without_cache(tmp_path / "home")
    title = "torchaudio 2.8.0 needs FFmpeg 5 to 6, and none of its 2 builds can be loaded here"
    assert outline(verdict_of(venv.prefix, host), tmp_path) == [f"warning ED307 {title}"]

    folder = f"{venv.site_packages}/torio/lib"
    ffmpeg = make_shared(tmp_path / "ffmpeg/libavutil.so.58", exports=["av_x"])
    there = replace(host, environ={**host.environ, "LD_LIBRARY_PATH": str(ffmpeg.parent)})
    names = ("libtorio_ffmpeg6.so", "_torio_ffmpeg6.so")
    opened = f"import torch, ctypes; [ctypes.CDLL('{folder}/' + name) for name in {names}]"
    assert real_error(venv, opened, there) == ""
    assert verdict_of(venv.prefix, there).findings == ()


def _pair(package: str, init: str, numbers: tuple[int, ...] = (1, 2)) -> dict[str, bytes | str]:
    """Return the files of a package with two modules; the library of each is where nothing leads, or not needed."""
    files: dict[str, bytes | str] = {f"{package}/__init__.py": init}
    for number in (1, 2):
        library, module = f"lib{package}{number}.so", f"_ext{number}"
        files[f"{package}/deps/{library}"] = object_bytes(library, exports=["run"])
        source = f"void *PyInit_{module}(void) {{ return 0; }}"
        stubs: dict[str, tuple[str, ...]] = {library: ("run",)} if number in numbers else {}
        files[f"{package}/{module}.so"] = object_bytes(f"{module}.so", stubs=stubs, source=source)
    return files


def test_n02b_numbered_modules_whose_library_can_be_loaded(tmp_path: Path) -> None:
    """No search path leads to it. What the import raises is an error, even where another of the modules opens."""
    wheels, missing = tmp_path / "wheels", "cannot open shared object file: No such file or directory"
    files = {
        **_pair("early", "from early import _ext1, _ext2\n"),
        **_pair("half", "from half import _ext2, _ext1\n", numbers=(2,)),
        **_pair("late", ""),
    }
    venv = make_venv(
        tmp_path / "venv",
        make_linked_torch(wheels, "2.8.0+cu128", "12.8", needs={}),
        make_wheel(wheels, "pair", "1", files=files),
    )
    host = host_without_cache(tmp_path / "home")
    assert real_error(venv, "import early", host) == f"ImportError: libearly1.so: {missing}"
    assert real_error(venv, "import half", host) == f"ImportError: libhalf2.so: {missing}"
    assert outline(verdict_of(venv.prefix, host), tmp_path) == [
        f"{severity} ED307 {package}/_ext{number}.so of pair 1 cannot be loaded: lib{package}{number}.so: {missing}"
        for severity, package, number in (
            ("error", "early", 1),
            ("error", "early", 2),
            ("error", "half", 2),
            ("warning", "late", 1),
            ("warning", "late", 2),
        )
    ]
