"""Three drafters on one CUDA device, new shapes arriving: as threads without the gate, with it, and as processes.

Each scenario runs in a child of its own with a cold compile cache and a watchdog, so that a hang is a result:

    python3 benchmarks/race_gpu.py --out race_gpu.json
"""

# ruff: noqa: PLC0415 - a child imports torch itself, after its caches are chosen
import argparse
import contextlib
import faulthandler
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

CONTEXTS = (512, 640, 768, 896, 1024)
"""The first is met cold by everybody at once; each later one arrives while the others step."""


def plan(worker: int, steps: int) -> list[int]:
    """Return the context length of each step of a worker: a new one every fifth of the run, then a rotation."""
    every = max(1, steps // len(CONTEXTS))
    chosen = []
    for step in range(steps):
        known = min(len(CONTEXTS), 1 + max(0, step - 3 * worker) // every)
        arrived = known > 1 and (step - 3 * worker) % every == 0
        chosen.append(CONTEXTS[known - 1] if arrived else CONTEXTS[step % known])
    return chosen


def make_worker(device: str, backend: str, gate: object) -> tuple[object, object, object]:
    """Return a drafter step, its optimizer and a maker of batches."""
    import torch

    from trainer.data.loader import BatchMaker
    from trainer.drafter.model import Drafter, DrafterShape
    from trainer.runtime.steps import DrafterStep
    from trainer.settings.sections import DrafterConfig, OptimConfig, RunConfig
    from trainer.step.optim import Optimizer
    from trainer.target.model import SharedWeights

    where = torch.device(device)
    dtype = torch.bfloat16 if where.type == "cuda" else torch.float32
    wide = 512 if where.type == "cuda" else 64
    shape = DrafterShape(
        hidden=wide, layers=2, heads=8, key_value_heads=4, head_dim=wide // 8, intermediate=2 * wide, features=2
    )
    generator = torch.Generator().manual_seed(0)
    table = (torch.randn(4096, wide, generator=generator) * 0.02).to(where, dtype)
    config = DrafterConfig(layers=2, block=16, anchors=32)
    model = Drafter(shape)
    model.reset(0)
    run = RunConfig(compile="on", backend=backend)
    shared = SharedWeights(embedding=table, head=table)
    step = DrafterStep(model.to(where, dtype), shared, config, 4095, run, gate)  # type: ignore[arg-type]
    return step, Optimizer(step.parameters, OptimConfig(), 1000), BatchMaker(None, None, config, 0, pin=False)  # type: ignore[arg-type]


def work(worker: int, arguments: argparse.Namespace, gate: object, done: list[int], errors: list[str]) -> None:
    """Be one drafter: step, exchange nothing, step again."""
    import torch

    from trainer.compile.state import prepare_thread
    from trainer.data.loader import choose_anchors

    try:
        if arguments.device == "cuda":
            torch.cuda.set_device(0)
        prepare_thread()
        step, optimizer, maker = make_worker(arguments.device, arguments.backend, gate)
        where = torch.device(arguments.device)
        generator = torch.Generator().manual_seed(worker)
        for index, context in enumerate(plan(worker, arguments.steps)):
            ids = torch.randint(0, 4000, (2, context), generator=generator)
            spoken = torch.ones(2, context, dtype=torch.bool)
            anchors = choose_anchors(spoken, 32, generator)
            batch = maker.finish(index, ids, spoken, anchors, tokens=ids.numel(), origins=("random",)).to(where)
            features = torch.randn(
                2, context, 2 * step.shared.embedding.shape[1], device=where, dtype=step.shared.embedding.dtype
            )
            step.run(batch, features)
            optimizer.step(index, max(batch.weight, 1.0))
            done[worker] += 1
        if arguments.device == "cuda":
            torch.cuda.synchronize()
    except BaseException as error:  # noqa: BLE001 - every kind of failure is a result
        errors.append(f"worker {worker}: {type(error).__name__}: {str(error).splitlines()[0][:300]}")


def child(arguments: argparse.Namespace) -> None:
    """Run one scenario and print one JSON line."""
    faulthandler.dump_traceback_later(arguments.limit - 8, exit=False)
    from trainer.compile.state import compile_counts, damage
    from trainer.runtime.compile_gate import CompileGate
    from trainer.runtime.steps import OpenDoor

    gate = CompileGate() if arguments.child == "guarded" else OpenDoor()
    workers = [arguments.worker] if arguments.child == "process" else list(range(arguments.workers))
    done, errors = [0] * arguments.workers, []
    threads = [
        threading.Thread(target=work, args=(worker, arguments, gate, done, errors), daemon=True) for worker in workers
    ]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        time.sleep(1)
        print(json.dumps({"done": done, "errors": len(errors)}), flush=True)
    faulthandler.cancel_dump_traceback_later()
    counts = compile_counts()
    told = {
        "done": done, "errors": errors, "seconds": round(time.monotonic() - started, 1), "damage": damage(),
        "graphs": counts.graphs, "compilations": counts.events,
    }  # fmt: skip
    if isinstance(gate, CompileGate):
        stats = gate.stats
        told["gate"] = {
            "alone": stats.alone,
            "together": stats.together,
            "demoted": stats.demoted,
            "waited": round(stats.waited, 1),
        }
    print(json.dumps({"final": told}), flush=True)
    # Hung or failed daemon threads must not keep the interpreter from ending.
    os._exit(0)


def scenario(name: str, arguments: argparse.Namespace, limit: int) -> dict[str, object]:
    """Run one scenario in children under a watchdog."""
    cold = Path(tempfile.mkdtemp(prefix="race-cache-"))
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(cold / "inductor"),
        "TRITON_CACHE_DIR": str(cold / "triton"),
    }
    base = [
        sys.executable, __file__, "--steps", str(arguments.steps), "--workers", str(arguments.workers), "--device",
        arguments.device, "--backend", arguments.backend, "--limit", str(limit),
    ]  # fmt: skip
    commands = [[*base, "--child", name]]
    if name == "process":
        commands = [[*base, "--child", name, "--worker", str(worker)] for worker in range(arguments.workers)]
    started = time.monotonic()
    children = []
    for place, command in enumerate(commands):
        out, err = (cold / f"out-{place}").open("w"), (cold / f"err-{place}").open("w")
        children.append(subprocess.Popen(command, stdout=out, stderr=err, env=environment, start_new_session=True))
    hung = False
    for each in children:
        try:
            each.wait(timeout=max(1.0, limit - (time.monotonic() - started)))
        except subprocess.TimeoutExpired:
            hung = True
    for each in children:
        if each.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()
    results = [_last(cold / f"out-{place}") for place in range(len(commands))]
    tails = [(cold / f"err-{place}").read_text()[-6000:] for place in range(len(commands))]
    shutil.rmtree(cold, ignore_errors=True)
    codes = [each.returncode for each in children]
    # The stacks of a hang and the last words of a crash; a finished child has nothing to say.
    stderr = [tail for tail, result in zip(tails, results, strict=True) if "final" not in result]
    wall = round(time.monotonic() - started, 1)
    return {"scenario": name, "hung": hung, "wall": wall, "exit_codes": codes, "workers": results, "stderr": stderr}


def _last(path: Path) -> dict[str, object]:
    lines = [line for line in path.read_text().splitlines() if line.startswith("{")]
    return dict(json.loads(lines[-1])) if lines else {}


def main() -> None:
    """Run the scenarios and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--steps", type=int, default=200, help="steps of each worker")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--scenarios", default="unguarded,guarded,process")
    parser.add_argument("--limit", type=int, default=0, help="seconds a scenario may take (default by scenario)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    record: dict[str, object] = {"torch": torch.__version__, "device": name, "contexts": CONTEXTS, "results": []}
    limits = {"unguarded": 75, "guarded": 240, "process": 200}
    for each in arguments.scenarios.split(","):
        result = scenario(each, arguments, arguments.limit or limits[each])
        record["results"].append(result)  # type: ignore[attr-defined]
        shown = {key: value for key, value in result.items() if key != "stderr"}
        print(json.dumps(shown), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
