"""What fp8 in target and drafter does to the drafter's loss: a small target learns text, drafters learn from it.

    python3 benchmarks/trainer_fp8_loss.py --out trainer_fp8_loss.json

The text is the source code of Python's library and packages as this machine has it, in BPE tokens. The target trains
first; then each arm trains a drafter on rows that it sees once, so that its loss is a held-out one. Arms differ in fp8,
or in the seed alone, which shows what is noise. They run at the same time on one device: no rate here says anything.
"""

# ruff: noqa: E402, PLC0415 - the repository root comes onto sys.path first
import argparse
import json
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, Qwen3Config

ARMS: dict[str, dict[str, Any]] = {
    "bf16": {}, "bf16, seed 1": {"seed": 1}, "drafter fp8": {"drafter": True},
    "drafter fp8, seed 1": {"drafter": True, "seed": 1}, "both fp8": {"target": True, "drafter": True},
    "drafter fp8, bf16 logits": {"drafter": True, "logits": True}, "target fp8": {"target": True},
}  # fmt: skip
LENGTH, MASK = 1024, 5


def text(limit: int) -> list[str]:
    """Return modules of the standard library and of the installed packages, in any order, `limit` bytes of them."""
    paths = sysconfig.get_paths()
    files = sorted({file for key in ("stdlib", "purelib") for file in Path(paths[key]).rglob("*.py")})
    random.Random(0).shuffle(files)  # noqa: S311 - an order, no secret
    taken: list[str] = []
    for file in files:
        if limit <= 0:
            break
        taken.append(file.read_text(encoding="utf-8", errors="replace"))
        limit -= len(taken[-1])
    return taken


