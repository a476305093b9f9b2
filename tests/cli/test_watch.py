"""`envdoctor run --watch` as a process: what the command does is its own, and what is not as expected is said."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from envdoctor.app import provenance
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents.stack_journal import StackJournal
from envdoctor.facts.host import Host
from envdoctor.model.frozen import replace
from tests.factories.make_driver import FakeGpu, make_driver
from tests.factories.make_incident import Incident, make_incident
from tests.factories.run_envdoctor import COMMAND, ROOT, Outcome, environment, run_behind, run_envdoctor

NOTHING_READ = """\
note: envdoctor watch: could not tell whether throughput is as expected: {why}
note: envdoctor watch: could not tell whether GPU memory is flat: {memory}
"""
NO_DRIVER = "no libnvidia-ml.so.1 was found outside of [TMP]/.venv"
# The command line's own function with a short half minute, since no test waits for a whole one.
SHORT = """\
import sys
from pathlib import Path
from envdoctor.facts.host import Host
from envdoctor.watch import supervise
from envdoctor.watch.judgement import Limits

def say(text):
    print(text, file=sys.stderr, flush=True)

wanted = supervise.Watching(
    expected=20000.0, flat_within=0.01, profile="good", metrics=Path(sys.argv[2]) if sys.argv[2] else None,
    limits=Limits(warm_up=0.1, window=float(sys.argv[1])), interval=0.05,
)
code = supervise.watched(sys.argv[3:], Host.current(), Path("/nowhere"), wanted, say)
sys.exit(supervise.end_as(code))
"""
TRAINING = """\
import json, sys, time
rate, file = float(sys.argv[1]), open(sys.argv[2], "a") if sys.argv[2] else None
for step in range(60):
    if file:
        told = {"event": "step", "step": step, "tokens_per_second": rate, "compilations": 0}
        print(json.dumps(told), file=file, flush=True)
    else:
        print(f"step {step} loss 1.5 {rate:,.0f} tok/s", flush=True)
    time.sleep(0.03)
