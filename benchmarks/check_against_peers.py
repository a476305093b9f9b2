"""envdoctor beside what else one would ask about a venv: wall time, exit code, what each noticed.

    python benchmarks/check_against_peers.py VENV [--rounds N] [--gate PROFILE] [--contaminate]

Every command is a whole process, started from nothing, in interleaved rounds; the table shows medians, the least
processor time and the largest peak of memory. A row marked "no bytecode" compiles what it imports, as on the first
start in a fresh venv; the others find theirs, written in an unmeasured first round to a folder beside the venv, not
into it. "nothing remembered" is the first check of a venv, which binds every symbol anew. With --gate PROFILE the
venv's own Python calls `gate.require(PROFILE)`, as a train script does. With --contaminate a copy of the venv is
broken as the incident broke it (the other CUDA major's wheels installed over the venv's own, then uninstalled) and
everything is asked again about the copy. The venv itself is never changed.
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

ROOT = Path(__file__).resolve().parent.parent
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
    remembers: bool = True
    """False: no earlier run's notes are there."""
    absent: str = ""
    """Why it cannot be asked; empty when it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one process took."""

    wall: float
    cpu: float
    peak: int
    """Bytes of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool said, and how long it took each time."""

    runs: tuple["Run", ...]
    code: int
    output: str


def tools(venv: Path, gate: str) -> list[Tool]:
    """Return the commands; pip is asked through `pip --python`, because a uv venv holds no pip."""
    python = str(venv / "bin/python")
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    here = sys.executable
    has_pip = subprocess.run([here, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    check = (here, "-m", "envdoctor", "check", str(venv))
    collect = (python, "-m", "torch.utils.collect_env")
    return [
        Tool(name="envdoctor check", command=check),
        Tool(name="envdoctor check, nothing remembered", command=check, remembers=False),
        Tool(name="envdoctor check, no bytecode", command=check, bytecode=False),
        Tool(
            name="import gate; gate.require",
            command=(python, "-c", f"from envdoctor import gate; gate.require({gate!r})"),
            absent="" if gate else "no --gate PROFILE",
        ),
        Tool(name="python -c pass", command=(python, "-c", "pass")),
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
    runs: dict[str, list[Run]] = {tool.name: [] for tool in asked}
    last: dict[str, tuple[int, str]] = {}
    for turn in range(rounds + 1):
        for tool in asked:
            run, code, output = _run(tool, _environment(tool, folder, turn))
            if turn:
                runs[tool.name].append(run)
            last[tool.name] = (code, output)
    return {name: Answer(runs=tuple(made), code=last[name][0], output=last[name][1]) for name, made in runs.items()}


def _run(tool: Tool, environ: dict[str, str]) -> tuple[Run, int, str]:
    started = time.perf_counter()
    process = subprocess.Popen(
        tool.command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    run = Run(wall=wall, cpu=usage.ru_utime + usage.ru_stime, peak=usage.ru_maxrss * 1024)
    return run, os.waitstatus_to_exitcode(status), output


def _environment(tool: Tool, folder: Path, turn: int) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environ["XDG_CACHE_HOME"] = str(folder / ("cache" if tool.remembers else f"cache{turn}"))
    # Python looks for bytecode under the prefix alone: there it is written once, or never.
    environ["PYTHONPYCACHEPREFIX"] = str(folder / ("bytecode" if tool.bytecode else "none"))
    return environ if tool.bytecode else environ | {"PYTHONDONTWRITEBYTECODE": "1"}


def judged(answer: Answer, owner: str) -> tuple[str, str]:
    """Return whether the tool noticed anything, and whether it named the distribution whose file is gone."""
    noticed = "yes" if answer.code else "no"
    return noticed, "yes" if owner and owner in answer.output else "no"


def table(answers: dict[str, Answer], owner: str) -> str:
    """Return the table; the ratio is to `envdoctor check`."""
    base = statistics.median(run.wall for run in answers["envdoctor check"].runs)
    heads = f"{'median s':>10}{'min s':>8}{'ratio':>8}{'cpu s':>8}{'peak MB':>9}{'exit':>6}"
    lines = [f"{'command':36}{heads}  noticed  names the owner"]
    for name, answer in answers.items():
        walls = [run.wall for run in answer.runs]
        median, peak = statistics.median(walls), max(run.peak for run in answer.runs)
        noticed, named = judged(answer, owner)
        figures = f"{median:10.3f}{min(walls):8.3f}{median / base:8.2f}{min(run.cpu for run in answer.runs):8.3f}"
        lines.append(f"{name:36}{figures}{peak / 1e6:9.0f}{answer.code:6}  {noticed:7}  {named}")
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
    asked = tools(venv, options.gate)
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
    parser.add_argument("--gate", metavar="PROFILE", default="")
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
