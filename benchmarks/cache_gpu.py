"""The trainer's start with a cold, a warm and a restored compile cache: seconds to the first optimizer step.

    python3 benchmarks/cache_gpu.py --out cache_gpu.json [--device cuda] [--tiny]

Needs torch, transformers, packaging and zstandard beside this repository. Three starts of `python -m trainer`, each a
process of its own with nothing else in its caches: cold; warm, over what the cold one left; and restored, over a
snapshot of that, after the caches were deleted. Their counts are torch's own, and files that appeared. The target is a
random-weight Qwen3 with the built-in tokenizer, so nothing is downloaded; its teaching is not a part of any figure.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from envdoctor.cache import archive, restore, snapshot  # noqa: E402 - the repository comes onto sys.path first
from envdoctor.cache.key_parts import KeyPart  # noqa: E402
from envdoctor.cache.layout import Root, count_entries, files  # noqa: E402
from envdoctor.cache.snapshot import Purpose  # noqa: E402
from envdoctor.cache.static_key import key_parts  # noqa: E402
from envdoctor.cache.status import examine  # noqa: E402
from envdoctor.cache.store import label, labels  # noqa: E402
from envdoctor.errors import EnvdoctorError  # noqa: E402
from envdoctor.facts.context import Options, Reading  # noqa: E402
from envdoctor.facts.host import Host  # noqa: E402
from envdoctor.facts.target import resolve  # noqa: E402
from envdoctor.probes.caches.compile_caches import CompileCaches  # noqa: E402
from envdoctor.probes.registry import PROBES  # noqa: E402

# Runs the trainer and writes torch's counters when it ends.
TRAINER = """
import atexit, json, os, runpy, sys

def tell():
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    groups = [group for group in ("inductor", "aot_autograd", "stats") if group in counters]
    with open(os.environ["COUNTERS_OUT"], "w") as file:
        json.dump({group: dict(counters[group]) for group in groups}, file)

atexit.register(tell)
runpy.run_module("trainer", run_name="__main__", alter_sys=True)
"""
# Makes the target: the built-in one's tokenizer, random weights of a useful size.
TARGET = """
import shutil, sys, torch
from pathlib import Path
from transformers import Qwen3Config, Qwen3ForCausalLM
from trainer.target import toy

torch.set_num_threads(1)  # its matrices are tiny: threads that wait for each other make it many times slower
taught = toy.folder(toy.cache_folder())
if sys.argv[3] == "tiny":
    print(taught)
    raise SystemExit
place = shutil.copytree(taught, Path(sys.argv[1]) / "target")
config = Qwen3Config.from_pretrained(taught)
config.update(dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=8, num_attention_heads=16,
                   num_key_value_heads=8, head_dim=64, max_position_embeddings=4096, layer_types=None))
config = Qwen3Config(**{k: v for k, v in config.to_dict().items() if k != "layer_types"})
torch.manual_seed(0)
with torch.device(sys.argv[2]):
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
for old in place.glob("*.safetensors"):
    old.unlink()
