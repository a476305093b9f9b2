"""What people do to an environment on a rented machine, each as one function that does it."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.closure.scene import Scene
from tests.factories.make_elf import make_shared
from tests.factories.make_venv import rewrite, run_uv

Mishap = tuple["partial[None]", tuple[str, ...]]


def _installed_into(spec: str, scene: Scene) -> None:
    """`pip install --target site-packages`: the new files lie over the old ones, whose metadata stays."""
    source = {"UV_FIND_LINKS": str(scene.wheels), "UV_NO_INDEX": "1"}
    target = scene.root / "target"
    shutil.rmtree(target, ignore_errors=True)
    run_uv("pip", "install", "-q", "--no-deps", "--target", target, spec, cache=scene.cache, extra=source)
    for path in target.iterdir():
        if path.is_dir():
            shutil.rmtree(scene.site / path.name, ignore_errors=True)
            shutil.copytree(path, scene.site / path.name)


def _site_linked(damage: str, scene: Scene) -> None:
    """Move site-packages to another disk, leave a link, and lose a file of it."""
    disk = scene.root / "disk"
    shutil.rmtree(disk, ignore_errors=True)
    scene.site.rename(disk)
    scene.site.symlink_to(disk)
    if damage:
        (disk / damage).unlink()


def _pointer(path: str, scene: Scene) -> None:
    """Leave a venv in git-lfs that was checked out without it."""
    rewrite(scene.site / path, b"version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 99\n" % 0)


def _line_ends(name: str, scene: Scene) -> None:
    """Copy through a tool that turns line ends."""
    for path in (scene.site / name).rglob("*.py"):
        rewrite(path, path.read_bytes().replace(b"\n", b"\r\n"))


def _without_empty_files(scene: Scene) -> None:
    """Copy and leave out empty files."""
    for path in [path for path in scene.site.rglob("*") if path.is_file() and not path.stat().st_size]:
        path.unlink()


def _customized(text: str, scene: Scene) -> None:
    (scene.site / "sitecustomize.py").write_text(text.replace("ROOT", str(scene.root)))


def _lib64(scene: Scene) -> None:
    """Make the link lib64 a folder, and install into it."""
    lib64 = scene.venv.prefix / "lib64"
    if lib64.is_symlink():
        lib64.unlink()
    site = lib64 / scene.site.relative_to(scene.venv.prefix / "lib")
    site.mkdir(parents=True)
    shutil.copytree(scene.site / "plain", site / "plain")


def _stray(path: str, content: bytes, scene: Scene) -> None:
    """Copy a library by hand to where the loader looks first."""
    (scene.site / path).write_bytes(content)


def _linked_to(path: str, scene: Scene) -> None:
    """Replace the file by a link to a library of the system that is another one."""
    folder = scene.root / "mine/system"
    folder.mkdir(parents=True, exist_ok=True)
    other = make_shared(folder / Path(path).name, exports=["other"])
    (scene.site / path).unlink()
    (scene.site / path).symlink_to(other)


def _preload(content: bytes, scene: Scene) -> None:
    path = scene.root / "mine/pre.so"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    scene.environment["LD_PRELOAD"] = str(path)


def _other_python(scene: Scene) -> None:
    """Upgrade the interpreter under the venv: its link leads to another minor version."""
    minor = sys.version_info.minor
    found = [path for path in Path(sys.base_prefix).parent.glob("3.*/bin/python3.*") if path.name[8:].isdecimal()]
    other = next(path for path in sorted(found) if path.name != f"python3.{minor}")
    for name in ("python", "python3", f"python3.{minor}"):
        link = scene.venv.prefix / "bin" / name
        if os.path.lexists(link):
            link.unlink()
            link.symlink_to(other)


def _upgraded(scene: Scene) -> None:
    """`python3.X -m venv --upgrade` with another minor version: a new empty lib, the packages in the old one."""
    _other_python(scene)
    other = str((scene.venv.prefix / "bin/python").readlink())
    version = Path(other).parents[1].name
    config = scene.venv.prefix / "pyvenv.cfg"
    lines = [
        f"home = {Path(other).parent}"
        if row.startswith("home")
        else f"version_info = {version}"
        if "version" in row
        else row
        for row in config.read_text().splitlines()
    ]
    rewrite(config, "\n".join(lines) + "\n")
    (scene.venv.prefix / "lib" / Path(other).name / "site-packages").mkdir(parents=True)


def _no_config(scene: Scene) -> None:
    (scene.venv.prefix / "pyvenv.cfg").unlink()


def _bytecode(mode: str, scene: Scene) -> None:
    """Compile a module with another source, as a packager does whose source is patched afterwards."""
    source = scene.site / "plain/deep/inner.py"
    text = source.read_bytes()
    rewrite(source, b"raise ImportError('of the bytecode')\n")
    code = f"import py_compile as p; p.compile({str(source)!r}, invalidation_mode=p.PycInvalidationMode.{mode})"
    subprocess.run([scene.venv.python, "-c", code], check=True)
    rewrite(source, text)
    scene.deep = True


def _half(name: str, scene: Scene) -> None:
    """Fill the disk while it is unpacked: the second half of its files is empty, and no RECORD was written."""
    files = sorted(path for path in (scene.site / name).rglob("*") if path.is_file())
    for path in files[len(files) // 2 :]:
        rewrite(path, b"")
    (scene.info(name) / "RECORD").unlink()


def _no_metadata(scene: Scene) -> None:
    """Make the image smaller."""
    for info in scene.site.glob("*.dist-info"):
        shutil.rmtree(info)


def _links_gone(scene: Scene) -> None:
    """Install with uv's link mode symlink, and clean the cache."""
    for path in [path for path in scene.site.rglob("*") if path.is_file()]:
        path.unlink()
        path.symlink_to(scene.root / "cache/archive-v0" / path.relative_to(scene.site))


