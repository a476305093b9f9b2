"""The incident bisected on the real stack of 7.6 GB: what is named, in how many copies, and what a copy costs.

    UV_CACHE_DIR=... python benchmarks/bisect_incident.py --folder DIR [--python 3.12]

Three venvs of the lock of profile pypi-cu128 are made by uv. In `lost` the four CUDA 13 wheels of torch 2.11.0 were
installed and uninstalled again, so that `import torch` fails; in `contaminated` they are still there: it works, with
another cuDNN. Each is bisected from `healthy`. A copy is timed by the journal, building alone and with the command;
beside it, in the same run, `uv venv` and `uv pip sync` of the same lock with every wheel in uv's cache.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import uv

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "lockfiles" / "pypi-cu128.txt"
FOREIGN = (
    "nvidia-cudnn-cu13==9.19.0.56",
    "nvidia-cusparselt-cu13==0.8.0",
    "nvidia-nccl-cu13==2.28.9",
    "nvidia-nvshmem-cu13==3.4.5",
)
IMPORT = ("python", "-c", "import torch")
VERSION = ("python", "-c", "import sys, torch; sys.exit(torch.backends.cudnn.version() != 91002)")
ROUNDS = 3


def run(command: Sequence[str | Path]) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Run a command to its end; return its seconds and what it left."""
    environ = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    start = time.monotonic()
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=environ)
    return time.monotonic() - start, done


def must(command: Sequence[str | Path]) -> float:
    """Run a command that must succeed; return its seconds."""
    seconds, done = run(command)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}")
    return seconds


def synced(venv: Path, python: str) -> float:
    """Make a venv of the lock with uv alone; return its seconds."""
    shutil.rmtree(venv, ignore_errors=True)
    seconds = must((uv.find_uv_bin(), "venv", "--quiet", "--python", python, venv))
    sync = (uv.find_uv_bin(), "pip", "sync", "--quiet", "--require-hashes", "--python", venv / "bin/python", LOCK)
    return seconds + must(sync)


def bisected(folder: Path, bad: str, command: Sequence[str]) -> None:
    """Bisect one pair and print what came of it."""
    seconds, done = run(
        (sys.executable, "-m", "envdoctor", "bisect", folder / "healthy", folder / bad, "--json", "--", *command)
    )
    print(f"\nbisect healthy {bad} -- {' '.join(command)}   exit {done.returncode}, {seconds:.1f} s")
    if not done.stdout:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    for cause in found["causes"]:
        print("  cause:", "; ".join(f"{change['kind']} {change['name']} ({change['note']})" for change in cause))
    for copy in found["copies"]:
        ran = "run" if copy["ran"] else "files alone"
        print(
            f"  {copy['outcome']:4} {len(copy['changes'])} of {len(found['changes'])}  built in "
            f"{copy['build_seconds']:.2f} s, {copy['seconds']:.2f} s in all ({ran})  {copy['why'][:90]}"
        )
    builds = [copy["build_seconds"] for copy in found["copies"]]
    print(f"  {len(builds)} copies, verified {found['verified']}, median build {statistics.median(builds):.2f} s")


def main() -> int:
    """Make the venvs, bisect both pairs, and time uv beside them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--python", default="3.12")
    wanted = parser.parse_args()
    folder = wanted.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {' '.join(sys.argv)}")
    for name in ("healthy", "contaminated", "lost"):
        synced(folder / name, wanted.python)
        if name != "healthy":
            install = (uv.find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--python")
            must((*install, folder / name / "bin/python", *FOREIGN))
    names = [pin.partition("==")[0] for pin in FOREIGN]
    must((uv.find_uv_bin(), "pip", "uninstall", "--quiet", "--python", folder / "lost/bin/python", *names))
    bisected(folder, "lost", IMPORT)
    bisected(folder, "contaminated", VERSION)
    plain = [synced(folder / "plain", wanted.python) for _ in range(ROUNDS)]
    print(f"\nuv venv + uv pip sync, warm: {', '.join(f'{one:.2f}' for one in plain)} s")
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
