"""Check popular stacks as the index resolves them today: every verdict proved, every printed remedy obeyed.

    python benchmarks/popular_stacks.py --folder DIR [--only NAME ...] [--output FILE] [--seconds N] [--named]

One stack at a time: a venv made by uv, unpinned, with downloads as uv is configured; `envdoctor check`, and what
`check --deep` says otherwise; what importing
each top-level module raises, in a fork after `import torch`; then, in a linked copy, each primary finding's commands as
printed and a check again. The venv is removed before the next one. A stack that the index does not give is reported in
the resolver's own words. The table at the end counts; the raw findings are above it. Needs a network.

`--named` imports only the modules of distributions that a finding names or that were asked for: minutes instead of an
hour on a slow machine. It still proves each verdict, and says nothing about the modules that nothing names.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uv

ROOT = Path(__file__).resolve().parents[1]
# The first 23 are those of the first measurement; the last ten were added.
STACKS: dict[str, tuple[str, str]] = {
    "torch-2.6": ("3.12", "torch==2.6.0"),
    "torch-2.5": ("3.12", "torch==2.5.1"),
    "torch-2.4": ("3.12", "torch==2.4.1"),
    "qwen": ("3.12", "qwen-vl-utils[decord] transformers timm torch"),
    "codec": ("3.12", "torchcodec torchaudio torchvision"),
    "gpukit": ("3.12", "flashinfer-python cupy-cuda12x onnxruntime-gpu numba-cuda torch"),
    "jax-cuda12": ("3.12", "jax[cuda12] flax torch"),
    "jax-cuda13": ("3.12", "jax[cuda13] torch"),
    "trl": ("3.12", "trl peft transformers accelerate datasets bitsandbytes sentence-transformers"),
    "xgboost": ("3.13", "xgboost lightgbm catboost faster-whisper torch"),
    "torchrec": ("3.12", "torchrec fbgemm-gpu torchao"),
    "megatron": ("3.12", "megatron-core transformer-engine-cu13 torch"),
    "lightning": ("3.12", "lightning torchmetrics timm open-clip-torch monai torch-geometric"),
    "diffusers": ("3.12", "diffusers xformers transformers"),
    "tensorflow": ("3.12", "tensorflow[and-cuda] torch"),
    "unsloth": ("3.12", "unsloth"),
    "vllm-verl": ("3.12", "verl vllm"),
    "sglang": ("3.12", "sglang"),
    "llamafactory": ("3.11", "llamafactory"),
    "deepspeed-ray": ("3.12", "deepspeed ray[train] torch"),
    "nemo": ("3.12", "nemo-toolkit[asr]"),
    "dali": ("3.12", "nvidia-dali-cuda130 cuml-cu12 decord warp-lang tilelang torch"),
    "axolotl": ("3.11", "axolotl"),
    "flair": ("3.12", "flair spacy torch"),
    "ultralytics": ("3.12", "ultralytics albumentations"),
    "whisper": ("3.12", "openai-whisper torchaudio"),
    "stable-baselines": ("3.12", "stable-baselines3 gymnasium torch"),
    "speechbrain": ("3.12", "speechbrain torchaudio"),
    "botorch": ("3.12", "botorch ax-platform"),
    "optimum": ("3.12", "optimum[onnxruntime] transformers torch"),
    "vector": ("3.12", "faiss-cpu sentence-transformers chromadb"),
    "kornia": ("3.12", "kornia segmentation-models-pytorch torchvision"),
    "pyg-dgl": ("3.12", "torch-geometric torch-scatter pyg-lib torch"),
    # Beside the 33: what each of these resolves to without its companion above.
    "vllm": ("3.12", "vllm"),
    "pyg": ("3.12", "torch-geometric pyg-lib torch"),
    # Added on 2026-12-01.
    "keras": ("3.12", "keras tensorflow-cpu jax torch"),
    "whisperx": ("3.12", "whisperx"),
    "rapids": ("3.12", "cudf-cu12 torch"),
    "torchtune": ("3.12", "torchtune torchao bitsandbytes"),
    "ray": ("3.12", "ray[train,tune] lightning torchmetrics torch"),
    "pyannote": ("3.12", "pyannote.audio"),
    "docling": ("3.12", "docling"),
    "lerobot": ("3.12", "lerobot"),
    "autogluon": ("3.12", "autogluon.tabular[all]"),
    "neuralforecast": ("3.12", "neuralforecast"),
    "onnxruntimes": ("3.12", "onnxruntime onnxruntime-gpu optimum torch"),
    "lmdeploy": ("3.12", "lmdeploy"),
    "haystack": ("3.12", "haystack-ai langchain-huggingface sentence-transformers llama-index"),
    "mmdet": ("3.12", "mmengine mmdet torchvision"),
    "coqui": ("3.12", "coqui-tts torchaudio torchcodec"),
    # Fine-tuning and serving on rented GPUs, added the same day.
    "swift": ("3.12", "ms-swift deepspeed liger-kernel"),
    "liger": ("3.12", "liger-kernel trl peft deepspeed bitsandbytes wandb hf-transfer"),
    "speculators": ("3.12", "speculators"),
    "llmcompressor": ("3.12", "llmcompressor"),
    "lmcache": ("3.12", "lmcache vllm"),
    # What people train with, added the same day.
    "torchtitan": ("3.12", "torchtitan"),
    "fla": ("3.12", "flash-linear-attention trl"),
    "litgpt": ("3.12", "litgpt[all]"),
    "torchrl": ("3.12", "torchrl tensordict gymnasium"),
    "automodel": ("3.12", "nemo-automodel"),
    "composer": ("3.11", "mosaicml"),
    "lm-eval": ("3.12", "lm-eval[hf,api] sae-lens"),
}
"""Name -> Python, and what is asked of the index."""

PROBE = """
import importlib.metadata as m, json, os, re, sys
only = set(sys.argv[1:])
tops = set()
for dist in m.distributions():
    if only and re.sub("[-_.]+", "-", dist.metadata["Name"]).lower() not in only: continue
    if dist.metadata["Name"] in ("pip", "setuptools", "wheel"): continue
    for path in dist.files or ():
        top = path.parts[0]
        # faiss_cpu.libs holds libraries alone.
        if "." in top and len(path.parts) > 1: continue
        if path.name.endswith((".py", ".so")) and ".." not in top and "-" not in top and not top.startswith("__"):
            tops.add(top.split(".")[0])
