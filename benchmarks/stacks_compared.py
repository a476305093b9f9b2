"""How long the comparison of many nodes' stacks takes.

    python benchmarks/stacks_compared.py [NODES...]

Each node has a sheet of 400 facts of its own, as a fingerprint file gives it; every tenth differs in one fact.
"""

import argparse
import json
import time

from envdoctor.compare.majority import compare_all
from envdoctor.compare.sheet import StackSheet

PACKAGES = 380


def sheet(node: int) -> StackSheet:
    """Return the sheet of one node, decoded from JSON, so that no two nodes share an object."""
    facts = {f"package p{at}": f"1.{at} ({at:012x})" for at in range(PACKAGES)}
    facts |= {f"variable NCCL_{at}": str(at) for at in range(15)}
    facts |= {
        "torch": "2.10.0+cu128",
        "NCCL": "nvidia-nccl-cu12 2.27.5",
        "driver": "570.1",
        "stack": "sha256:" + "0" * 64,
    }
    if node % 10 == 9:
        facts |= {f"package p{node % PACKAGES}": f"other {node}", "stack": f"sha256:{node:064x}"}
    return StackSheet(facts=json.loads(json.dumps(facts)))


def main() -> None:
    """Print one line a size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", nargs="*", type=int, default=[10, 100, 1000, 4000])
    for nodes in parser.parse_args().nodes:
        sheets = {f"n{at}": sheet(at) for at in range(nodes)}
        started = time.perf_counter()
        found = compare_all(sheets)
        took = time.perf_counter() - started
        print(f"{nodes:5d} nodes: {took:.3f} s, {len(found.odd)} odd, {len(found.rows)} facts differ")


if __name__ == "__main__":
    main()
