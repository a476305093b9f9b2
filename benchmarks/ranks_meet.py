"""How long the ranks of a job take to meet: many real processes, each with nothing but the meeting to do.

    python benchmarks/ranks_meet.py [--tcp] [--odd] [--away] [RANKS...]

Each is forked from this process, waits until all are there, and goes through `envdoctor.gate_ranks.compared`.
"""

import argparse
import importlib
import json
import os
import resource
import sys
import time

from envdoctor import gate_ranks
from envdoctor.facts.host import Host
from envdoctor.model.frozen import replace
from envdoctor.ranks.job import job_of

FACTS = {f"package p{at}": f"1.{at} ({at:012x})" for at in range(200)} | {"torch": "2.10.0+cu128", "stack": "sha256:0"}


def rank(number: int, size: int, options: argparse.Namespace, begin: int, out: int) -> None:
    """Be one rank; write how long the meeting took it, and its outcome."""
    local = "1" if options.tcp else str(size)
    environ = {"RANK": str(number), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": local, "LOCAL_RANK": str(number),
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(os.getppid()),
               "ENVDOCTOR_RANKS": "require", "ENVDOCTOR_RANKS_TIMEOUT": "20" if options.away else "60"}  # fmt: skip
    job = job_of(environ)
    assert job is not None
    facts = FACTS | ({"torch": "2.9.0"} if options.odd and number == size - 1 else {})
    os.read(begin, 1)  # until the parent has started all of them
    if options.away and number == size // 2:
        return
    host = replace(Host.current(), environ=environ)
    said: list[str] = []
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.monotonic()
    own = gate_ranks.Own(code=0, sheet=json.dumps({"facts": facts, "unread": {}}))
    code = gate_ranks.compared(job, host, own, "p", said.append)
    took = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    os.write(out, f"{number} {code} {took:.4f} {spent:.4f}\n".encode())
    if said and not number and said[-1].startswith("error"):
        print(said[-1], flush=True)


def run(size: int, options: argparse.Namespace) -> str:
    """Return one line of the table."""
    inside, out = os.pipe()
    begin, started = os.pipe()
    children = []
    for number in range(size):
        child = os.fork()
        if not child:
            os.close(inside)
            os.close(started)
            try:
                rank(number, size, options, begin, out)
            finally:
                sys.stdout.flush()
                os._exit(0)
        children.append(child)
    os.close(out)
    os.close(begin)
    os.close(started)
    with os.fdopen(inside) as lines:
        rows = [line.split() for line in lines]
    for child in children:
        os.waitpid(child, 0)
    took = sorted(float(row[2]) for row in rows)
    zero = next((float(row[3]) for row in rows if row[0] == "0"), 0.0)
    codes = {code: sum(row[1] == code for row in rows) for code in sorted({row[1] for row in rows})}
    spent = sum(float(row[3]) for row in rows) / len(rows)
    times = f"last {took[-1]:.3f} s, median {took[len(took) // 2]:.3f} s"
    return f"{size:5d} ranks: {times}; processor time: rank 0 {zero:.3f} s, mean {spent:.4f} s; exit codes {codes}"


def main() -> None:
    """Print one line a number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks", nargs="*", type=int, default=[2, 4, 16, 64, 250, 1000])
    for name, text in (("tcp", "over TCP, as between nodes"), ("odd", "the last differs"), ("away", "one never comes")):
        parser.add_argument(f"--{name}", action="store_true", help=text)
    options = parser.parse_args()
    for name in ("ranks.joining", "ranks.meeting", "report.ranks_text"):
        importlib.import_module(f"envdoctor.{name}")  # as the gate has loaded them by then
    for size in options.ranks:
        print(run(size, options), flush=True)


if __name__ == "__main__":
    main()