# Once, before the forks: it takes seconds, and each of them is to find it imported.
error = ""
try: import torch
except BaseException as raised: error = type(raised).__name__ + ": " + str(raised)[:300]
if "torch" in tops: print(json.dumps(["torch", error]), flush=True)
for top in sorted(tops - {"torch"}):
    if not top.isidentifier(): continue
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        null = os.open(os.devnull, os.O_RDWR)
        for at in (0, 1, 2): os.dup2(null, at)
        import signal; signal.alarm(120 if only else 600)
        said = ""
        try:
            __import__(top)
        except BaseException as error:
            said = type(error).__name__ + ": " + str(error)[:300]
        os.write(writer, said.encode(errors="replace")); os._exit(0)
    os.close(writer)
    said = os.read(reader, 4000).decode(errors="replace")
    status = os.waitpid(child, 0)[1]
    if status == 14: said = "not told: it took longer than %d minutes" % (2 if only else 10)
    print(json.dumps([top, said or (f"died with status {status}" if status else "")]), flush=True)
"""


@dataclass(slots=True, kw_only=True)
class Result:
    """What came of one stack."""

    name: str
    refused: str = ""
    summary: str = ""
    """The torch that was resolved, and how many distributions."""
    seconds: float = 0.0
    deep: str = ""
    """What `check --deep` says otherwise than `check`."""
    findings: list[dict[str, Any]] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    obeyed: list[str] = field(default_factory=list)
    """One line for each finding whose commands were run: what they came to."""


def main() -> None:
    """Measure the stacks that are asked for, print each as it is done, and the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path, required=True, help="where the venvs are made, one at a time")
    options.add_argument("--only", nargs="*", default=[], help=f"some of {', '.join(STACKS)}")
    options.add_argument("--output", type=Path, default=None, help="append the same to this file")
    options.add_argument("--seconds", type=float, default=0, help="start no further stack after so many seconds")
    options.add_argument("--named", action="store_true", help="import what a finding names or was asked for, no more")
    options.add_argument("--room", type=float, default=20, help="GB that must be free before a stack is started")
    chosen = options.parse_args()
    started = time.monotonic()
    results = []
    for name in chosen.only or STACKS:
        if chosen.seconds and time.monotonic() - started > chosen.seconds:
            break
        with tempfile.TemporaryDirectory(dir=chosen.folder, prefix=f"{name}-", ignore_cleanup_errors=True) as folder:
            results.append(_measure(name, Path(folder), named=chosen.named, room=chosen.room))
        _say(_block(results[-1]), chosen.output)
    _say(_table(results), chosen.output)


