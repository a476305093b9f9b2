"""What can happen to a healthy venv, each as one function that does it."""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tomli_w

from tests.closure.mishaps import MISHAPS
from tests.closure.scene import Scene
from tests.closure.stock import CUDNN, NCCL, SUFFIX
from tests.factories.make_venv import rewrite
from tests.factories.make_wheel import make_wheel, record_hash

Act = Callable[[Scene], None]
INIT, CORE, DATA = "plain/__init__.py", f"quicknum/_core{SUFFIX}", "plain/d.json"
BUNDLED, C10, VERSION = "quicknum.libs/libquick-3f2a.so.1", "torch/lib/libc10.so", "torch/version.py"
INNER, BINDING = "plain/deep/inner.py", f"torch/_C{SUFFIX}"
_FILES = {
    "cudnn": CUDNN,
    "nccl": NCCL,
    "c10": C10,
    "torch-version": VERSION,
    "torch-c": BINDING,
    "init": INIT,
    "inner": INNER,
    "extension": CORE,
    "bundled": BUNDLED,
    "data": DATA,
    "torch-init": "torch/__init__.py",
    "tokenkit": "tokenkit/__init__.py",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that happens."""

    act: Act
    about: frozenset[str] = frozenset()
    """Distributions and other words that its findings may name."""


FAULTS: dict[str, Fault] = {}
"""Name -> fault; the part before the colon is its kind."""


def _add(name: str, act: Act, *about: str) -> None:
    FAULTS[name] = Fault(act=act, about=frozenset(about))


def _owner(path: str) -> str:
    names = {"nvidia": "nvidia-" + path.split("/")[1] + "-cu12", "quicknum.libs": "quicknum"}
    return names.get(path.split("/", maxsplit=1)[0], path.split("/", maxsplit=1)[0])


def _delete(path: str, scene: Scene) -> None:
    (scene.site / path).unlink()


def _empty(path: str, scene: Scene) -> None:
    rewrite(scene.site / path, b"")


def _truncate(path: str, scene: Scene) -> None:
    content = (scene.site / path).read_bytes()
    rewrite(scene.site / path, content[: len(content) // 2])


def _grow(path: str, scene: Scene) -> None:
    rewrite(scene.site / path, (scene.site / path).read_bytes() + b"\n# more\n")


def _replace(path: str, scene: Scene) -> None:
    size = (scene.site / path).stat().st_size
    rewrite(scene.site / path, (b"#" * (size - 1) + b"\n") if size else b"")
    scene.deep = True


def _dangle(path: str, scene: Scene) -> None:
    (scene.site / path).unlink()
    (scene.site / path).symlink_to("gone-" + Path(path).name)


def _folder(path: str, scene: Scene) -> None:
    (scene.site / path).unlink()
    (scene.site / path).mkdir()


def _filled(path: str, scene: Scene) -> None:
    _folder(path, scene)
    (scene.site / path / "notes.txt").write_text("somebody's own\n")
    scene.own["notes.txt"] = "somebody's own"


_add("filled:init", partial(_filled, INIT), "plain")

for _name, _path in _FILES.items():
    for _kind, _act in (
        ("deleted", _delete), ("emptied", _empty), ("truncated", _truncate), ("grown", _grow),
        ("other-bytes", _replace), ("dangling", _dangle), ("folder", _folder),
    ):  # fmt: skip
        # A folder of that name and text at the end of a shared object are rare enough to try on a few.
        if (_kind == "folder" and _name not in ("init", "cudnn")) or (_kind == "grown" and _name in ("torch-c", "c10")):
            continue
        _add(f"{_kind}:{_name}", partial(_act, _path), _owner(_path))


def _package_gone(name: str, scene: Scene) -> None:
    shutil.rmtree(scene.site / name)


def _package_link(name: str, scene: Scene) -> None:
    shutil.rmtree(scene.site / name)
    (scene.site / name).symlink_to(scene.root / "mine" / name)


def _package_file(name: str, scene: Scene) -> None:
    shutil.rmtree(scene.site / name)
    (scene.site / name).write_text("not a folder\n")


def _loop(path: str, scene: Scene) -> None:
    at = scene.site / path
    shutil.rmtree(at) if at.is_dir() else at.unlink()
    at.symlink_to(at.name)


_add("loop:plain", partial(_loop, "plain"), "plain")
_add("loop:init", partial(_loop, INIT), "plain")
_add("loop:torch-lib", partial(_loop, "torch/lib"), "torch")

for _name in ("plain", "quicknum", "tokenkit", "torch"):
    _add(f"package-gone:{_name}", partial(_package_gone, _name), _name)
    _add(f"package-link:{_name}", partial(_package_link, _name), _name)


def _package_elsewhere(name: str, scene: Scene) -> None:
    folder = scene.root / "mine" / name
    folder.parent.mkdir(exist_ok=True)
    (scene.site / name).rename(folder)
    (scene.site / name).symlink_to(folder)


_add("package-elsewhere:plain", partial(_package_elsewhere, "plain"), "plain")


def _elsewhere_lost(scene: Scene) -> None:
    _package_elsewhere("plain", scene)
    (scene.root / "mine/plain/deep/inner.py").unlink()


_add("package-elsewhere-lost:plain", _elsewhere_lost, "plain")


def _link_and_more(scene: Scene) -> None:
    _package_elsewhere("plain", scene)
    rewrite(scene.info("plain") / "WHEEL", b"torn")


_add("package-elsewhere-torn:plain", _link_and_more, "plain")
_add("package-file:plain", partial(_package_file, "plain"), "plain")
_add("package-gone:cudnn", partial(_package_gone, "nvidia/cudnn"), "nvidia-cudnn-cu12")
_add("package-link:cudnn", partial(_package_link, "nvidia/cudnn"), "nvidia-cudnn-cu12")


def _info(name: str, keep: Callable[[Path], bool], scene: Scene) -> None:
    for path in scene.info(name).iterdir():
        if not keep(path):
            path.unlink()


def _record(name: str, change: Callable[[bytes], bytes], scene: Scene) -> None:
    record = scene.info(name) / "RECORD"
    rewrite(record, change(record.read_bytes()))


def _no_info(name: str, scene: Scene) -> None:
    shutil.rmtree(scene.info(name))


def _file_for_info(name: str, scene: Scene) -> None:
    folder = scene.info(name)
    shutil.rmtree(folder)
    folder.write_text("")


def _renamed_info(name: str, scene: Scene) -> None:
    folder = scene.info(name)
    folder.rename(folder.with_name(folder.name.replace("-", "-9", 1)))


_KEPT: dict[str, Callable[[Path], bool]] = {
    "METADATA": lambda path: path.name != "METADATA",
    "RECORD": lambda path: path.name != "RECORD",
    "only-metadata": lambda path: path.name == "METADATA",
    "empty": lambda _: False,
}


def _metadata_empty(name: str, scene: Scene) -> None:
    rewrite(scene.info(name) / "METADATA", b"")


_ROWS: dict[str, Callable[[bytes], bytes]] = {
    "record-empty": lambda _: b"",
    "record-garbage": lambda rows: rows + b'"broken,row\nx\n',
    "record-cut": lambda rows: rows[: len(rows) // 2],
}
for _name in ("plain", "torch", "tokenkit", "nvidia-cudnn-cu12", "tool"):
    for _kind, _keep in _KEPT.items():
        _add(f"info-{_kind}:{_name}", partial(_info, _name, _keep), _name)
    for _kind, _change in _ROWS.items():
        _add(f"info-{_kind}:{_name}", partial(_record, _name, _change), _name)
for _name in ("plain", "torch"):
    _add(f"metadata-empty:{_name}", partial(_metadata_empty, _name), _name)
_add("info-gone:plain", partial(_no_info, "plain"), "plain")
_add("info-gone:tokenkit", partial(_no_info, "tokenkit"), "tokenkit")
_add("info-file:plain", partial(_file_for_info, "plain"), "plain")
_add("info-renamed:plain", partial(_renamed_info, "plain"), "plain")
_add("info-WHEEL:plain", partial(_info, "plain", lambda path: path.name != "WHEEL"), "plain")


def _stale(name: str, version: str, files: tuple[str, ...], scene: Scene) -> None:
    folder = scene.site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    text = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "".join(f"{folder.name}/{file},,\n" for file in files),
    }
    for file in files:
        (folder / file).write_text(text.get(file, ""))


for _name, _version in (("plain", "2.0"), ("torch", "2.9.0"), ("tokenkit", "0.19.1"), ("plain", "9.0")):
    for _kind, _held in (("bare", ("REQUESTED",)), ("half", ("METADATA",)), ("whole", ("METADATA", "WHEEL", "RECORD"))):
        _add(f"stale-{_kind}:{_name}-{_version}", partial(_stale, _name, _version, _held), _name)


def _copied_info(name: str, scene: Scene) -> None:
    folder = scene.info(name)
    shutil.copytree(folder, folder.with_name(folder.name.replace("-", "-9", 1)))


_add("info-copied:plain", partial(_copied_info, "plain"), "plain")


def _tilde(name: str, scene: Scene) -> None:
    shutil.copytree(scene.site / name, scene.site / f"~{name[1:]}")
    info = scene.info(name)
    shutil.copytree(info, scene.site / f"~{info.name[1:]}")


def _half_removed(name: str, scene: Scene) -> None:
    info = scene.info(name)
    (scene.site / name).rename(scene.site / f"~{name[1:]}")
    info.rename(scene.site / f"~{info.name[1:]}")


_add("tilde:plain", partial(_tilde, "plain"), "plain", "~")
_add("half-removed:plain", partial(_half_removed, "plain"), "plain", "~")
_add("half-removed:tokenkit", partial(_half_removed, "tokenkit"), "tokenkit", "~")


def _uninstall(names: tuple[str, ...], scene: Scene) -> None:
    scene.uninstall(*names)


for _name in (
    "tokenkit",
    "triton",
    "nvidia-cudnn-cu12",
    "nvidia-nccl-cu12",
    "nvidia-nvjitlink-cu12",
    "torch",
    "nvidia-cufft-cu12",
):
    _add(f"uninstalled:{_name}", partial(_uninstall, (_name,)), _name)
_add("uninstalled:many", partial(_uninstall, ("nvidia-cublas-cu12", "nvidia-cudnn-cu12", "triton")), "nvidia", "triton")


def _install(specs: tuple[str, ...], scene: Scene) -> None:
    for spec in specs:
        scene.install(spec)


for _spec in ("tokenkit==0.19.1", "tokenkit==0.24.0", "triton==3.5.0", "torchvision==0.24.0", "torch==2.9.0"):
    _add(f"version:{_spec}", partial(_install, (_spec,)), _spec.split("==")[0], "torch")


def _cpu_torch(scene: Scene) -> None:
    scene.offer_cpu_torch()
    scene.install("torch==2.10.0+cpu")


_add("version:torch-cpu", _cpu_torch, "torch")


def _other_build_offered(scene: Scene) -> None:
    scene.offer_cpu_torch()
    (scene.site / C10).unlink()


_add("other-build-offered:torch", _other_build_offered, "torch")
_add("two-owners:nccl", partial(_install, ("nvidia-nccl-cu13",)), "nvidia-nccl-cu12", "nvidia-nccl-cu13")
_add("two-owners:cudnn", partial(_install, ("nvidia-cudnn-cu13",)), "nvidia-cudnn-cu12", "nvidia-cudnn-cu13")
_add("two-owners:both", partial(_install, ("nvidia-cudnn-cu13", "nvidia-nccl-cu13")), "nvidia")
_add(
    "two-owners:shared", partial(_install, ("left-shared", "right-shared")), "left-shared", "right-shared", "shared_pkg"
)
_add("two-owners:pynvml", partial(_install, ("nvidia-ml-py", "nvidia-ml-py3")), "nvidia-ml-py", "pynvml")
_add("two-owners:cv2", partial(_install, ("opencv-python", "opencv-python-headless")), "opencv-python", "cv2")
_add(
    "alternatives:cv2",
    partial(_install, ("opencv-python", "opencv-python-headless", "wants-gui", "wants-headless")),
    "opencv-python", "cv2", "wants-gui", "wants-headless",
)  # fmt: skip
_add(
    "alternatives:triton", partial(_install, ("mamba-ssm", "pytorch-triton-rocm")), "triton", "pytorch-triton-rocm",
)  # fmt: skip


def _another_build(scene: Scene) -> None:
    """Install a pure wheel for an older Python; the lock has one for this Python too."""
    minor = sys.version_info[1]
    for older in (1, 0):
        files = {"twin.py": f"older = {older}\n"}
        make_wheel(scene.wheels, "twin", "1.0", tag=f"py3{minor - older}-none-any", files=files)
        if older:
            scene.install("twin==1.0")
    scene.modules.append("twin")
    installed = {path.name.removesuffix(".dist-info") for path in scene.site.glob("*.dist-info")}
    packages: dict[str, list[dict[str, object]]] = {}
    for wheel in sorted(scene.wheels.glob("*.whl")):
        if (name := "-".join(wheel.name.split("-")[:2])) in installed:
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            packages.setdefault(name, []).append({"path": f"../wheels/{wheel.name}", "hashes": {"sha256": digest}})
    entries = [
        {"name": name.split("-")[0].replace("_", "-"), "version": name.split("-")[1], "wheels": wheels}
        for name, wheels in packages.items()
    ]
    scene.lock = scene.root / "mine" / "pylock.toml"
    scene.lock.parent.mkdir(exist_ok=True)
    scene.lock.write_text(tomli_w.dumps({"lock-version": "1.0", "created-by": "test", "packages": entries}))


_add("another-build:twin", _another_build, "twin")


def _taken(foreign: str, scene: Scene) -> None:
    scene.install(foreign)
    scene.uninstall(foreign)


def _spoiled(scene: Scene) -> None:
    scene.install("left-shared")
    scene.install("right-shared")
    rewrite(scene.site / "shared_pkg/__init__.py", b"raise ImportError('cut')")
    scene.modules.append("shared_pkg")


_add("spoiled:shared", _spoiled, "left-shared", "right-shared", "shared_pkg")


def _at_risk(foreign: str, scene: Scene) -> None:
    scene.install(foreign)
    name = foreign.replace("13", "12")
    scene.install("--reinstall-package", name, name)


for _name in ("nccl", "cudnn"):
    _add(f"taken:{_name}", partial(_taken, f"nvidia-{_name}-cu13"), f"nvidia-{_name}-cu12")
    _add(f"at-risk:{_name}", partial(_at_risk, f"nvidia-{_name}-cu13"), f"nvidia-{_name}")


def _extension(name: str, scene: Scene) -> None:
    scene.install(name)
    scene.modules.append(name)


for _name in ("oldcuda", "sysneed", "oldtag"):
    _add(f"extension:{_name}", partial(_extension, _name), _name)


def _script(change: str, scene: Scene) -> None:
    path = scene.venv.prefix / "bin" / "tool"
    match change:
        case "stale":
            rewrite(path, path.read_text().replace(str(scene.venv.prefix), str(scene.root / "elsewhere")))
            path.chmod(0o755)
        case "nowhere" | "carriage-return":
            line = "#!/opt/gone/interpreter" if change == "nowhere" else f"#!{scene.venv.python}\r"
            rewrite(path, "\n".join([line, *path.read_text().split("\n")[1:]]))
            path.chmod(0o755)
        case "locked":
            path.unlink()
            path.write_text("#!/bin/sh\n")
            path.chmod(0o644)
        case _:
            path.unlink()


_add("script-stale:tool", partial(_script, "stale"), "tool", "bin")
_add("script-locked:tool", partial(_script, "locked"), "tool", "bin")
_add("script-nowhere:tool", partial(_script, "nowhere"), "tool", "bin")
_add("script-carriage-return:tool", partial(_script, "carriage-return"), "tool", "bin")
_add("script-gone:tool", partial(_script, "gone"), "tool", "bin")


def _pth(text: str, scene: Scene) -> None:
    (scene.site / "extra.pth").write_text(text.replace("ROOT", str(scene.root)) + "\n")


_add("pth:nowhere", partial(_pth, "ROOT/gone"), "extra.pth")
_add("pth:broken", partial(_pth, "import no_such_hook"), "extra.pth", "no_such_hook")


def _editable(scene: Scene) -> None:
    info = scene.site / "mylib-0.1.dist-info"
    info.mkdir()
    source = scene.root / "mine" / "mylib"
    rows = {
        f"{info.name}/METADATA": "Metadata-Version: 2.1\nName: mylib\nVersion: 0.1\n",
        f"{info.name}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info.name}/INSTALLER": "uv",
        f"{info.name}/direct_url.json": f'{{"url": "file://{source}", "dir_info": {{"editable": true}}}}',
        "_mylib.pth": f"{source}/src\n",
    }
    for path, text in rows.items():
        (scene.site / path).write_text(text)
    lines = [f"{path},{record_hash(text.encode())},{len(text)}" for path, text in rows.items()]
    (info / "RECORD").write_text("\n".join([*lines, f"{info.name}/RECORD,,"]) + "\n")
    scene.modules.append("mylib")


_add("editable:gone", _editable, "mylib")


def _shadow(name: str, text: str, scene: Scene) -> None:
    folder = scene.root / "mine" / "leak"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    scene.environment["PYTHONPATH"] = str(folder)


_add(
    "pythonpath:tokenkit",
    partial(_shadow, "tokenkit", "raise ImportError('the wrong one')\n"),
    "PYTHONPATH",
    "tokenkit",
)
_add("pythonpath:random", partial(_shadow, "random", "raise ImportError('not the library')\n"), "PYTHONPATH", "random")
_add("pythonpath:torch", partial(_shadow, "torch", "__version__ = '1.0'\n"), "PYTHONPATH", "torch")


def _beside(front: str, scene: Scene) -> None:
    scene.install("nvidia-ml-py")
    scene.modules.append("pynvml")
    path = scene.site / front
    path.parent.mkdir(exist_ok=True)
    path.write_text("raise ImportError('the wrong pynvml')\n")


def _beside_inner(scene: Scene) -> None:
    (scene.site / "plain/deep/inner").mkdir()
    (scene.site / "plain/deep/inner/__init__.py").write_text("raise ImportError('the wrong inner')\n")
    scene.modules.append("plain.deep.inner")
    scene.deep = True


_add("beside:package", partial(_beside, "pynvml/__init__.py"), "pynvml")
_add("beside:extension", partial(_beside, f"pynvml{SUFFIX}"), "pynvml")
_add("beside:inner", _beside_inner, "plain")


def _libraries(name: str, scene: Scene) -> None:
    folder = scene.root / "mine" / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"\x7fELF" + bytes(60))
    scene.environment["LD_LIBRARY_PATH"] = str(folder)


def _variable(name: str, value: str, scene: Scene) -> None:
    scene.environment[name] = value.replace("ROOT", str(scene.root))


_add("library-path:nvjitlink", partial(_libraries, "libnvJitLink.so.12"), "LD_LIBRARY_PATH", "nvJitLink")
for _name, _value in (
    ("LD_LIBRARY_PATH", "ROOT/gone"), ("LD_PRELOAD", "ROOT/gone.so"), ("CUDA_HOME", ":ROOT/cuda"),
    ("CC", "ROOT/gone-cc"), ("SSL_CERT_FILE", "ROOT/gone.pem"), ("TRITON_PTXAS_PATH", "ROOT/gone-ptxas"),
    ("PYTHONHOME", "ROOT/gone"),
):  # fmt: skip
    _add(f"variable:{_name}", partial(_variable, _name, _value), _name)


def _dangling(scene: Scene) -> None:
    python = scene.venv.prefix / "bin" / "python"
    python.unlink()
    python.symlink_to(scene.root / "gone-python")


def _no_python(scene: Scene) -> None:
    (scene.venv.prefix / "bin" / "python").unlink()


def _no_home(scene: Scene) -> None:
    config = scene.venv.prefix / "pyvenv.cfg"
    lines = config.read_text().splitlines()
    rewrite(config, "\n".join(f"home = {scene.root}/gone" if row.startswith("home") else row for row in lines) + "\n")


_add("interpreter:dangling", _dangling, "python", "interpreter")
_add("interpreter:no-python", _no_python, "python", "interpreter")
_add("interpreter:home", _no_home, "python", "interpreter")


def _moved(scene: Scene) -> None:
    for path in (scene.venv.prefix / "bin").iterdir():
        if path.is_file() and not path.is_symlink() and str(scene.venv.prefix) in path.read_text(errors="replace"):
            mode = path.stat().st_mode
            rewrite(path, path.read_text().replace(str(scene.venv.prefix), str(scene.root / "before")))
            path.chmod(mode)


_add("moved:venv", _moved, "tool", "bin", "activate")


def _mode(path: str, scene: Scene) -> None:
    content = (scene.site / path).read_bytes()
    rewrite(scene.site / path, content)
    os.chmod(scene.site / path, 0o000)  # noqa: PTH101 - beside its siblings


_add("mode:cudnn", partial(_mode, CUDNN), "nvidia-cudnn-cu12")

for _name, (_act, _words) in MISHAPS.items():
    _add(_name, _act, *_words)
