"""envdoctor beside what else one would ask about a venv: wall time, exit code, what each noticed.

    python benchmarks/check_against_peers.py VENV [--rounds N] [--contaminate]

Every command is a whole process, started from nothing, in interleaved rounds; the table shows medians. A row marked
"no bytecode" compiles what it imports, as on the first start in a fresh venv; the others find theirs, written in an
unmeasured first round to a folder beside the venv, not into it. With --contaminate a copy of the venv is broken as
the incident broke it (the other CUDA major's wheels installed over the venv's own, then uninstalled) and everything is
asked again about the copy. The venv itself is never changed.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

# The wheels of the other CUDA major that torch 2.11.0 from the default index pins: they write the same paths.
FOREIGN = {
    "12": (
        "nvidia-cudnn-cu13==9.19.0.56",
        "nvidia-nccl-cu13==2.28.9",
        "nvidia-cusparselt-cu13==0.8.0",
        "nvidia-nvshmem-cu13==3.4.5",
    ),
    "13": (
        "nvidia-cudnn-cu12==9.19.0.56",
        "nvidia-nccl-cu12==2.28.9",
        "nvidia-cusparselt-cu12==0.7.1",
        "nvidia-nvshmem-cu12==3.4.5",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A command that is asked about a venv."""

    name: str
    command: tuple[str, ...]
    bytecode: bool = True
    """False: compiled anew each time."""
    absent: str = ""
    """Why it cannot be asked; empty when it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool said, and how long it took each time."""

    seconds: tuple[float, ...]
    code: int
    output: str


def tools(venv: Path) -> list[Tool]:
    """Return the commands; pip is asked through `pip --python`, because a uv venv holds no pip."""
    python = str(venv / "bin/python")
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    here = sys.executable
    has_pip = subprocess.run([here, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    check = (here, "-m", "envdoctor", "check", str(venv))
    collect = (python, "-m", "torch.utils.collect_env")
    return [
        Tool(name="envdoctor check", command=check),
        Tool(name="envdoctor check, no bytecode", command=check, bytecode=False),
        Tool(
            name="pip check",
            command=(here, "-m", "pip", "--python", python, "check"),
            absent="" if has_pip else "no pip beside this Python",
        ),
        Tool(
            name="uv pip check", command=(uv or "uv", "pip", "check", "--python", python), absent="" if uv else "no uv"
        ),
        Tool(name="torch collect_env", command=collect),
        Tool(name="torch collect_env, no bytecode", command=collect, bytecode=False),
    ]


def ask(asked: list[Tool], rounds: int, folder: Path) -> dict[str, Answer]:
    """Run every tool `rounds` times in turns, after one unmeasured turn that warms page cache and bytecode for all."""
    seconds: dict[str, list[float]] = {tool.name: [] for tool in asked}
    last: dict[str, tuple[int, str]] = {}
    for turn in range(rounds + 1):
        for tool in asked:
            environ = _environment(tool, folder)
            started = time.perf_counter()
            done = subprocess.run(
                tool.command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            if turn:
                seconds[tool.name].append(time.perf_counter() - started)
            last[tool.name] = (done.returncode, done.stdout)
    return {
        name: Answer(seconds=tuple(times), code=last[name][0], output=last[name][1]) for name, times in seconds.items()
    }


def _environment(tool: Tool, folder: Path) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # Python looks for bytecode under the prefix alone: there it is written once, or never.
    environ["PYTHONPYCACHEPREFIX"] = str(folder / ("bytecode" if tool.bytecode else "none"))
    return environ if tool.bytecode else environ | {"PYTHONDONTWRITEBYTECODE": "1"}


def judged(answer: Answer, owner: str) -> tuple[str, str]:
    """Return whether the tool noticed anything, and whether it named the distribution whose file is gone."""
    noticed = "yes" if answer.code else "no"
    return noticed, "yes" if owner and owner in answer.output else "no"


def table(answers: dict[str, Answer], owner: str) -> str:
    """Return the table; the ratio is to `envdoctor check`."""
    base = statistics.median(answers["envdoctor check"].seconds)
    lines = [f"{'command':32}{'median s':>10}{'min s':>8}{'ratio':>8}{'exit':>6}  noticed  names the owner"]
    for name, answer in answers.items():
        median = statistics.median(answer.seconds)
        noticed, named = judged(answer, owner)
        figures = f"{median:10.3f}{min(answer.seconds):8.3f}{median / base:8.1f}{answer.code:6}"
        lines.append(f"{name:32}{figures}  {noticed:7}  {named}")
    return "\n".join(lines)


def last_lines(answers: dict[str, Answer]) -> str:
    """Return what each said last: the line a person would go by."""
    shown = []
    for name, answer in answers.items():
        words = [line for line in answer.output.splitlines() if line.strip()]
        shown.append(f"{name}: {words[-1].strip()[:140] if words else '(nothing)'}")
    return "\n".join(shown)


def contaminated(venv: Path, folder: Path) -> tuple[Path, str]:
    """Copy the venv and break the copy; return it and the owner of the first file lost."""
    copy = folder / venv.name
    subprocess.run(["cp", "-a", "--reflink=auto", str(venv), str(copy)], check=True)
    python = copy / "bin/python"
    major = next(
        (major for major in ("12", "13") if any(copy.glob(f"lib/python3*/site-packages/nvidia_cudnn_cu{major}-*"))), ""
    )
    if not major:
        sys.exit(f"error: {venv} holds no nvidia-cudnn wheel that another CUDA major's could overwrite")
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") or "uv"
    names = [spec.partition("==")[0] for spec in FOREIGN[major]]
    subprocess.run([uv, "pip", "install", "-q", "--no-deps", "--python", python, *FOREIGN[major]], check=True)
    subprocess.run([uv, "pip", "uninstall", "-q", "--python", python, *names], check=True)
    return copy, f"nvidia-cudnn-cu{major}"


def report(title: str, venv: Path, options: argparse.Namespace, folder: Path, owner: str) -> None:
    """Ask everything about one venv and print the table."""
    asked = tools(venv)
    for tool in asked:
        if tool.absent:
            print(f"not asked: {tool.name} ({tool.absent})")
    answers = ask([tool for tool in asked if not tool.absent], options.rounds, folder)
    print(f"\n{title}: {venv}, {options.rounds} rounds\n{table(answers, owner)}")
    print(f"\nlast line of each:\n{last_lines(answers)}")


def main() -> None:
    """Parse the command line, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("venv", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contaminate", action="store_true")
    options = parser.parse_args()
    venv = options.venv.absolute()
    # Beside the venv: on the same filesystem, so that the broken copy may share its blocks.
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=venv.parent) as folder:
        report("as it is", venv, options, Path(folder), "")
        if options.contaminate:
            copy, owner = contaminated(venv, Path(folder))
            report("contaminated, then cleaned", copy, options, Path(folder), owner)


if __name__ == "__main__":
    main()
