"""What the comparison of ranks adds to a start under torchrun, and what it refuses.

    PYTHONPATH=. python benchmarks/ranks_torchrun.py [--ranks N] [--pairs N] [--gloo]

Every rank goes through the gate of this checkout in a small venv; with `--gloo` it then becomes a Python with torch,
forms a process group on CPU and sums over it. Pairs with and without the comparison alternate in one run.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.factories.make_incident import Incident, make_gated_incident
from tests.factories.make_wheel import make_wheel

ROOT = Path(__file__).resolve().parent.parent
GROUP = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print("sum", int(one), flush=True)
dist.destroy_process_group()  # a rank that ends with its group's threads at work is aborted now and then
"""


TIMED = """
import os, sys, time
sys.path.insert(0, {root!r})
from envdoctor import gate, gate_ranks
inner = gate_ranks.compared
def timed(*given):
    came = time.monotonic()
    code = inner(*given)
    file = os.open("times", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, ("%f %f\\n" % (came, time.monotonic())).encode())
    return code
gate_ranks.compared = timed
"""


def script(gloo: str) -> str:
    """Return what each rank runs."""
    then = f"os.execv({sys.executable!r}, [{sys.executable!r}, {gloo!r}])" if gloo else "print('started', flush=True)"
    return f"{TIMED.format(root=str(ROOT))}gate.require('small')\n{then}\n"


def torchrun(incident: Incident, start: Path, ranks: int, **variables: str) -> tuple[float, float, int, str]:
    """Return how long torchrun took, by the clock and of the processor, its exit code, and what all printed."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(ranks),
        "--no-python",
    ]
    kept = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(incident.root),
        "XDG_RUNTIME_DIR": str(incident.root),
        "OMP_NUM_THREADS": "1",
    }
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [*command, str(start)], cwd=incident.root, env=kept | variables, capture_output=True, text=True, check=False
    )
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, spent, done.returncode, done.stdout + done.stderr


def _last(folder: Path) -> str:
    """Say how long after the last rank had come the last one was let go: what the comparison adds to a start."""
    path = folder / "times"
    if not path.exists():
        return ""
    rows = [[float(word) for word in line.split()] for line in path.read_text().splitlines()]
    path.unlink()
    return (
        f", last rank let go {max(row[1] for row in rows) - max(row[0] for row in rows):.3f} s after the last had come"
    )


def main() -> None:
    """Print the pairs, then a rank of another venv, and one that never comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--gloo", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        usual = make_gated_incident(root / "usual")
        extra = make_wheel(root / "wheels", "extra", "1.0", files={"extra.py": ""})
        other = make_gated_incident(root / "other", more=[extra])
        (root / "group.py").write_text(GROUP)
        (root / "train.py").write_text(script(str(root / "group.py") if options.gloo else ""))
        start = root / "start.sh"
        start.write_text(
            f'#!/bin/sh\n[ "$RANK" = "$ODD" ] && exec {other.venv.python} {root}/train.py\n'
            f'[ "$RANK" = "$AWAY" ] && exec sleep 600\nexec {usual.venv.python} {root}/train.py\n'
        )
        start.chmod(0o755)
        times: dict[str, list[float]] = {"off": [], "compare": []}
        processor: dict[str, list[float]] = {"off": [], "compare": []}
        for pair in range(options.pairs):
            for mode in ("off", "compare") if pair % 2 else ("compare", "off"):
                took, spent, code, said = torchrun(usual, start, options.ranks, ENVDOCTOR_RANKS=mode)
                whole = said.count(f"sum {options.ranks}" if options.gloo else "started") == options.ranks
                times[mode].append(took)
                processor[mode].append(spent)
                told = (
                    f"{mode:7s} {took:7.2f} s, {spent:.2f} s of the processor, exit code {code}, all started: {whole}"
                )
                print(f"{options.ranks} ranks, {told}{_last(usual.root)}, load {os.getloadavg()[0]:.0f}", flush=True)
        off, on = (statistics.median(times[mode]) for mode in ("off", "compare"))
        added = statistics.median(b - a for a, b in zip(times["off"], times["compare"], strict=True))
        print(
            f"medians: off {off:.2f} s, compare {on:.2f} s; median difference of the pairs {added:+.2f} s", flush=True
        )
        of_all = statistics.median(b - a for a, b in zip(processor["off"], processor["compare"], strict=True))
        print(f"processor time of all ranks and torchrun: median of the differences {of_all:+.2f} s", flush=True)
        rank = str(options.ranks // 2 + 1)
        for variables in ({"ODD": rank}, {"AWAY": rank, "ENVDOCTOR_RANKS": "require", "ENVDOCTOR_RANKS_TIMEOUT": "20"}):
            took, spent, code, said = torchrun(usual, start, options.ranks, **variables)
            kept = [
                line
                for line in said.splitlines()
                if line.startswith(
                    (
                        "error: envdoctor gate: the ranks",
                        f"error: envdoctor gate: rank {rank}",
                        "  stack",
                        "  package",
                        "help",
                        "note",
                    )
                )
            ]
            print(f"\n{variables}: {took:.2f} s, exit code {code}", *kept, sep="\n", flush=True)


if __name__ == "__main__":
    main()
