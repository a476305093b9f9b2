"""A process that has torch loaded and forks one child a run: real inductor, at the price of one import.

Reads one JSON request a line: {"cache": folder, "functions": [names], "config": {...}, "environ": {...},
"torch_key": hex, "gpu": name, "processes": n}. Answers with one JSON list, one object of counters for each process.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

# The instruction set is not measured by compiling test programs, and nothing is compiled in a pool of workers.
os.environ |= {"TORCHINDUCTOR_VEC_ISA_OK": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}

import torch
import torch._functorch._aot_autograd.autograd_cache
import torch._inductor.codegen.cpp
import torch._inductor.compile_fx
from torch._dynamo.utils import counters
from torch._inductor import codecache, config


def double(x: Any) -> Any:
    """Return something to compile."""
    return (x.relu() * 2).sum()


def shift(x: Any) -> Any:
    """Return something else to compile."""
    return (x + 3).cos().mean()


FUNCTIONS = {"double": double, "shift": shift}


def compile_and_report(request: dict[str, Any], out: int) -> None:
    """Compile and run the functions in a forked child, then write torch's counters to `out`."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = request["cache"]
    os.environ |= request.get("environ", {})
    for name, value in request.get("config", {}).items():
        setattr(config, name, value)
    if key := request.get("torch_key"):
        codecache.torch_key.clear()
        codecache.torch_key.set(bytes.fromhex(key))
    if gpu := request.get("gpu"):
        system = {"device": {"name": gpu}, "version": {"triton": None, "cuda": "12.8"}, "hash": gpu}
        codecache.CacheBase.get_system = staticmethod(lambda: system)
    if blob := request.get("load"):
        torch.compiler.load_cache_artifacts(Path(blob).read_bytes())
    wanted = {"double": 128.0, "shift": -0.6536}
    for name in request["functions"]:
        result = torch.compile(FUNCTIONS[name], fullgraph=True)(torch.ones(64))
        assert abs(float(result) - wanted[name]) < 0.001, (name, float(result))
    if blob := request.get("store"):
        saved = torch.compiler.save_cache_artifacts()
        assert saved is not None
        Path(blob).write_bytes(saved[0])
    found = {name: count for group in ("inductor", "aot_autograd") for name, count in counters[group].items()}
    os.write(out, json.dumps(found).encode() + b"\n")


def fork(request: dict[str, Any], out: int) -> int:
    """Start one run and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        compile_and_report(request, out)
    except BaseException as error:  # noqa: BLE001 - a child must not return into the parent's loop
        os.write(out, json.dumps({"error": repr(error)[:300]}).encode() + b"\n")
    os._exit(0)


def say(value: Any) -> None:
    """Write one line of JSON."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Answer requests until stdin ends."""
    say({"torch_key": codecache.torch_key().hex()})
    for line in sys.stdin:
        request = json.loads(line)
        end, out = os.pipe()
        pids = [fork(request, out) for _ in range(request.get("processes", 1))]
        os.close(out)
        with os.fdopen(end) as answers:
            found = [json.loads(answer) for answer in answers]
        ends = [os.waitpid(pid, 0)[1] for pid in pids]
        found += [{"error": f"killed by signal {os.WTERMSIG(status)}"} for status in ends if os.WIFSIGNALED(status)]
        say(found)


main()