def tokens(vocabulary: int, limit: int) -> torch.Tensor:
    """Return `limit` bytes of text as BPE tokens, int64 [T]; the first ten ids stand for no text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    written = text(limit)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [f"<{place}>" for place in range(10)]
    learner = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(written[:400], learner)
    return torch.tensor([token for each in tokenizer.encode_batch(written) for token in each.ids])


def learn_target(held: torch.Tensor, place: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train the target on the text and save it."""
    tiny = arguments.tiny
    config = Qwen3Config(
        vocab_size=arguments.vocabulary, hidden_size=64 if tiny else 1024, intermediate_size=128 if tiny else 3072,
        num_hidden_layers=6 if tiny else 10, num_attention_heads=4 if tiny else 8, num_key_value_heads=2,
        head_dim=16 if tiny else 128, max_position_embeddings=4096, tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.device(arguments.device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    steps, rows = (6, 2) if tiny else (arguments.target_steps, 32)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, 1e-3, total_steps=steps, pct_start=0.1)
    generator = torch.Generator().manual_seed(0)
    length, losses, started = 64 if tiny else LENGTH, [], time.perf_counter()
    for step in range(steps):
        begins = torch.randint(0, len(held) - length - 1, (rows,), generator=generator)
        ids = torch.stack([held[at : at + length + 1] for at in begins.tolist()]).to(arguments.device)
        with torch.autocast(torch.device(arguments.device).type, dtype=torch.bfloat16):
            logits = model(input_ids=ids[:, :-1], use_cache=False).logits
            loss = cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        schedule.step()
        adam.zero_grad()
        if step % 50 == 0 or step == steps - 1:
            losses.append((step, round(float(loss.detach()), 3)))
            print("target", losses[-1], flush=True)
    model.to(torch.bfloat16).save_pretrained(place)
    return {"losses": losses, "seconds": round(time.perf_counter() - started, 1)}


def learn_drafter(arm: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train one arm; return its log lines in short."""
    from trainer_gpu import RandomParts

    from trainer.assemble import drafter_shape
    from trainer.data.buckets import Plan
    from trainer.data.rows import Row, RowList
    from trainer.runtime import inline
    from trainer.runtime import steps as steps_module
    from trainer.runtime.session import Session
    from trainer.settings.config import build
    from trainer.target.model import published_layer_ids

    asked, tiny = ARMS[arm], arguments.tiny
    if asked.get("logits"):
        steps_module.narrow_head = lambda head: None  # type: ignore[assignment]  # noqa: ARG005
    device = torch.device(arguments.device)
    model = AutoModelForCausalLM.from_pretrained(
        arguments.work / "target", dtype=torch.bfloat16 if device.type == "cuda" else torch.float32,
        attn_implementation="sdpa",
    ).to(device)  # fmt: skip
    length = 64 if tiny else LENGTH
    held = torch.load(arguments.work / "tokens.pt")
    batch = 2 if tiny else 8
    windows = held[: len(held) // length * length].view(-1, length)
    steps = 8 if tiny else min(arguments.steps, len(windows) // batch)
    windows = windows[: steps * batch].tolist()
    prompt = length // 8
    wanted = [0] * prompt + [1] * (length - prompt)
    rows = RowList(
        rows=tuple(Row(ids=ids, wanted=wanted, origin=f"text:{place}") for place, ids in enumerate(windows)),
        digest="text",
    )
    config = build("bench", [
        {"target": {"features": 5, "fp8": asked.get("target", False) and not tiny},
         "drafter": {"layers": 3 if tiny else 5, "block": 16, "anchors": 8 if tiny else 64, "mask_token": MASK,
                     "fp8": asked.get("drafter", False) and not tiny},
         "data": {"buckets": [length], "tokens": length * batch},
         "run": {"device": device.type, "compile": "off" if tiny else "on", "save_every": 0, "evaluate": 0,
                 "log_every": 4 if tiny else 25, "steps": steps, "seed": asked.get("seed", 0)}},
    ])  # fmt: skip
    chosen = published_layer_ids(model.config.num_hidden_layers, 5)
    parts = RandomParts(
        config=config, target_path=Path(), target_config=model.config, layer_ids=chosen, tokenizer=None, rows=rows,
        plan=Plan(rows.lengths, config.data, config.run.seed), held_out=(), mask_token=MASK, pad_token=0,
        shape=drafter_shape(config, model.config, 5), model=model,
    )  # fmt: skip
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            parts=parts, output=Path(folder), saved=None, stop=lambda: False,
            report=lambda progress: lines.append(progress.line()),
            after=lambda masters, target: None, journal=lambda event, values: None,  # noqa: ARG005
        )  # fmt: skip
        session._rate = 1.0  # noqa: SLF001 - nothing is timed
        outcome = inline.run(parts, session)
    last = lines[-max(1, len(lines) // 5) :]
    return {
        "steps": steps, "last_fifth": {
            name: round(statistics.fmean(line[name] for line in last), 4) for name in ("loss", "accuracy", "run_length")
        },
        "first_position": round(statistics.fmean(line["by_position"][0] for line in last), 4),
        "compilations_after_warm_up": outcome.compilations,
        "curve": [[line["step"], round(line["loss"], 4), round(line["run_length"], 4)] for line in lines],
    }  # fmt: skip


def main() -> None:
    """Train the target, then all arms at once, or be one arm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "fp8-loss")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--target-steps", type=int, default=500)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--limit", type=float, default=200.0, help="seconds the arms may take")
    parser.add_argument("--arms", default=";".join(ARMS))
    parser.add_argument("--arm")
    parser.add_argument("--tiny", action="store_true")
    arguments = parser.parse_args()
    if arguments.arm:
        print("RESULT " + json.dumps(learn_drafter(arguments.arm, arguments)), flush=True)
        return
    started = time.perf_counter()
    arguments.work.mkdir(parents=True, exist_ok=True)
    held = tokens(arguments.vocabulary, 400_000 if arguments.tiny else 40_000_000)
    torch.save(held, arguments.work / "tokens.pt")
    print(f"{len(held):,} tokens, {time.perf_counter() - started:.1f} s", flush=True)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    record: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"), "torch": torch.__version__, "device": name, "argv": sys.argv[1:],
        "tokens": len(held), "target": learn_target(held, arguments.work / "target", arguments), "arms": {},
    }  # fmt: skip
    running = {}
    for arm in arguments.arms.split(";"):
        command = [sys.executable, __file__, *sys.argv[1:], "--arm", arm]
        running[arm] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ends = time.perf_counter() + arguments.limit
    for arm, process in running.items():
        try:
            told, failed = process.communicate(timeout=max(1.0, ends - time.perf_counter()))
            lines = [line for line in told.splitlines() if line.startswith("RESULT ")]
            found = json.loads(lines[-1].removeprefix("RESULT ")) if lines else {"failed": failed[-3000:]}
        except subprocess.TimeoutExpired:
            process.kill()
            found = {"failed": "no result in time"}
        record["arms"][arm] = found
        print(arm, json.dumps({key: value for key, value in found.items() if key != "curve"}), flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
