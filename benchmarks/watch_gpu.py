"""`envdoctor run --watch` over two trainings of one GPU: a healthy one, and the same in a forced eager fallback.

    python3 benchmarks/watch_gpu.py --out FOLDER        # under five minutes on one card

The training is a drafter of plain Hugging Face parts with compiled flex_attention (benchmarks/trainer_baseline.py) on
random weights; our own trainer ends with an error instead of running flex_attention uncompiled. A first run, not
watched, measures what the profile expects; the second is watched as it is, the third with TORCHDYNAMO_DISABLE=1. The
processor time of the watching processes is read from /proc over a minute of the healthy run. `--toy` prints numbers
in place of a training, to try the script without a GPU.
"""

# ruff: noqa: PLC0415 - the repository root comes onto sys.path first, and the tool's process needs no torch
import argparse
import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
TICKS = os.sysconf("SC_CLK_TCK")
# As the installed command would start: its own libraries and none of the folders that variables name.
TOOL = "import sys; sys.path += {path!r}; from envdoctor.__main__ import main; main()"
CONTEXT, WIDTH, ANCHORS, LAYERS = 4096, 16, 192, 3
SIZES = {
    "vocab_size": 32768, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 4,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960,
    "rope_theta": 1_000_000.0,
}  # fmt: skip


def train(seconds: float, metrics: Path) -> None:
    """Train for so long after the first step, a line a second on stdout and in the metrics file."""
    import torch
    from trainer_baseline import PlainDrafter, plain_step
    from transformers import AutoModelForCausalLM, Qwen3Config

    device = torch.device("cuda")
    torch.manual_seed(0)
    config = Qwen3Config(**SIZES, tie_word_embeddings=False)
    with device:
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
        drafter = PlainDrafter(Qwen3Config(**{**SIZES, "num_hidden_layers": LAYERS}), LAYERS)
    model.eval().requires_grad_(requires_grad=False)
    adam = torch.optim.AdamW(drafter.parameters(), lr=1e-4)
    ids = torch.randint(10, SIZES["vocab_size"], (1, CONTEXT), device=device)
    anchors = torch.randperm(CONTEXT - WIDTH - 2, device=device)[:ANCHORS].sort().values[None] + 1
    queries = ANCHORS * WIDTH
    batch = SimpleNamespace(
        ids=ids, anchors=anchors, loss_mask=torch.ones(1, CONTEXT, device=device),
        shape=SimpleNamespace(context=CONTEXT, width=WIDTH, queries=queries, keys=CONTEXT + queries),
    )  # fmt: skip

    def step() -> float:
        return float(plain_step(model, drafter, adam, batch, (0, 1, 2), 7.0, 5))

    steps(step, CONTEXT, seconds, metrics)


def steps(step: Any, tokens: int, seconds: float, metrics: Path) -> None:
    """Call `step` and log what it does, a line about every second."""
    done, loss = 1, step()
    begun = logged = time.monotonic()
    since = 0
    with metrics.open("a") as file:
        while time.monotonic() - begun < seconds:
            loss = step()
            done, since, now = done + 1, since + 1, time.monotonic()
            if now - logged < 1.0:
                continue
            rate = since * tokens / (now - logged)
            print(f"step {done:>6}  loss {loss:.3f}  {rate:,.0f} tok/s", flush=True)
            line = {"event": "step", "time": time.time(), "step": done, "loss": loss, "tokens_per_second": rate}
            file.write(json.dumps(line) + "\n")
            file.flush()
            logged, since = now, 0


def toy_step() -> float:
    """Take the time of a step, longer where compiling is off."""
    time.sleep(0.4 if os.environ.get("TORCHDYNAMO_DISABLE") else 0.1)
    return 1.0


class Run(NamedTuple):
    """One run: its lines with the seconds after its start, its exit code, the watch's processor time over a minute."""

    lines: list[tuple[float, str]]
    code: int
    processor: float | None


def launched(command: list[str], environ: dict[str, str], folder: Path, *, measured: bool) -> Run:
    """Run a command and keep every line of both streams as it comes."""
    begun = time.monotonic()
    process = subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines: list[tuple[float, str]] = []
    cost: list[float] = []
    first = threading.Event()
    meter = threading.Thread(target=minute_of, args=(process.pid, first, cost), daemon=True)
    if measured:
        meter.start()
    for line in process.stdout:
        lines.append((time.monotonic() - begun, line.rstrip()))
        print(f"{lines[-1][0]:7.2f}  {lines[-1][1]}", flush=True)
        if "tok/s" in line:
            first.set()
    code = process.wait()
    return Run(lines, code, cost[0] if cost else None)


