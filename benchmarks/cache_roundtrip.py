"""Save and restore a compile cache of 350 MB: speed beside plain copying and zstd, identity, and hits elsewhere.

    python benchmarks/cache_roundtrip.py [--megabytes 350] [--functions 12] [--fresh-venv] [--out FILE]

Run it with an interpreter that has torch and envdoctor. What is measured is real: `--functions` graphs are compiled by
inductor here. They make a few MB, because a C++ kernel costs seconds and weighs 100 KB; the rest of the size is real
shared objects and Python modules of the installed packages, each content once, put where C++ kernels and wrappers lie.
The copy and zstd alone are measured in the same run, on the same files, from the same page cache.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import zstandard
from envdoctor.cache.damage import content_name

from envdoctor.cache import archive, restore, snapshot
from envdoctor.cache.layout import Root, files
from envdoctor.cache.snapshot import Purpose

COMPILE = """
import json, sys, time
started = time.monotonic()
import torch
from torch._dynamo.utils import counters

imported = time.monotonic()
def make(number):
    def function(x, y):
        out = x @ y
        for step in range(number % 4 + 1):
            out = (out * (number + step)).relu().softmax(dim=-1) + y.sum() * step
        return out.mean()
    return function

for number in range(int(sys.argv[1])):
    x = torch.randn(8, 16 + number, requires_grad=True)
    y = torch.randn(16 + number, 8, requires_grad=True)
    torch.compile(make(number), dynamic=False)(x, y).backward()
    torch._dynamo.reset()
found = {k: v for group in ("inductor", "aot_autograd") for k, v in counters[group].items()
         if k.endswith(("_cache_hit", "_cache_miss", "_cache_bypass"))}
