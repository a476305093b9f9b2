"""Count what the gate costs when a launcher starts many ranks on one node: shared, and each for itself.

    python benchmarks/gate_ranks.py VENV --profile NAME [--ranks 64] [--old CHECKOUT] [--trace] [--cwd FOLDER]

VENV is the environment that the gate examines; its own interpreter runs the gate. The ranks are started at once, with
the variables that torchrun gives them. "apart" gives each rank a variable of its own, so that nothing is shared; --old
times the ranks of another checkout's gate. On a mount of slow_files.py the look-ups that reached it are counted.
Processor time is that of all ranks; --trace counts their stat calls by strace, in a run of its own. The first run of
each kind fills the memos and is not counted.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from envdoctor import gate
gate.require({profile!r}, mode="warn", reason="benchmark")
"""
STATS = "stat,lstat,fstat,newfstatat,statx"


def ranks(
    script: str, asked: argparse.Namespace, cache: Path, *, apart: bool, trace: Path | None = None
) -> tuple[float, float]:
    """Return (seconds by the clock, processor seconds) of all ranks. Exits where one fails."""
    shared = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ENVDOCTOR_"))}
    shared |= {"XDG_CACHE_HOME": str(cache), "XDG_RUNTIME_DIR": str(cache), "TORCHELASTIC_RUN_ID": str(time.time_ns())}
    shared |= {"ENVDOCTOR_GATE_LOG": "/dev/null", "LOCAL_WORLD_SIZE": str(asked.ranks), "WORLD_SIZE": str(asked.ranks)}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    begun = []
    for rank in range(asked.ranks):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)} | ({"APART": str(rank)} if apart else {})
        command = [f"{asked.venv}/bin/python", "-c", script]
        if trace is not None:
            command = [
                "strace",
                "-f",
                "--seccomp-bpf",
                "-qq",
                "-e",
                f"trace={STATS}",
                "-o",
                f"{trace}/{rank}",
                *command,
            ]
        begun.append(
            subprocess.Popen(
                command, env=shared | own, cwd=asked.cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )
    failed = [process.returncode for process in begun if process.wait()]
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if failed:
        sys.exit(f"error: ranks ended with {sorted(set(failed))}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def stat_calls(script: str, asked: argparse.Namespace, cache: Path, *, apart: bool) -> int:
    """Return the stat calls of all ranks."""
    with tempfile.TemporaryDirectory() as folder:
        ranks(script, asked, cache, apart=apart, trace=Path(folder))
        return sum(path.read_bytes().count(b"\n") for path in Path(folder).iterdir())


def lookups(venv: str) -> int:
    """Return the look-ups that reached the file system so far; 0 where it is not one of slow_files.py."""
    try:
        return int(os.getxattr(venv, "user.lookups"))
    except OSError:
        return 0


def main() -> None:
    """Measure each kind in turn."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("venv")
    parser.add_argument("--profile", required=True)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--old", help="a checkout of another release")
    parser.add_argument("--cwd", default=str(ROOT))
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--kinds", default="shared,apart,old", help="which of them")
    asked = parser.parse_args()
    here = SCRIPT.format(root=str(ROOT), profile=asked.profile)
    kinds = {"shared": (here, False), "apart": (here, True)}
    if asked.old:
        kinds["old"] = (SCRIPT.format(root=asked.old, profile=asked.profile), False)
    kinds = {kind: kinds[kind] for kind in asked.kinds.split(",") if kind in kinds}
    print(f"{asked.ranks} ranks, profile {asked.profile}\n  kind    clock s  processor s  stat calls  look-ups")
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            Path(folder, kind).mkdir(mode=0o700)
            one = argparse.Namespace(**vars(asked) | {"ranks": 1})
            for _ in range(2):
                ranks(kinds[kind][0], one, Path(folder, kind), apart=True)
        for _ in range(asked.rounds):
            for kind, (script, apart) in kinds.items():
                before = lookups(asked.venv)
                wall, cpu = ranks(script, asked, Path(folder, kind), apart=apart)
                print(f"  {kind:6} {wall:8.2f} {cpu:12.2f} {'':11} {lookups(asked.venv) - before or '':9}", flush=True)
        for kind, (script, apart) in kinds.items() if asked.trace else ():
            print(
                f"  {kind:6} {'':8} {'':12} {stat_calls(script, asked, Path(folder, kind), apart=apart):11}", flush=True
            )


if __name__ == "__main__":
    main()