model.save_pretrained(place)
print(place)
"""


class Bench:
    """One measuring: where its caches lie and what was found so far."""

    def __init__(self, asked: argparse.Namespace, scratch: Path) -> None:
        """Choose folders that hold nothing yet."""
        self.asked, self.scratch = asked, scratch
        self.roots = (
            Root(kind="inductor", path=scratch / "inductor", found_via="TORCHINDUCTOR_CACHE_DIR"),
            Root(kind="triton", path=scratch / "triton", found_via="TRITON_CACHE_DIR"),
        )
        self.environ = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(self.roots[0].path),
            "TRITON_CACHE_DIR": str(self.roots[1].path),
            "CUDA_CACHE_PATH": str(scratch / "nv"),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(asked.trainer_root), os.environ.get("PYTHONPATH", "")))),
            "COUNTERS_OUT": str(scratch / "counters.json"),
            "TOKENIZERS_PARALLELISM": "false",
        }
        self.found: dict[str, Any] = {"argv": sys.argv[1:], "starts": {}}

    def write(self) -> None:
        """Write what was found so far."""
        if self.asked.out:
            self.asked.out.parent.mkdir(parents=True, exist_ok=True)
            self.asked.out.write_text(json.dumps(self.found, indent=1) + "\n")

    def key(self) -> tuple[tuple[KeyPart, ...], Reading]:
        """Return this environment's key, read from files, and the reading it came from."""
        host = replace(Host.current(), environ=self.environ)
        reading = Reading(target=resolve(sys.executable), host=host, options=Options(), probes=PROBES)
        return key_parts(reading), reading

    def status(self) -> dict[str, Any]:
        """Return what `envdoctor cache status` says now."""
        try:
            started = time.monotonic()
            key, reading = self.key()
            found = examine(
                reading.fact(CompileCaches).caches,
                labels(self.roots[0].path),
                key,
                uid=os.getuid(),
                environ=self.environ,
            )
        except EnvdoctorError as error:
            return {"state": "error", "reasons": [error.message]}
        return {"state": found.state, "reasons": list(found.reasons), "seconds": round(time.monotonic() - started, 2)}

    def make_target(self) -> Path:
        """Make the target model before anything is timed."""
        size = "tiny" if self.asked.tiny else "full"
        words = [sys.executable, "-c", TARGET, str(self.scratch), self.asked.device, size]
        done = subprocess.run(words, env=self.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return Path(done.stdout.strip().splitlines()[-1])

    def start(self, name: str, target: Path) -> None:
        """Start the trainer once and keep when its first step was done and what was compiled."""
        said = self.status()
        before = {(file.root, file.path) for file in files(self.roots)}
        output = self.scratch / f"run-{name}"
        words = [sys.executable, "-c", TRAINER, *self.arguments(target), "--output", str(output)]
        started = time.monotonic()
        process = subprocess.Popen(
            words, env=self.environ, cwd=self.scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        first = self.first_step(process, output / "metrics.jsonl", started)
        text, _ = process.communicate(timeout=self.asked.limit)
        assert process.returncode == 0, text[-3000:]
        added = [file for file in files(self.roots) if (file.root, file.path) not in before]
        counters = json.loads((self.scratch / "counters.json").read_text())
        self.found["starts"][name] = {
            "status_before": said,
            "seconds_to_first_step": round(first, 2),
            "seconds_in_all": round(time.monotonic() - started, 2),
            **self.counted(counters),
            "entries_added": dict(count_entries(added)),
        }
        self.write()
        print(f"{name:9} {json.dumps(self.found['starts'][name])}", flush=True)

    def arguments(self, target: Path) -> list[str]:
        """Return the trainer's arguments: three steps, a line for each, every bucket warmed before the first."""
        buckets = "[48,64]" if self.asked.tiny else "[64,512,2048]"
        settings = ["run.log_every=1", "run.save_every=0", "run.evaluate=0", f"data.buckets={buckets}"]
        if not self.asked.tiny:
            settings += ["data.tokens=2048", "drafter.block=16", "drafter.anchors=16"]
        chosen = [word for setting in (*settings, *self.asked.set) for word in ("--set", setting)]
        return [
            *("--profile", "cpu-smoke", "--gate", "off", "--gate-reason", "measuring the compile cache"),
            *("--device", self.asked.device, "--compile", "on", "--runtime", "inline", "--steps", "3", "--quiet"),
            *("--target", str(target), *chosen),
        ]

    def first_step(self, process: "subprocess.Popen[str]", journal: Path, started: float) -> float:
        """Return when the journal's first step appeared, in seconds after the start."""
        while time.monotonic() - started < self.asked.limit:
            if journal.exists() and '"event": "step"' in journal.read_text():
                return time.monotonic() - started
            if process.poll() is not None:
                raise SystemExit(f"the trainer ended before its first step: {process.communicate()[0][-3000:]}")
            time.sleep(0.02)
        process.kill()
        raise SystemExit(f"no step within {self.asked.limit:g} s: {process.communicate()[0][-3000:]}")

    def counted(self, counters: dict[str, dict[str, int]]) -> dict[str, int]:
        """Return torch's counters of the cache, and its number of captured graphs."""
        kept = {"graphs": counters.get("stats", {}).get("unique_graphs", 0)}
        for group in ("inductor", "aot_autograd"):
            found = counters.get(group, {}).items()
            kept |= {name: value for name, value in found if name.endswith(("_hit", "_miss", "_bypass"))}
        return kept

    def save_and_delete(self) -> Path:
        """Take a snapshot and delete the caches."""
        path = self.scratch / "warm.tar.zst"
        started = time.monotonic()
        manifest = snapshot.describe(self.roots, self.key()[0], Purpose(name="warm"))
        described = time.monotonic()
        snapshot.save(path, manifest)
        self.found["save"] = {
            "bytes": manifest.bytes,
            "files": len(manifest.files),
            "entries": dict(manifest.entries),
            "archive_bytes": path.stat().st_size,
            "describe_seconds": round(described - started, 3),
            "write_seconds": round(time.monotonic() - described, 3),
        }
        for root in self.roots:
            shutil.rmtree(root.path, ignore_errors=True)
        shutil.rmtree(self.scratch / "nv", ignore_errors=True)
        print(f"save      {json.dumps(self.found['save'])}", flush=True)
        return path

    def restore(self, path: Path) -> None:
        """Restore the snapshot."""
        started = time.monotonic()
        with archive.reading(path) as reader:
            manifest, _ = reader.manifest()
            merged = restore.restore(reader, manifest, {root.kind: root.path for root in self.roots})
        seconds = time.monotonic() - started
        label(self.roots[0].path, merged.manifest)
        self.found["restore"] = {"seconds": round(seconds, 3), **merged.outcomes, "relocated": merged.relocated}
        print(f"restore   {json.dumps(self.found['restore'])}", flush=True)


def main() -> None:
    """Measure the three starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="the built-in target and small buckets")
    parser.add_argument("--trainer-root", type=Path, default=ROOT, help="folder that holds the trainer package")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="more of the trainer's settings"
    )
    parser.add_argument("--limit", type=float, default=170, metavar="SECONDS", help="longest that one start may take")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cache-gpu-") as folder:
        bench = Bench(asked, Path(folder))
        target = bench.make_target()
        bench.start("cold", target)
        bench.start("warm", target)
        path = bench.save_and_delete()
        bench.restore(path)
        bench.start("restored", target)
        bench.write()
    print(
        "seconds to the first optimizer step: "
        + ", ".join(f"{name} {start['seconds_to_first_step']}" for name, start in bench.found["starts"].items())
    )


if __name__ == "__main__":
    main()
