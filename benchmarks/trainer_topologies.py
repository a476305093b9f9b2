"""Targets and drafters on several CUDA devices: as processes over NCCL, or as threads behind the compile gate.

    python3 benchmarks/trainer_topologies.py --out two.json                        # 1 target + 1 drafter, two devices
    python3 benchmarks/trainer_topologies.py --targets 2 --drafters 2 --out ...    # four devices
    python3 benchmarks/trainer_topologies.py --runtime threads --out ...           # one process
    python3 benchmarks/trainer_topologies.py --runtime data-parallel --drafters 2 --out ...    # both on each device
    ... --chat --pack  # several short rows in one of 4,096
    ... --chat       # short rows, 55 % the assistant's;  --sliding    # four of the five layers slide (window 2048)

Weights are random and of Qwen3-8B's size, the same on every device; everything else is the trainer's own runtime:
loader, grants or channels, hand-over, reduction, log lines.
"""

# ruff: noqa: PLC0415 - the repository root comes onto sys.path first

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def worker(arguments: argparse.Namespace) -> None:
    """Be one rank, or all workers as threads; the lead writes the record."""
    import copy
    import dataclasses

    import torch
    from trainer_gpu import Bench, RandomParts

    from trainer.device import matmul_rate
    from trainer.records.metrics import Progress
    from trainer.runtime import data_parallel, processes, threads
    from trainer.runtime.session import Session
    from trainer.target.model import SharedWeights, Target
    from trainer.target.tensor_parallel import TensorGroup

    rank = int(os.environ.get("RANK", "0"))
    cuda, together = arguments.device == "cuda", arguments.runtime == "threads"
    if cuda:
        torch.cuda.set_device(rank)
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")

    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Parts(RandomParts):
        def load_target(self, device: torch.device, group: TensorGroup | None = None) -> Target:
            del group
            here = next(self.model.parameters()).device == device
            return Target(self.model if here else copy.deepcopy(self.model).to(device), self.layer_ids)

        def load_shared(self, device: torch.device) -> SharedWeights:
            embedding = self.model.get_input_embeddings().weight.detach().clone()
            head = self.model.get_output_embeddings().weight.detach().clone()
            return SharedWeights(embedding=embedding.to(device), head=head.to(device))

    asked = argparse.Namespace(
        device=arguments.device if together else str(device), tiny=arguments.tiny, backend=arguments.backend,
        rows=arguments.rows, steps=arguments.steps, sections="", out=None,
        chat=arguments.chat, sliding=arguments.sliding, pack=arguments.pack,
    )  # fmt: skip
    bench = Bench(asked)
    config = bench.config(steps=arguments.steps, backend=arguments.backend)
    topology = dataclasses.replace(
        config.topology, targets=arguments.targets, drafters=arguments.drafters, runtime=arguments.runtime
    )
    config = dataclasses.replace(config, topology=topology)
    made = bench.parts(config)
    parts = Parts(**{field.name: getattr(made, field.name) for field in dataclasses.fields(made)})
    lines: list[Progress] = []
    told: list[dict[str, object]] = []

    def report(progress: Progress) -> None:
        lines.append(progress)
        waits = {name: round(share, 3) for name, share in progress.waits.items()}
        print(f"step {progress.step} {progress.tokens_per_second:,.0f} tok/s waits {waits}", flush=True)

    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            parts=parts, output=Path(folder), saved=None, stop=lambda: False, report=report, lead=rank == 0,
            after=lambda masters, target: None,  # noqa: ARG005
            journal=lambda event, values: told.append({"event": event, **values}),
        )  # fmt: skip
        session._rate = matmul_rate(device, bench.dtype)  # noqa: SLF001 - measured before anybody works
        runners = {"threads": threads.run, "processes": processes.run, "data-parallel": data_parallel.run}
        outcome = runners[arguments.runtime](parts, session)
    print(json.dumps({"rank": rank, "told": told, "notes": session.notes, "peak_gb": bench.peak()}), flush=True)
    if outcome is None:
        return
    record = {
        "torch": torch.__version__, "nccl": str(torch.cuda.nccl.version()) if cuda else "",
        "device": torch.cuda.get_device_name(device) if cuda else "cpu", "runtime": arguments.runtime,
        "targets": arguments.targets, "drafters": arguments.drafters, "rows": arguments.rows,
        "chat": arguments.chat, "sliding": arguments.sliding, "pack": arguments.pack,
        "tokens_per_second": round(outcome.tokens_per_second), "mfu": round(outcome.utilisation, 4),
        "memory_growth": outcome.growth, "compilations_after_warm_up": outcome.compilations,
        "rate_tflops": round(session._rate / 1e12, 1), "wall_s": round(time.perf_counter() - started, 1),  # noqa: SLF001
        "notes": session.notes, "lines": [line.line() for line in lines],
    }  # fmt: skip
    print(json.dumps({key: value for key, value in record.items() if key != "lines"}), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")


def main() -> None:
    """Start one process a device and wait for all, or be the one process of all threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=1)
    parser.add_argument("--drafters", type=int, default=1)
    parser.add_argument("--runtime", choices=("processes", "threads", "data-parallel"), default="processes")
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("--sliding", action="store_true")
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if "RANK" in os.environ or arguments.runtime == "threads":
        worker(arguments)
        return
    world = arguments.drafters + (0 if arguments.runtime == "data-parallel" else arguments.targets)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    started = [
        subprocess.Popen(
            [sys.executable, __file__, *sys.argv[1:]],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(world)
    ]
    while any(each.poll() is None for each in started):
        if any(each.poll() for each in started):
            for each in started:
                each.kill()
        time.sleep(0.2)
    sys.exit(max(abs(each.returncode) for each in started))


if __name__ == "__main__":
    main()
