"""`--deep` beside what the machine can hash, a second `--deep` beside the fast path, and growth with the venv's size.

    python benchmarks/deep_check.py VENV [--rounds N]

Whole processes, started from nothing, in interleaved rounds; the table shows the quickest of each, because what else
the machine does only ever adds. Time is given twice: on the clock, and as processor time of all threads, which a busy
machine blurs less. A first unmeasured round fills the page cache and compiles bytecode. Digests are remembered in a
folder of the benchmark's own. The venv is only read.

"First" is a `--deep` that remembers no digest; what binding the symbols found is remembered from an earlier check in
one row, and found anew in the other.

The yardstick is `openssl dgst -sha256` on the venv's largest files in the same round, one process a core, all at once.
"""

import argparse
import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORES = len(os.sched_getaffinity(0))
SIZES = (50, 100, 200, 400)
FILES_A_DISTRIBUTION = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one process took."""

    wall: float
    cpu: float
    peak: int
    """Bytes of memory."""


def measure(environment: Mapping[str, str], *commands: list[str], forget: Path | None = None) -> Run:
    """Run commands at once to their ends; any exit code but 0 is a failure of the benchmark.

    `forget` is a folder that an earlier run wrote, and that this one is not to find.
    """
    if forget is not None:
        shutil.rmtree(forget)
    start = time.perf_counter()
    running = [
        subprocess.Popen(command, env=dict(environment), stdout=subprocess.DEVNULL, cwd=ROOT) for command in commands
    ]
    cpu, peak = 0.0, 0
    for process in running:
        _, status, usage = os.wait4(process.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, f"{process.args!r} failed"
        cpu += usage.ru_utime + usage.ru_stime
        peak = max(peak, usage.ru_maxrss * 1024)
    return Run(wall=time.perf_counter() - start, cpu=cpu, peak=peak)


def best(runs: list[Run]) -> Run:
    """Return the least of each."""
    return Run(wall=min(run.wall for run in runs), cpu=min(run.cpu for run in runs), peak=min(run.peak for run in runs))


def check(venv: Path, *options: str) -> list[str]:
    """Return the command that checks a venv; findings do not change its exit code."""
    return [sys.executable, "-m", "envdoctor", "check", str(venv), "--exit-zero", "--quiet", *options]


def largest(venv: Path) -> tuple[list[list[str]], int]:
    """Return the largest files of a venv, shared out evenly among the cores, and their bytes together."""
    sizes = sorted(
        ((path.stat().st_size, str(path)) for path in venv.rglob("*") if path.is_file() and not path.is_symlink()),
        reverse=True,
    )
    shares: list[tuple[int, list[str]]] = [(0, []) for _ in range(CORES)]
    for size, path in sizes[: 16 * CORES]:
        least = min(range(CORES), key=lambda core: shares[core][0])
        shares[least] = shares[least][0] + size, [*shares[least][1], path]
    return [paths for _, paths in shares if paths], sum(size for size, _ in shares)


def recorded_bytes(venv: Path) -> int:
    """Return the bytes of all rows that state a hash."""
    total = 0
    for record in venv.glob("lib/python3.*/site-packages/*.dist-info/RECORD"):
        for row in record.read_text().splitlines():
            _, stated, size = row.rsplit(",", 2)
            total += int(size) if stated and size else 0
    return total


def against_openssl(venv: Path, rounds: int, environment: Mapping[str, str]) -> None:
    """Print both goals for one venv."""
    shares, yardstick = largest(venv)
    total = recorded_bytes(venv)
    memo = Path(environment["XDG_CACHE_HOME"]) / "envdoctor"
    runs: dict[str, list[Run]] = {name: [] for name in ("openssl", "cold", "first", "fast", "second")}
    for number in range(rounds + 1):
        shutil.rmtree(memo, ignore_errors=True)
        made = {
            "openssl": measure(environment, *(["openssl", "dgst", "-sha256", *share] for share in shares)),
            "cold": measure(environment, check(venv, "--deep")),
            "first": measure(environment, check(venv, "--deep"), forget=memo / "digests"),
            "fast": measure(environment, check(venv)),
            "second": measure(environment, check(venv, "--deep")),
        }
        for name, run in made.items() if number else ():
            runs[name].append(run)
    openssl, cold, first, fast, second = (best(made) for made in runs.values())
    rate = yardstick / openssl.cpu
    print(f"{venv}: {total / 1e9:.2f} GB stated in RECORDs, {CORES} cores, best of {rounds}\n")
    print(f"openssl dgst -sha256, {len(shares)} at once   {rate / 1e9:5.2f} GB a processor second")
    rows = {
        "check": fast,
        "check --deep, first": first,
        "check --deep, first, and symbols": cold,
        "check --deep, second": second,
    }
    for name, run in rows.items():
        print(f"{name:33} {run.wall:6.2f} s wall  {run.cpu:6.2f} s processor  {run.peak / 1e6:4.0f} MB")
    print()
    for name, run in (("--deep", first), ("--deep and symbols", cold)):
        by_cpu, by_wall = total / run.cpu / rate, total / run.wall / (yardstick / openssl.wall)
        title = f"{name} against {CORES} x openssl"
        print(f"{title:38} {by_wall:.2f} by the clock, {by_cpu:.2f} by processor time (0.9)")
    print(
        f"second --deep against check            {second.wall / fast.wall:.2f} by the clock, "
        f"{second.cpu / fast.cpu:.2f} by processor time (1.3)"
    )


def synthetic(prefix: Path, distributions: int) -> Path:
    """Write a venv of small distributions: real files, right RECORDs."""
    site = prefix / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    site.mkdir(parents=True)
    (prefix / "bin").mkdir()
    base = Path(os.path.realpath(sys.executable))
    (prefix / "bin/python").symlink_to(base)
    version = ".".join(map(str, sys.version_info[:3]))
    (prefix / "pyvenv.cfg").write_text(f"home = {base.parent}\nversion = {version}\n")
    for number in range(distributions):
        name = f"synthetic{number:03}"
        info = f"{name}-1.0.dist-info"
        files = {f"{name}/part{part:02}.py": f"value = {number * part}\n" * 40 for part in range(FILES_A_DISTRIBUTION)}
        files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nTag: py3-none-any\n"
        rows = [row(path, text.encode()) for path, text in files.items()]
        for path, text in {**files, f"{info}/RECORD": "".join(rows) + f"{info}/RECORD,,\n"}.items():
            (site / path).parent.mkdir(exist_ok=True)
            (site / path).write_text(text)
    return prefix


def row(path: str, content: bytes) -> str:
    """Return a RECORD row."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def growth(folder: Path, rounds: int, environment: Mapping[str, str]) -> None:
    """Print what each hundred distributions more costs."""
    memo = Path(environment["XDG_CACHE_HOME"]) / "envdoctor"
    venvs = {size: synthetic(folder / f"venv{size}", size) for size in SIZES}
    runs: dict[tuple[int, str], list[Run]] = {(size, name): [] for size in SIZES for name in ("check", "--deep")}
    for number in range(rounds + 1):
        shutil.rmtree(memo, ignore_errors=True)
        for size, venv in venvs.items():
            made = {
                "check": measure(environment, check(venv)),
                "--deep": measure(environment, check(venv, "--deep")),
            }
            for name, run in made.items() if number else ():
                runs[size, name].append(run)
    print(f"\nsynthetic venvs, {FILES_A_DISTRIBUTION + 3} files a distribution; processor seconds, best of {rounds}")
    print("distributions   check   --deep   ms more a distribution")
    last: tuple[int, float, float] | None = None
    for size in SIZES:
        fast, deep = best(runs[size, "check"]).cpu, best(runs[size, "--deep"]).cpu
        more = (
            f"{(fast - last[1]) / (size - last[0]) * 1e3:.2f} / {(deep - last[2]) / (size - last[0]) * 1e3:.2f}"
            if last
            else ""
        )
        print(f"{size:13} {fast:7.3f}  {deep:7.3f}   {more}")
        last = size, fast, deep


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("venv", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="envdoctor-bench-") as name:
        folder = Path(name)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        }
        against_openssl(arguments.venv.absolute(), arguments.rounds, environment)
        growth(folder, arguments.rounds, environment)


if __name__ == "__main__":
    main()