"""


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_incident(tmp_path_factory.mktemp("healthy"))


def test_output_and_exit_code_are_the_commands(healthy: Incident) -> None:
    words = ["sh", "-c", "echo one; echo two >&2; exit 77"]
    outcome = run_envdoctor("run", "-p", "small", "--watch", "--", *words, folder=healthy.root)
    expected = "profile small has no expected.tokens_per_second; add it from a good run"
    assert outcome == Outcome(code=77, out="one\n", err="two\n" + NOTHING_READ.format(why=expected, memory=NO_DRIVER))


def test_a_file_that_never_came_is_said(healthy: Incident) -> None:
    profile = healthy.root / "profiles/fast.toml"
    text = (healthy.root / "profiles/small.toml").read_text().replace('"small"', '"fast"')
    profile.write_text(f"{text}\n[expected]\ntokens_per_second = 20000.0\n")
    words = ["--watch", "--metrics", "metrics.jsonl", "--", "echo", "21,000 tok/s"]
    outcome = run_envdoctor("run", "-p", "fast", *words, folder=healthy.root)
    why = "[TMP]/metrics.jsonl had no line"
    assert outcome == Outcome(code=0, out="21,000 tok/s\n", err=NOTHING_READ.format(why=why, memory=NO_DRIVER))
    piped = run_envdoctor("run", "-p", "fast", "--watch", "--", "echo", "no number", folder=healthy.root)
    why = "none of 1 line of the output has tokens a second; name it: `--measure 'tok/s=([0-9.]+)'`"
    assert piped == Outcome(code=0, out="no number\n", err=NOTHING_READ.format(why=why, memory=NO_DRIVER))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--measure", "x([0-9])"],
            "--measure says how to watch, and nothing is watched\n\nhint: add `--watch`",
        ),
        (
            ["--watch", "--measure", "x"],
            "--measure x has 0 groups, not one\n\nhint: put the number into one pair of parentheses: "
            "`--measure 'tok/s=([0-9.]+)'`",
        ),
    ],
)
def test_bad_options_start_nothing(healthy: Incident, words: list[str], said: str) -> None:
    outcome = run_envdoctor("run", "-p", "small", *words, "--", "touch", "started", folder=healthy.root)
    assert outcome == Outcome(code=2, out="", err=f"error: {said}\n")
    assert not (healthy.root / "started").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_handed_on_and_end_both(healthy: Incident, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", "-p", "small", "--watch", "--", "sh", "-c", "echo $$; exec sleep 60"],
        cwd=healthy.root,
        env=environment(healthy.root),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    assert not Path(f"/proc/{child}").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_that_comes_while_the_command_is_started_reaches_it(healthy: Incident, number: signal.Signals) -> None:
    words = ["sh", "-c", f"kill -{int(number)} $PPID; exec sleep 600"]
    outcome = run_envdoctor("run", "-p", "small", "--watch", "--", *words, folder=healthy.root)
    assert (outcome.code, outcome.out) == (-number, "")


@pytest.mark.parametrize(("to_all", "ended", "said"), [(True, 0, "1\n"), (False, -signal.SIGUSR1, "")])
def test_in_a_step_a_signal_reaches_the_command_once(healthy: Incident, *, to_all: bool, ended: int, said: str) -> None:
    """Slurm signals all processes of a step: the command counts. Others signal `run` alone: it is handed on."""
    counts = "seen = []; signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))"
    # Once it has come: longer than it takes to see that it was for one process alone, and to hand it on.
    waits = "end = time.monotonic() + 2\nwhile time.monotonic() < end: time.sleep(0.05)"
    end = f"while not seen: time.sleep(0.05)\n{waits}\nprint(len(seen))" if to_all else "time.sleep(600)"
    program = f"import signal, time, os\n{counts if to_all else ''}\nprint(os.getpid(), flush=True)\n{end}"
    process = subprocess.Popen(
        [*COMMAND, "run", "-p", "small", "--watch", "--", sys.executable, "-c", program],
        cwd=healthy.root,
        env=environment(healthy.root, {"SLURM_STEP_ID": "0"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    if to_all:
        os.killpg(process.pid, signal.SIGUSR1)
    else:
        process.send_signal(signal.SIGUSR1)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (ended, said)


def test_a_command_does_not_outlive_a_watch_that_is_killed(healthy: Incident) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", "-p", "small", "--watch", "--metrics", "m.jsonl", "--", "sh", "-c", "echo; exec sleep 600"],
        cwd=healthy.root,
        env=environment(healthy.root),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    assert process.communicate(timeout=60)[0] == ""  # both ends of the pipe are closed: the command ended too


def test_an_output_that_is_full_for_a_while_loses_nothing(tmp_path: Path) -> None:
    script = f"head -c 66000 /dev/zero; touch {tmp_path}/all; exit 3"
    command = [sys.executable, "-c", SHORT, "9", "", "sh", "-c", script]
    read, write = os.pipe()
    os.set_blocking(write, False)
    filled = 0
    with suppress(BlockingIOError):
        while True:
            filled += os.write(write, b"x" * 4096)
    process = subprocess.Popen(command, cwd=ROOT, env=environment(tmp_path), stdout=write, stderr=subprocess.DEVNULL)
    os.close(write)
    while not (tmp_path / "all").exists() and process.poll() is None:
        time.sleep(0.02)
    with open(read, "rb") as pipe:  # noqa: PTH123 - a descriptor
        assert pipe.read() == b"x" * filled + b"\0" * 66_000
    assert process.wait(60) == 3


def watched(
    tmp_path: Path, rate: float, used: tuple[int, ...], *, metrics: bool, window: float = 0.6
) -> subprocess.CompletedProcess[str]:
    """Run a training that is not real under a watch that is, with a driver whose memory is as given."""
    driver = make_driver(tmp_path, gpus=[FakeGpu(uuid="GPU-1", used=used)])
    file = str(tmp_path / "metrics.jsonl") if metrics else ""
    command = [sys.executable, "-c", SHORT, f"{window}", file, sys.executable, "-c", TRAINING, f"{rate}", file]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment(tmp_path, {"LD_LIBRARY_PATH": str(driver.libraries)}),
    )


def test_a_healthy_training_leaves_no_word(tmp_path: Path) -> None:
    done = watched(tmp_path, 19_000.0, (50_000_000_000,), metrics=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "step 59 loss 1.5 19,000 tok/s"


def test_a_slow_training_whose_memory_swings_is_said_in_log_metrics_and_summary(tmp_path: Path) -> None:
    saw = tuple(value * 1_000_000_000 for value in (60, 110, 100, 60, 110))
    done = watched(tmp_path, 5_000.0, saw, metrics=True)
    assert done.returncode == 0
    first, hint, last = (line for line in done.stderr.splitlines() if line)
    start = "warning: envdoctor watch: throughput is 25% of what profile good expects (5,000 of 20,000 tok/s) for 1 s, "
    assert first.startswith(f"{start}GPU memory swings: GPU 0 between 60.0 GB and 110.0 GB, ")
    assert first.endswith(" the GPUs are 97% busy: running in an uncompiled fallback?")
    assert hint.startswith("hint: start again with `TORCH_LOGS=graph_breaks,recompiles`")
    assert last.startswith("warning: envdoctor watch: throughput was low for ")
    lines = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    events = [(line["kind"], line["share"]) for line in lines if line["event"] == "watch"]
    assert events == [("slow", 0.25), ("end", 0.25)]


# The whole command with a short warm-up: what it decides at the end is the same.
HURRIED = """\
from envdoctor.model.frozen import replace
from envdoctor.watch import supervise
from envdoctor.watch.judgement import Limits
inner = supervise.watched
def watched(command, host, prefix, wanted, say):
    return inner(command, host, prefix, replace(wanted, limits=Limits(warm_up=0.1, window=0.5), interval=0.05), say)