def minute_of(pid: int, first: threading.Event, cost: list[float]) -> None:
    """Put the processor seconds that the watching processes take in a minute into `cost`."""
    first.wait()
    time.sleep(2)
    try:
        watching = [pid, *(child for child in children(pid) if "nvml_samples" in command_of(child))]
        before = sum(map(processor_of, watching))
        time.sleep(60)
        cost.append(sum(map(processor_of, watching)) - before)
    except OSError:
        return  # it ended within the minute


def children(pid: int) -> list[int]:
    """Return the ids of a process's children."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_of(pid: int) -> str:
    """Return the command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def processor_of(pid: int) -> float:
    """Return the processor seconds of one process, its ended children left out (proc(5): schedstat, or stat)."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        pass
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rates(run: Run) -> list[float]:
    """Return the tokens a second of every line."""
    found = [line.rpartition(" tok/s")[0].split()[-1] for _, line in run.lines if line.endswith(" tok/s")]
    return [float(text.replace(",", "")) for text in found]


def profile_in(folder: Path, expected: float) -> None:
    """Write a profile of the smoke test's lock that expects so many tokens a second."""
    for name in ("profiles", "lockfiles"):
        (folder / name).mkdir()
    text = (ROOT / "profiles/cpu-smoke.toml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("tokens_per_second", "memory_flat_within"))]
    body = "\n".join(line for line in lines if line != "[expected]").replace('name = "cpu-smoke"', 'name = "bench"')
    added = f"\n[expected]\ntokens_per_second = {expected:.1f}\nmemory_flat_within = 0.01\n"
    (folder / "profiles/bench.toml").write_text(body + added)
    (folder / "lockfiles/cpu-smoke.txt").write_text((ROOT / "lockfiles/cpu-smoke.txt").read_text())


def main() -> None:
    """Run the three and write what they said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder of the two logs and the figures")
    parser.add_argument("--toy", action="store_true", help="no training: numbers alone")
    parser.add_argument("--seconds", type=float, default=75.0, help="of each watched run after its first step")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        if options.toy:
            steps(toy_step, 2000, options.seconds, options.work)
        else:
            train(options.seconds, options.work)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    own = [sys.executable, str(Path(__file__).resolve()), *(["--toy"] if options.toy else [])]
    environ = {name: value for name, value in os.environ.items() if name != "TORCHDYNAMO_DISABLE"}
    # The runs have a folder of their own.
    paths = environ.get("PYTHONPATH", "").split(":")
    environ["PYTHONPATH"] = ":".join(str(Path(path).resolve()) for path in paths if path)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        metrics = folder / "metrics.jsonl"
        print("== what a healthy run reaches", flush=True)
        calm = launched([*own, "--seconds", "25", "--work", str(metrics)], environ, folder, measured=False)
        expected = statistics.median(rates(calm)[3:])
        profile_in(folder, expected)
        found: dict[str, Any] = {"argv": sys.argv[1:], "expected_tokens_per_second": round(expected)}
        for kind, more in (("healthy", {}), ("fallback", {"TORCHDYNAMO_DISABLE": "1"})):
            print(f"== watched: {kind}", flush=True)
            command = [
                sys.executable, "-I", "-c", TOOL.format(path=[str(ROOT), *sys.path[3:]]), "run", "--profile", "bench",
                "--venv", sys.prefix, "--gate", "off", "--reason", "speed alone is looked at", "--watch",
                *("--metrics", f"{kind}.jsonl"), "--", *own, *("--seconds", f"{options.seconds:g}"),
                *("--work", str(folder / f"{kind}.jsonl")),
            ]  # fmt: skip
            run = launched(command, environ | more, folder, measured=kind == "healthy")
            found[kind] = summary(run, folder / f"{kind}.jsonl")
            head = f"# benchmarks/watch_gpu.py, {kind}, {dt.datetime.now(dt.UTC):%Y-%m-%d}; seconds, line\n"
            text = "".join(f"{at:7.2f}  {line}\n" for at, line in run.lines)
            (options.out / f"watch-{kind}.txt").write_text(head + text)
    (options.out / "watch.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def summary(run: Run, metrics: Path) -> dict[str, Any]:
    """Return when what was said, and what it cost."""
    began = next((at for at, line in run.lines if line.endswith(" tok/s")), None)
    said = [(at, line) for at, line in run.lines if "envdoctor watch:" in line]
    events = [line for line in map(json.loads, metrics.read_text().splitlines()) if line["event"] == "watch"]
    return {
        "exit_code": run.code,
        "tokens_per_second": round(statistics.median(rates(run)[3:] or [0.0])),
        "first_line_s": began and round(began, 1),
        "said": [{"s_after_first_line": round(at - (began or 0.0), 1), "text": line} for at, line in said],
        "in_metrics": [line["kind"] for line in events],
        "processor_s_in_60_s": run.processor,
        "cost": run.processor and run.processor / 60,
    }


if __name__ == "__main__":
    main()
