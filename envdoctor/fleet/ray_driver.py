"""Runs in an interpreter that has Ray, and imports nothing else: one task pinned to each node of a cluster.

Reads one line of JSON from standard input (address, timeout, bytes), and behind it so many bytes, which each task gets;
prints one JSON line a node as it comes. `shell` is a template for all nodes, `shells` has one for each of some nodes;
with neither, nodes are only named. It is given to that interpreter as text.
"""

import base64
import json
import re
import sys
import time
from typing import Any


def task(shell: str, program: bytes, timeout: float, maximum: int) -> tuple[int, bytes, bytes]:
    """Run the shell's script with the program on its standard input; return (exit code, output, errors)."""
    import subprocess  # noqa: PLC0415 - on the node

    process = subprocess.Popen(
        ["sh", "-c", shell],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    )
    try:
        out, err = process.communicate(program, timeout)
    except subprocess.TimeoutExpired:
        process.terminate()  # what changes a venv puts the old one back first
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        return -1, b"", f"it did not answer within {timeout:g} s".encode()
    return process.returncode, out[: maximum + 1], err[-2000:]


def main() -> None:
    """Ask every node that is alive; name those that are not, or that end meanwhile."""
    import ray  # noqa: PLC0415 - this interpreter may not have it, which its caller names
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415 - as above

    asked = json.loads(sys.stdin.buffer.readline())
    given = sys.stdin.buffer.read(asked["bytes"])
    ray.init(address=asked["address"], log_to_driver=False, logging_level="ERROR", configure_logging=True)
    program = ray.put(given)
    # Its code travels by value, since no node has a file of it.
    work = ray.remote(num_cpus=0, max_retries=0, max_calls=1)(task)
    nodes, shells = ray.nodes(), asked.get("shells")
    names = [node.get("NodeName") or node["NodeManagerHostname"] for node in nodes]
    waiting = {}
    if shells is not None:
        tell("", code=0, out="", err="")  # from here on, what becomes of a node is not known until it is told
    for name, node in zip(names, nodes, strict=True):
        called = name if names.count(name) == 1 else f"{name}/{node['NodeID'][:8]}"
        if shells is not None and called not in shells:
            continue
        if not node["Alive"]:
            tell(called, problem="Ray says that it is dead", begun=False)
            continue
        if not re.fullmatch(r"[A-Za-z0-9_.:/-]+", called):
            tell(called, problem="its name cannot be a part of a path", begun=False)
            continue
        if shells is None and "shell" not in asked:
            tell(called, code=0, out="", err="")
            continue
        shell = shells[called] if shells is not None else asked["shell"].replace("{node}", called)
        where = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        options = work.options(scheduling_strategy=where, name="envdoctor")
        waiting[options.remote(shell, program, asked["timeout"], asked["maximum"])] = called
    until = time.monotonic() + asked["timeout"]
    while waiting and time.monotonic() < until:
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=max(0.1, until - time.monotonic()))
        for one in ready:
            finish(ray, one, waiting.pop(one))
    for called in waiting.values():
        tell(called, problem=f"its task did not end within {asked['timeout']:g} s")


def finish(ray: Any, one: Any, called: str) -> None:
    """Print what a task returned, or why it returned nothing."""
    try:
        code, out, err = ray.get(one)
    except Exception as error:  # noqa: BLE001 - every exception of Ray's is this node's answer
        said = str(error).strip().splitlines() or [""]
        tell(called, problem=f"its task ended with {type(error).__name__}: {said[0][:300]}")
        return
    tell(called, code=code, out=base64.b85encode(out).decode(), err=err.decode("utf-8", "replace"))


def tell(name: str, **values: object) -> None:
    """Print a line."""
    print(json.dumps({"node": name, **values}), flush=True)  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main()