def _say(text: str, output: Path | None) -> None:
    print(text, flush=True)
    if output:
        with output.open("a") as file:
            file.write(text + "\n")


def _uv(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
    return subprocess.run(
        [uv.find_uv_bin(), *map(str, arguments)], env=environment, capture_output=True, text=True, check=False
    )


def _measure(name: str, folder: Path, *, named: bool, room: float) -> Result:
    python, asked = STACKS[name]
    result, venv = Result(name=name), folder / "venv"
    if shutil.disk_usage(folder).free < room * 10**9:
        result.refused = f"less than {room:g} GB free"
        return result
    for done in (
        _uv("venv", "-q", "--python", python, venv),
        _uv("pip", "install", "-q", "--python", venv / "bin/python", *asked.split()),
    ):
        if done.returncode:
            result.refused = " ".join(done.stderr.split())[:500]
            return result
    before = time.monotonic()
    result.findings = _check(venv)
    result.seconds = time.monotonic() - before
    result.deep = _deep(venv, result.findings)
    installed = _installed(venv)
    result.summary = f"torch {installed.get('torch', 'absent')}, {len(installed)} distributions"
    only = _named(asked, result.findings, set(installed)) if named else []
    result.failing = _failing(venv, only)
    _obey(result, venv, folder, only)
    return result


def _installed(venv: Path) -> dict[str, str]:
    """Return name -> version as uv lists them, torch with the CUDA version of its build."""
    listed = {
        item["name"]: item["version"] for item in json.loads(_uv("pip", "list", "--format=json", "-p", venv).stdout)
    }
    for file in venv.glob("lib/python3*/site-packages/torch/version.py"):
        listed["torch"] = next(line.split("'")[1] for line in file.read_text().splitlines() if line.startswith("__ver"))
    return listed


def _named(asked: str, findings: list[dict[str, Any]], installed: set[str]) -> list[str]:
    """Return the distributions that were asked for, and those that an error or a warning names in any of its lines."""
    texts = [asked.replace("==", " ")]
    for item in findings:
        if item["severity"] != "note":
            texts += [item["subject"], item["title"], *item["evidence"], *item["remediation"]["commands"]]
    words = {
        re.sub(r"[-_.]+", "-", word).lower() for text in texts for word in re.findall(r"[A-Za-z0-9][\w.-]*\w", text)
    }
    return sorted(words & installed)


def _deep(venv: Path, plain: list[dict[str, Any]]) -> str:
    """Name the findings that only one of `check` and `check --deep` has."""
    sides = [
        {f"{item['code']} [{item['subject'][:80]}]" for item in found} for found in (plain, _check(venv, "--deep"))
    ]
    return ", ".join([f"also {name}" for name in sides[1] - sides[0]] + [f"not {name}" for name in sides[0] - sides[1]])


def _check(venv: Path, *options: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "envdoctor", "check", venv, "--json", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(f"check ended with {done.returncode}: {done.stderr[-2000:]}")
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def _failing(venv: Path, only: list[str]) -> dict[str, str]:
    done = subprocess.run(
        [venv / "bin/python", "-c", PROBE, *only],
        cwd=venv,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["')]
    return {top: error for top, error in said if error} | ({} if said else {"python": done.stderr[-300:]})


def _obey(result: Result, venv: Path, folder: Path, only: list[str]) -> None:
    """Run each primary finding's commands in a linked copy at the venv's own place, so that they stand as printed."""
    aside = folder / "as-it-was"
    for item in result.findings:
        commands = item["remediation"]["commands"]
        if item["caused_by"] is not None or not commands:
            continue
        venv.rename(aside)
        shutil.copytree(aside, venv, symlinks=True, copy_function=os.link)
        result.obeyed.append(_came_to(item, commands, venv, result.failing, only))
        shutil.rmtree(venv)
        shutil.rmtree(folder / ".envdoctor", ignore_errors=True)
        aside.rename(venv)


def _came_to(item: dict[str, Any], commands: list[str], venv: Path, failing: dict[str, str], only: list[str]) -> str:
    name = f"{item['code']} {item['subject'][:60]}"
    path = f"{Path(uv.find_uv_bin()).parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    for command in commands:
        typed = f"{command} --yes" if command.startswith(("envdoctor repair", "envdoctor restore")) else command
        done = subprocess.run(
            ["/bin/bash", "-ec", typed],
            env={**os.environ, "PATH": path},
            cwd=venv.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"{name}: FAILS: {command}: {' '.join(done.stderr.split())[-300:]}"
    again = _check(venv)
    if any((found["code"], found["subject"]) == (item["code"], item["subject"]) for found in again):
        return f"{name}: THE SAME AGAIN"
    worse = {top: error for top, error in _failing(venv, only).items() if top not in failing}
    errors = [f"{found['code']} {found['subject'][:60]}" for found in again if found["severity"] == "error"]
    return (
        f"{name}: gone" + (f"; NOW FAILING {worse}" if worse else "") + (f"; errors then: {errors}" if errors else "")
    )


def _block(result: Result) -> str:
    lines = [f"== {result.name}: {STACKS[result.name][1]} (Python {STACKS[result.name][0]})"]
    if result.refused:
        return "\n".join([*lines, f"   not made: {result.refused}"])
    for item in result.findings:
        hangs = "   " if item["caused_by"] is not None else ""
        lines.append(f"   {hangs}{item['severity']} {item['code']} [{item['subject'][:80]}] {item['title'][:300]}")
        lines += [f"   {hangs}    $ {command}" for command in item["remediation"]["commands"]]
    lines.insert(1, f"   {result.summary}; check took {result.seconds:.2f} s")
    lines.append(f"   check --deep: {result.deep or 'the same'}")
    lines += [f"   import {top}: {error}" for top, error in result.failing.items()]
    lines += [f"   obeyed {line}" for line in result.obeyed]
    return "\n".join(lines)


def _table(results: list[Result]) -> str:
    lines = [
        "",
        "| stack | errors | warnings | notes | imports that fail | obeyed | check, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        if result.refused:
            lines.append(f"| {result.name} | not made | | | | | |")
            continue
        counts = [sum(item["severity"] == kind for item in result.findings) for kind in ("error", "warning", "note")]
        good = sum(line.endswith(": gone") or ": gone; errors" in line for line in result.obeyed)
        lines.append(
            f"| {result.name} | {counts[0]} | {counts[1]} | {counts[2]} | {len(result.failing)} | "
            f"{good} of {len(result.obeyed)} | {result.seconds:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
