"""Cache folders that look like inductor's and Triton's, with real names where the name tells the content."""

import json
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from envdoctor.cache.key_parts import KeyPart
from envdoctor.cache.layout import Root
from envdoctor.cache.manifest import Manifest
from envdoctor.cache.snapshot import Purpose, describe
from envdoctor.probes.caches.entry_damage import content_name

KEY = (
    KeyPart(name="torch.version", value="2.13.0+cpu"),
    KeyPart(name="torch.sources", value="ab" * 32),
    KeyPart(name="gpu.name", value="NVIDIA H200"),
    KeyPart(name="cpu.isa", value="avx2"),
    KeyPart(name="venv.prefix", value="/venv"),
)
GRAPH_KEY = "fabcdefgh"


def write(path: Path, content: bytes) -> Path:
    """Write a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def graph(folder: Path, content: bytes = b"a compiled graph", key: str = GRAPH_KEY) -> Path:
    """Write an FX graph under the name torch gives its content."""
    return write(folder / "fxgraph" / key[1:3] / key / content_name(content), content)


def kernel(folder: Path, device: str = "0", name: str = "KERNELHASH", origin: Path | None = None) -> Path:
    """Write a Triton kernel of inductor's, its group file with absolute paths as Triton writes it."""
    at = folder / "triton" / device / name
    there = (origin or folder) / "triton" / device / name
    files = {"sum.json": b'{"name": "sum"}', "sum.ttir": b"module {}", "sum.cubin": shared_object()}
    for file, content in files.items():
        write(at / file, content)
    group = {"child_paths": {file: str(there / file) for file in files}}
    write(at / "__grp__sum.json", json.dumps(group).encode())
    return at


@cache
def shared_object() -> bytes:
    """Return the bytes of a real ELF object."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.so"
        subprocess.run(["cc", "-shared", "-o", made, "-x", "c", "-"], input=b"int f(void) { return 1; }", check=True)
        return made.read_bytes()


def cpp_kernel(folder: Path, stem: str = "cxyz0") -> Path:
    """Write a C++ kernel: its source and its object."""
    write(folder / stem[1:3] / f"{stem}.main.cpp", b"int f() { return 1; }")
    return write(folder / stem[1:3] / f"{stem}.main.so", shared_object())


def wrapper(folder: Path, source: bytes = b"def call(args):\n    return args") -> Path:
    """Write a Python wrapper under the name torch gives its content."""
    stem = "c" + content_name(source.strip())
    return write(folder / stem[1:3] / f"{stem}.py", source)


def filled(folder: Path) -> Root:
    """Fill inductor's folder with one entry of each kind."""
    graph(folder)
    write(folder / "aotautograd/akey" / content_name(b"autograd"), b"autograd")
    kernel(folder)
    cpp_kernel(folder)
    wrapper(folder)
    write(folder / "xy/csome.best_config", b'{"XBLOCK": 128}')
    write(folder / "locks/cxyz0.lock", b"")
    return Root(kind="inductor", path=folder, found_via="TORCHINDUCTOR_CACHE_DIR")


def manifest_of(*roots: Root, name: str = "made", profile: str = "") -> Manifest:
    """Return the manifest of what is in the roots."""
    return describe(roots, KEY, Purpose(name=name, profile=profile))