print(json.dumps({"import_seconds": imported - started, "seconds": time.monotonic() - imported, **found}))
"""
SMALLEST, LARGEST = 20_000, 40_000_000


def compile_functions(python: str | Path, cache: Path, number: int) -> dict[str, Any]:
    """Compile and run the functions in a process of their own; return torch's counters and what was added."""
    before = listing(cache)
    environ = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    done = subprocess.run(
        [str(python), "-c", COMPILE, str(number)], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    added = listing(cache) - before
    return found | {"files_added": len(added), "kernels_compiled": sum(path.endswith(".main.so") for path in added)}


def listing(cache: Path) -> set[str]:
    """Return the files of a cache that are no locks."""
    return {file.path for file in files([Root(kind="inductor", path=cache, found_via="benchmark")])}


def fill(cache: Path, wanted: int) -> int:
    """Fill the cache up to `wanted` bytes with real contents, each once; return how many bytes that took."""
    have = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    started, seen = have, set()
    for source in candidates():
        if have >= wanted:
            break
        content = source.read_bytes()
        name = "c" + content_name(content.strip() if source.suffix == ".py" else content)
        if name in seen:
            continue
        seen.add(name)
        target = cache / name[1:3] / f"{name}{'.py' if source.suffix == '.py' else '.main.so'}"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(content)
        have += len(content)
    assert have >= wanted, f"only {have} bytes of real contents found"
    return have - started


def candidates() -> Iterator[Path]:
    """Yield real shared objects and a few Python modules of this environment, small ones first."""
    site = Path(zstandard.__file__).resolve().parent.parent
    found = [path for pattern in ("*.so", "*.so.*") for path in site.rglob(pattern) if path.is_file()]
    found += list((site / "torch").rglob("*.py"))[:1500]
    yield from sorted(
        (path for path in found if SMALLEST < path.stat().st_size < LARGEST), key=lambda path: path.stat().st_size
    )


def best(times: int, work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """Return the least time of several runs: what else the machine does only ever adds."""
    seconds = []
    for _ in range(times):
        before()
        os.sync()
        started = time.monotonic()
        work()
        seconds.append(time.monotonic() - started)
    return min(seconds)


def digests(folder: Path) -> dict[str, str]:
    """Return path -> sha256 and modification time of every file that a snapshot takes."""
    return {
        file.path: f"{hashlib.sha256((folder / file.path).read_bytes()).hexdigest()} {file.modified}"
        for file in files([Root(kind="inductor", path=folder, found_via="benchmark")])
    }


def measure(cache: Path, scratch: Path) -> dict[str, Any]:
    """Time copying, hashing, zstd alone, saving and restoring, all of the same files."""
    root = Root(kind="inductor", path=cache, found_via="benchmark")
    size = sum(file.size for file in files([root]))
    data = b"".join((cache / file.path).read_bytes() for file in files([root]))
    threads = len(os.sched_getaffinity(0))
    packed = zstandard.ZstdCompressor(level=archive.LEVEL, threads=threads).compress(data)
    seconds = {
        "copy": best(3, lambda: shutil.copytree(cache, scratch / "copy"), lambda: remove(scratch / "copy")),
        "sha256": best(3, lambda: hashlib.sha256(data).digest()),
        "zstd pack": best(3, lambda: zstandard.ZstdCompressor(level=archive.LEVEL, threads=threads).compress(data)),
        "zstd unpack": best(3, lambda: zstandard.ZstdDecompressor().decompress(packed, max_output_size=size)),
    }
    path, there = scratch / "snapshot.tar.zst", scratch / "restored"
    manifest = snapshot.describe([root], [], Purpose(name="benchmark"))
    seconds["describe"] = best(3, lambda: snapshot.describe([root], [], Purpose(name="benchmark")))
    seconds["write"] = best(3, lambda: snapshot.save(path, manifest))
    seconds["restore"] = best(3, lambda: unpack(path, there), lambda: remove(there))
    seconds["restore again"] = best(3, lambda: unpack(path, there))
    return {
        "bytes": size,
        "files": len(manifest.files),
        "archive_bytes": path.stat().st_size,
        "bit_identical": digests(cache) == digests(there),
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "megabytes_per_second": {name: round(size / 1e6 / value) for name, value in seconds.items()},
    }


def unpack(path: Path, there: Path) -> None:
    """Restore the snapshot into a folder."""
    with archive.reading(path) as reader:
        manifest, _ = reader.manifest()
        restore.restore(reader, manifest, {"inductor": there})


def remove(folder: Path) -> None:
    """Remove a folder that may not be there."""
    shutil.rmtree(folder, ignore_errors=True)


def fresh_venv(folder: Path) -> Path:
    """Make a venv of exactly this environment's distributions at another path, from uv's cache; return its interpreter.

    Where torch came from a folder of wheels, UV_FIND_LINKS names it.
    """
    import uv  # noqa: PLC0415 - only with --fresh-venv

    run = [uv.find_uv_bin(), "--quiet"]
    pins = subprocess.run(
        [*run, "pip", "freeze", "--python", sys.executable], capture_output=True, text=True, check=True
    )
    folder.parent.mkdir(parents=True)
    lock = folder.with_suffix(".txt")
    lock.write_text("".join(line + "\n" for line in pins.stdout.splitlines() if "==" in line))
    subprocess.run([*run, "venv", "--python", os.path.realpath(sys.executable), folder], check=True)
    subprocess.run([*run, "pip", "sync", "--offline", "--python", folder / "bin/python", lock], check=True)
    return folder / "bin/python"


def elsewhere(cache: Path, scratch: Path, number: int) -> dict[str, Any]:
    """Restore into a fresh venv at another path, without and with `--live`, and run the functions there."""
    python = fresh_venv(scratch / "another" / "venv")
    found: dict[str, Any] = {}
    command(["save", "real", "--venv", sys.prefix], cache, scratch)
    for name, flags in (("restored", []), ("restored --live", ["--live"])):
        there = scratch / name.replace(" ", "")
        started = time.monotonic()
        command(["restore", "real", "--venv", str(python.parent.parent), *flags], there, scratch)
        found[name] = {"restore_seconds": round(time.monotonic() - started, 1)} | compile_functions(
            python, there, number
        )
    found["cold"] = compile_functions(python, scratch / "cold", number)
    return found


def command(words: Sequence[str], cache: Path, scratch: Path) -> None:
    """Run an `envdoctor cache` command on a cache."""
    package = Path(archive.__file__).parents[2]
    environ = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
        "TRITON_CACHE_DIR": str(scratch / "no-triton"),
        "ENVDOCTOR_CACHE_STORE": str(scratch / "store"),
        "PYTHONPATH": str(package),
    }
    done = subprocess.run(
        [sys.executable, "-m", "envdoctor", "cache", *words], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def show(found: dict[str, Any]) -> None:
    """Print the figures for a person."""
    print(
        f"{found['bytes'] / 1e6:.0f} MB in {found['files']} files, {found['compiled_bytes'] / 1e6:.1f} MB of them "
        f"compiled here ({found['functions']} functions); archive {found['archive_bytes'] / 1e6:.0f} MB"
    )
    for name, speed in found["megabytes_per_second"].items():
        print(f"  {name:14} {found['seconds'][name]:8.3f} s  {speed:6} MB/s")
    print(f"bit-identical: {found['bit_identical']}")
    for name, counted in found.get("another_venv", {}).items():
        print(f"  {name}: {counted}")


def main() -> None:
    """Measure, print, and write what was printed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=350)
    parser.add_argument("--functions", type=int, default=12)
    parser.add_argument("--fresh-venv", action="store_true", help="also restore into a fresh venv at another path")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cache-roundtrip-") as folder:
        scratch = Path(folder)
        cache = scratch / "cache"
        cache.mkdir()
        cold = compile_functions(sys.executable, cache, asked.functions)
        compiled = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
        found: dict[str, Any] = {"functions": asked.functions, "compiled_bytes": compiled, "first_compile": cold}
        if asked.fresh_venv:
            found["another_venv"] = elsewhere(cache, scratch, asked.functions)
        found["filler_bytes"] = fill(cache, int(asked.megabytes * 1e6))
        found |= measure(cache, scratch)
        found["cpus"] = len(os.sched_getaffinity(0))
        found["load"] = os.getloadavg()
        show(found)
        if asked.out:
            asked.out.parent.mkdir(parents=True, exist_ok=True)
            asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