def _modes_lost(scene: Scene) -> None:
    """Copy through a file system or an archive that knows no modes."""
    for path in (scene.venv.prefix / "bin").iterdir():
        if not path.is_symlink():
            rewrite(path, path.read_bytes())
            path.chmod(0o644)


MISHAPS: dict[str, Mishap] = {
    "mishap:target-older": (partial(_installed_into, "tokenkit==0.19.1"), ("tokenkit",)),
    "mishap:target-torch": (partial(_installed_into, "torch==2.9.0"), ("torch",)),
    "mishap:site-linked": (partial(_site_linked, ""), ("plain",)),
    "mishap:site-linked-lost": (partial(_site_linked, "plain/deep/inner.py"), ("plain",)),
    "mishap:lfs-extension": (partial(_pointer, "torch/lib/libc10.so"), ("torch",)),
    "mishap:lfs-cudnn": (partial(_pointer, "nvidia/cudnn/lib/libcudnn.so.9"), ("nvidia-cudnn-cu12",)),
    "mishap:line-ends": (partial(_line_ends, "torch"), ("torch",)),
    "mishap:no-empty-files": (partial(_without_empty_files), ("plain", "dist-info", "METADATA")),
    "mishap:sitecustomize-path": (
        partial(_customized, "import sys\nsys.path.insert(0, 'ROOT/gone')\n"),
        ("sitecustomize",),
    ),
    "mishap:sitecustomize-ends": (partial(_customized, "import sys\nsys.exit('moved')\n"), ("sitecustomize",)),
    "mishap:pth-ends": (partial(_stray, "stop.pth", b"import os; os._exit(3)\n"), ("stop.pth",)),
    "mishap:no-metadata": (partial(_no_metadata), ("site-packages",)),
    "mishap:links-gone": (partial(_links_gone), ("dist-info", "plain")),
    "mishap:modes-lost": (partial(_modes_lost), ("tool", "torch")),
    "mishap:lib64": (partial(_lib64), ("plain", "lib64")),
    "mishap:stray-garbage": (partial(_stray, "torch/lib/libcudnn.so.9", b"garbage\n"), ("libcudnn",)),
    "mishap:stray-empty": (partial(_stray, "torch/lib/libnccl.so.2", b""), ("libnccl",)),
    "mishap:system-cudnn": (partial(_linked_to, "nvidia/cudnn/lib/libcudnn.so.9"), ("cudnn",)),
    "mishap:system-nccl": (partial(_linked_to, "nvidia/nccl/lib/libnccl.so.2"), ("nccl",)),
    "mishap:preload-garbage": (partial(_preload, b"garbage\n"), ("LD_PRELOAD",)),
    "mishap:preload-empty": (partial(_preload, b""), ("LD_PRELOAD",)),
    "mishap:python-upgraded": (partial(_other_python), ("python", "interpreter")),
    "mishap:venv-upgraded": (partial(_upgraded), ("python", "interpreter")),
    "mishap:no-pyvenv-cfg": (partial(_no_config), ("pyvenv.cfg", "interpreter")),
    "mishap:bytecode-unchecked": (partial(_bytecode, "UNCHECKED_HASH"), ("plain",)),
    "mishap:bytecode-checked": (partial(_bytecode, "CHECKED_HASH"), ("plain",)),
    "mishap:disk-full-plain": (partial(_half, "plain"), ("plain",)),
    "mishap:disk-full-torch": (partial(_half, "torch"), ("torch",)),
    "mishap:disk-full-quicknum": (partial(_half, "quicknum"), ("quicknum",)),
}
"""Name -> what happens, and the words that its findings may name."""
