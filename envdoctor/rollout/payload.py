"""What travels to a node: the program that visits it, and behind it one archive with the tool and some files."""

import importlib.metadata
import io
import mmap
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from envdoctor.errors import ProbeError
from envdoctor.facts.programs import outside_venvs
from envdoctor.rollout import visit
from envdoctor.wheels import uv

_PACKAGE = Path(__file__).resolve().parent.parent
_NEEDED = ("packaging", "tomli", "tomli-w", "urllib3", "nvidia-ml-py")
"""Distributions that restore, repair and check import. None of them needs a certain Python."""
_UV = """\
from pathlib import Path


def find_uv_bin():
    return str(Path(__file__).resolve().parent.parent / "bin/uv")
"""
"""In place of uv's package, which looks among the scripts of the node's Python first: another uv, or a venv's."""
_ZSTD = "zstandard"
"""Compiled for one Python: only what reads a snapshot of a cache takes it along."""
_LEVEL = 1
"""Of gzip: uv's binary is most of it, and each node reads it once."""


@contextmanager
def payload(files: Mapping[str, Path], environ: Mapping[str, str], *, zstd: bool = False) -> Iterator[memoryview]:
    """Give the bytes for a node's standard input. files: path below the node's folder of files -> file here.

    Raises ProbeError where a part of this installation is not there.
    """
    program = Path(visit.__file__).read_bytes()
    with tempfile.TemporaryFile() as out:
        out.write(b"%d\n" % len(program) + program)
        with tarfile.open(
            fileobj=out, mode="w:gz", compresslevel=_LEVEL, format=tarfile.PAX_FORMAT, dereference=True
        ) as archive:
            found = tarfile.TarInfo("tool/uv/__init__.py")
            found.size = len(_UV)
            archive.addfile(found, io.BytesIO(_UV.encode()))
            for name, path in sorted(_tool(environ, zstd=zstd)):
                archive.add(path, f"tool/{name}", filter=_plain)
            for name, path in sorted(files.items()):
                archive.add(path, f"files/{name}", filter=_plain)
        out.flush()
        with mmap.mmap(out.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            yield view


def _tool(environ: Mapping[str, str], *, zstd: bool) -> Iterator[tuple[str, Path]]:
    for path in _PACKAGE.rglob("*.py"):
        yield f"envdoctor/{path.relative_to(_PACKAGE)}", path
    for name in (*_NEEDED, *((_ZSTD,) if zstd else ())):
        yield from _files_of(name)
    binary = uv.own_binary() or outside_venvs("uv", environ)
    if binary is None:
        raise ProbeError("uv is neither installed beside envdoctor nor on PATH", "`pip install uv`")
    yield "bin/uv", Path(os.path.realpath(binary))


def _files_of(name: str) -> Iterator[tuple[str, Path]]:
    try:
        found = importlib.metadata.files(name)
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found is None:
        raise ProbeError(
            f"{name} is not installed beside envdoctor, and has to travel with it", f"`pip install {name}`"
        )
    for file in found:
        path = Path(str(file.locate()))
        if file.parts[0] != ".." and "__pycache__" not in file.parts and path.is_file():
            yield str(file), path


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out whose file it is here."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info