supervise.watched = watched
"""


@pytest.mark.parametrize(("rate", "code", "found"), [(21000, 0, 1), (18000, 0, 2), (21000, 3, 2)])
def test_a_run_that_reaches_its_rate_is_the_last_good_one(tmp_path: Path, rate: int, code: int, found: int) -> None:
    made = make_incident(tmp_path)
    text = (tmp_path / "profiles/small.toml").read_text().replace('"small"', '"fast"')
    (tmp_path / "profiles/fast.toml").write_text(f"{text}\n[expected]\ntokens_per_second = 20000.0\n")
    (tmp_path / "train.py").write_text(f"{TRAINING}sys.exit({code})\n")
    words = ["run", "-p", "fast", "--watch", "--", sys.executable, "train.py", str(rate), ""]
    outcome = run_behind(HURRIED, *words, folder=tmp_path)
    assert outcome.code == code, outcome.err
    made.contaminate()
    changed = run_envdoctor("diff", "--last-good", "--venv", ".venv", folder=tmp_path)
    assert changed.code == found, changed.err
    if found == 1:
        assert "its last good run" in changed.out
        assert "nvidia-cudnn-cu13" in changed.out
    else:
        assert changed.err.startswith("error: no good run on [TMP]/.venv is known\n")
    (kept,) = (tmp_path / "home/.local/share/envdoctor/stacks").glob("*/runs/*.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_text())["run"]["command"] == words[5:]
    assert run_envdoctor("diff", str(kept), ".venv", folder=tmp_path).code == 1
    assert not (tmp_path / "provenance.json").exists()


def test_starts_of_the_newest_runs_are_kept(healthy: Incident, monkeypatch: pytest.MonkeyPatch) -> None:
    host = replace(Host.current(), environ={"HOME": str(healthy.root / "kept")}, home=healthy.root / "kept")
    launch = Workspace.open(str(healthy.venv.prefix), host=host)
    facts = provenance.begun(launch, ["x"], "")
    folder = StackJournal.of(healthy.venv.prefix, host).folder / "runs"
    monkeypatch.setattr(provenance, "KEPT", 2)
    times = [f"2026-12-01T00:00:0{second}Z" for second in range(4)]
    assert [provenance.kept(launch, replace(facts, taken_at=at), ["x"]) for at in times] == [""] * 4
    assert [path.name.partition("-")[2][:12] for path in sorted(folder.iterdir())] == ["12-01T000002", "12-01T000003"]
    shutil.rmtree(folder)
    folder.write_text("")
    said = provenance.kept(launch, facts, ["x"])
    assert said == f"warning: {folder} cannot be written, so what this run is started on is not kept: File exists"
