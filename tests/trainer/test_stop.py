"""Ctrl-C and SIGTERM in every phase of a run: a clean end with a word, and the same result afterwards, bit for bit."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from tests.factories.make_port import make_port
from trainer import warmup
from trainer.__main__ import main
from trainer.errors import WorkerFailedError
from trainer.runtime import launch, meetings
from trainer.runtime.shutdown import Interrupted, StopRequest

ROOT = Path(__file__).resolve().parents[2]

STEPS = 6
RUN = [
    "--profile", "cpu-smoke", "--steps", str(STEPS), "--set", "run.save_every=2", "--set", "run.log_every=1",
    "--set", "run.evaluate=2", "--set", "run.evaluate_tokens=8",
    "--set", "data.buckets=[64]", "--set", "data.tokens=128", "--set", "drafter.layers=1",
]  # fmt: skip
UNJUDGED = ["--set", "run.evaluate=0", "--set", "run.evaluate_tokens=48"]
BEFORE = "interrupted before the first step; nothing was saved"
KEPT = "interrupted before the first step; the checkpoints before it stay"
STOPPING = "stopping after this step; a second signal ends the run without saving"
TRAINED = "stopping: training is over, and the evaluation is left out; a second signal ends the run at once"


@pytest.fixture(scope="module")
def straight(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output of a run that nothing interrupted."""
    output = tmp_path_factory.mktemp("straight") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("ENVDOCTOR_GATE", "off")
        patch.setenv("ENVDOCTOR_GATE_REASON", "trainer tests")
        patch.setenv("ENVDOCTOR_GATE_LOG", str(output.parent / "gate.log"))
        assert main([*RUN, "--quiet", "--output", str(output)]) == 0
    return output


def result(output: Path) -> dict[str, bytes]:
    """Return what a run leaves: its last state and its export."""
    place = output / "checkpoints" / f"step-{STEPS:06d}"
    files = [place / "drafter.safetensors", place / "moments.safetensors", *sorted((output / "drafter").iterdir())]
    return {file.name: file.read_bytes() for file in files}


def interrupting(number: int, calls: int, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return `work` with a signal to this process when it is called for the `calls`th time."""
    left = [calls]

    def interrupted(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), number)
        return work(*arguments, **named)

    return interrupted


# Phase: what is called in it, which call of it is interrupted, the last words, and the checkpoints afterwards.
PHASES = {
    "reading the data": ("trainer.assemble._rows", 1, BEFORE, []),
    "loading the target": ("trainer.assemble.Target.load", 1, BEFORE, []),
    "compiling the target": ("trainer.runtime.inline.warm_target", 1, BEFORE, []),
    "compiling the drafter": ("trainer.runtime.inline.warm_drafter", 1, BEFORE, []),
    "measuring the device": ("trainer.runtime.session.matmul_rate", 1, BEFORE, []),
    "the first step": ("trainer.runtime.loop.Optimizer.step", 1, STOPPING, [2]),
    "a step": ("trainer.runtime.loop.Optimizer.step", 4, STOPPING, [2, 4, 5]),
    "writing a checkpoint": ("trainer.saved.checkpoint._write", 1, STOPPING, [2, 3]),
    "exporting": ("trainer.runtime.finalize.export", 1, TRAINED, [2, 4, 6]),
    "evaluating": ("trainer.runtime.finalize.SpeculativeDecoder.speculative", 1, TRAINED, [2, 4, 6]),
}  # fmt: skip


@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_in_any_phase_ends_cleanly_and_the_run_goes_on_to_the_same_bits(
    cache: Path, straight: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], phase: str
) -> None:
    number, code = ((signal.SIGTERM, 143), (signal.SIGINT, 130))[list(PHASES).index(phase) % 2]
    assert cache.is_dir()
    where, calls, words, saved = PHASES[phase]
    output = tmp_path / "run"
    module, _, name = where.rpartition(".")
    with pytest.MonkeyPatch.context() as patch:
        owner = _resolve(module)
        # The warm-up's steps run here too; that they are eager changes nothing of how they are interrupted.
        patch.setattr("trainer.runtime.inline.compiles", lambda *_: True)
        patch.setattr(owner, name, interrupting(number, calls, getattr(owner, name)))
        assert main([*RUN, "--output", str(output)]) == code
    told = capfd.readouterr().err
    assert [line for line in told.splitlines() if line.startswith(("stopping", "interrupted"))] == [words]
    assert "Traceback" not in told
    assert sorted(int(place.name[5:]) for place in output.glob("checkpoints/step-*")) == saved
    assert not list(output.glob("checkpoints/.*"))
    again = ["--resume"] if saved else []
    assert main([*RUN, "--quiet", "--output", str(output), *again]) == 0
    assert result(output) == result(straight)
    assert (output / "evaluation.json").is_file()


def test_a_stopped_run_is_saved_where_it_keeps_no_checkpoints(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cache.is_dir()
    command = [*RUN, "--set", "run.save_every=0", "--output", str(tmp_path)]
    owner = _resolve("trainer.runtime.loop.Optimizer")
    with monkeypatch.context() as patch:
        patch.setattr(owner, "step", interrupting(signal.SIGTERM, 2, owner.step))
        assert main(command) == 143
    assert "3 (interrupted, saved)" in capfd.readouterr().out
    assert [place.name for place in tmp_path.glob("checkpoints/step-*")] == ["step-000003"]
    assert main([*command, "--quiet", "--resume"]) == 0
    assert [place.name for place in tmp_path.glob("checkpoints/step-*")] == ["step-000003"]


def _resolve(path: str) -> Any:
    import importlib  # noqa: PLC0415

    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


def test_a_resumed_run_that_is_interrupted_before_its_first_step_keeps_its_checkpoints(
    cache: Path, straight: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cache.is_dir()
    with pytest.MonkeyPatch.context() as patch:
        from trainer.runtime import session  # noqa: PLC0415

        patch.setattr(session, "matmul_rate", interrupting(signal.SIGTERM, 1, session.matmul_rate))
        assert main([*RUN, "--output", str(straight), "--resume"]) == 143
    assert capsys.readouterr().err.splitlines()[-1] == KEPT
    assert (straight / "checkpoints" / f"step-{STEPS:06d}").is_dir()


@pytest.mark.parametrize("runtime", ["threads", "processes", "data-parallel"])
def test_a_signal_before_the_first_step_ends_all_workers(cache: Path, tmp_path: Path, runtime: str) -> None:
    targets = "1" if runtime == "data-parallel" else "2"
    process = subprocess.Popen(
        [
            sys.executable, "-m", "trainer", *RUN, "--output", str(tmp_path / "run"), "--runtime", runtime,
            "--targets", targets, "--drafters", "2",
        ],
        cwd=Path(__file__).resolve().parents[2], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if line.startswith("loading torch"):
            process.send_signal(signal.SIGTERM)
            break
    _, rest = process.communicate(timeout=180)
    assert process.returncode == 143
    assert BEFORE in rest.splitlines()
    assert "Traceback" not in rest
    assert not list((tmp_path / "run").glob("checkpoints/*"))


def environment(cache: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1", **more}


def until(there: Callable[[], bool], process: "subprocess.Popen[Any]") -> None:
    """Wait for something that a process does."""
    while not there():
        assert process.poll() is None
        time.sleep(0.05)


def stepped(output: Path) -> bool:
    file = output / "metrics.jsonl"
    return file.is_file() and '"event": "step"' in file.read_text()


@pytest.mark.parametrize("stderr", ["a pipe without a reader", "a full disk"])
def test_a_stderr_that_takes_nothing_costs_no_checkpoint(cache: Path, tmp_path: Path, stderr: str) -> None:
    output = tmp_path / "run"
    reader, writer = os.pipe() if stderr == "a pipe without a reader" else (0, os.open("/dev/full", os.O_WRONLY))
    command = [*RUN, "--steps", "100000", "--set", "run.save_every=100000", "--output", str(output)]
    process = subprocess.Popen(
        [sys.executable, "-m", "trainer", *command], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=writer,
        env=environment(cache),
    )  # fmt: skip
    os.close(writer)
    if reader:
        os.close(reader)
    until(lambda: stepped(output), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=180) == 143
    assert len(list(output.glob("checkpoints/step-*"))) == 1


def test_a_signal_that_comes_while_python_starts_is_answered_with_a_word(cache: Path, tmp_path: Path) -> None:
    # As the launcher starts its workers: blocked until they can answer.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "trainer", *RUN, "--output", str(tmp_path / "run")], cwd=ROOT, text=True,
            stderr=subprocess.PIPE, env=environment(cache),
        )  # fmt: skip
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=180)[1] == f"{BEFORE}\n"
    assert process.returncode == 130


@pytest.mark.parametrize("wrapped", [ImportError, SystemError])
def test_an_exception_that_a_signal_caused_is_not_told_as_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrapped: type[Exception]
) -> None:
    def train(*_: object) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt as error:
            raise wrapped("initialization failed") from error
        return 0

    monkeypatch.setattr("trainer.train.train", train)
    assert main([*RUN, "--quiet", "--output", str(tmp_path / "run")]) == 143
    assert capsys.readouterr().err.splitlines()[-1] == BEFORE


STUCK = """
import os, runpy, signal, sys, threading
import torch
from trainer.runtime import threads
def stuck(*_):
    if threading.current_thread().name == "target-0":
        os.kill(os.getpid(), signal.SIGTERM)
    while True:
        torch.randn(300, 300) @ torch.randn(300, 300)
threads.compiles = threads.traces_beside_eager_code = lambda *_: True
threads.warm_target = stuck
sys.argv = ["trainer", *sys.argv[1:]]
runpy.run_module("trainer", run_name="__main__", alter_sys=True)
"""


def test_threads_inside_torch_do_not_abort_a_run_that_is_interrupted(cache: Path, tmp_path: Path) -> None:
    flags = ["--runtime", "threads", "--targets", "2", "--output", str(tmp_path / "run")]
    process = subprocess.run(
        [sys.executable, "-c", STUCK, *RUN, "--quiet", *flags], cwd=ROOT, env=environment(cache), text=True,
        capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    assert (process.returncode, process.stderr.splitlines()[-1:]) == (143, [BEFORE])


def ranks(cache: Path, place: Path, world: int, patch: str, command: list[str]) -> list[tuple[int, str]]:
    """Run the workers of a run as a launcher starts them, each after `patch`; return their codes and words."""
    code = (
        f"import errno, os, signal, sys\nfrom pathlib import Path\nfrom tests.factories import forking\n"
        f"RANK = forking.ranks({world}, Path({str(place)!r}))\n{patch}\n"
        "from trainer.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    with make_port() as port:
        subprocess.run(
            [sys.executable, "-c", code, *command], cwd=ROOT, check=True, timeout=300,
            env=environment(cache, MASTER_PORT=str(port)),
        )  # fmt: skip
    codes = json.loads((place / "codes.json").read_text())
    return [(each, (place / f"stderr-{rank}").read_text()) for rank, each in enumerate(codes)]


def test_a_signal_in_the_first_step_of_several_drafters_is_saved_by_all(cache: Path, tmp_path: Path) -> None:
    # One has asked for stops already and waits for the other, which has not come to that: both are signalled.
    patch = (
        "from trainer.runtime.loop import DrafterLoop\n"
        "from trainer.runtime.processes import GroupExchange\n"
        "owner, name = (DrafterLoop, '_one_step') if RANK else (GroupExchange, 'pool')\n"
        "work, left = getattr(owner, name), [1]\n"
        "def signalled(*arguments):\n"
        "    if left.pop() if left else 0:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return work(*arguments)\n"
        "setattr(owner, name, signalled)\n"
    )
    output = tmp_path / "run"
    flags = [*UNJUDGED, "--runtime", "data-parallel", "--drafters", "2"]
    command = [*RUN, *flags, "--output", str(output)]
    found = ranks(cache, tmp_path, 2, patch, command)
    # The lead says how it ended; the others have nothing to save and nothing to say.
    assert [code for code, _ in found] == [143, 0], found
    assert [place.name for place in output.glob("checkpoints/step-*")] in (["step-000001"], ["step-000002"])


@pytest.mark.parametrize("runtime", ["processes", "data-parallel"])
@pytest.mark.parametrize("failing", [0, 1])
def test_all_workers_end_alike_when_one_cannot_keep_its_features(
    cache: Path, tmp_path: Path, runtime: str, failing: int
) -> None:
    # In `processes` ranks 0 and 1 are the drafters: a target is what fails.
    patch = (
        "from trainer.data import feature_cache\n"
        "def full(*_):\n"
        "    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        f"if RANK == {failing + 2 * (runtime == 'processes')}:\n"
        "    feature_cache._Shard.add = full\n"
    )
    output, kept = tmp_path / "run", tmp_path / "kept"
    topology = ["--targets", "1" if runtime == "data-parallel" else "2", "--drafters", "2"]
    command = [
        *RUN, *UNJUDGED, "--runtime", runtime, *topology, "--output", str(output),
        "--set", f"cache.path={kept}", "--set", "cache.size_gb=1",
    ]  # fmt: skip
    world = 2 if runtime == "data-parallel" else 4
    found = ranks(cache, tmp_path, world, patch, command)
    assert [code for code, _ in found] == [2] * world, found
    (place,) = kept.iterdir()
    errors = [line for _, told in found for line in told.splitlines() if line.startswith(("error: ", "hint: "))]
    assert errors == [
        f"error: {place}: features cannot be written: No space left on device",
        "hint: make room and go on with --resume: what was written counts. Or leave cache.path empty",
    ]
    assert list(output.glob("checkpoints/step-*"))


def test_a_second_signal_does_not_wait_for_the_cache(cache: Path, tmp_path: Path) -> None:
    code = (
        "import sys, threading\nfrom trainer.runtime import cached\nfrom trainer.__main__ import main\n"
        "cached._Keeper._keep = lambda *_: threading.Event().wait()\nsys.exit(main(sys.argv[1:]))\n"
    )
    output = tmp_path / "run"
    command = [*RUN, "--output", str(output), "--set", f"cache.path={tmp_path / 'kept'}", "--set", "cache.size_gb=1"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command], cwd=ROOT, text=True, stderr=subprocess.PIPE, env=environment(cache)
    )
    until(lambda: stepped(output), process)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    for line in process.stderr:
        if line.rstrip("\n") in {STOPPING, TRAINED}:
            break
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "ended at once" in rest.splitlines()


@pytest.mark.parametrize(
    ("failed", "asked", "code", "words"),
    [
        (True, [], 3, "waiting up to 0 s for rank 1, which is then killed"),
        (False, [15, 2], 130, "waiting up to 0 s for rank 0, 1, which is then killed"),
    ],
)
def test_the_launcher_says_whom_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failed: Any, asked: list[int], code: int,
    words: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(launch, "_QUIET_SECONDS", -1.0)
    monkeypatch.setattr(launch, "GRACE", 0.4)
    sleeping = "import time; time.sleep(600)"
    workers = [
        subprocess.Popen([sys.executable, "-c", text])
        for text in ("raise SystemExit(3)" if failed else sleeping, sleeping)
    ]
    if failed:
        workers[0].wait()
    try:
        assert launch._wait(workers, asked, quiet=False) == code
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert capsys.readouterr().err.splitlines() == [words]


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (
            signal.SIGKILL,
            "see dmesg or journalctl -k (the kernel does so when memory is full), then go on with --resume",
        ),
        (signal.SIGSEGV, "see dmesg or journalctl -k (a crash leaves a line), then go on with --resume"),
    ],
)
def test_the_launcher_names_a_worker_that_a_signal_killed(number: int, told: str) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", text])
        for text in ("raise SystemExit(1)", f"import os; os.kill(os.getpid(), {int(number)})")
    ]
    code = launch._wait(workers, [], quiet=False)
    with pytest.raises(WorkerFailedError) as caught:
        launch._require_none_killed(workers, code)
    name = signal.Signals(number).name
    assert (caught.value.message, caught.value.hint) == (f"rank 1 was killed by {name}", told)
    assert caught.value.exit_code == code
    launch._require_none_killed(workers[:1], code)


def test_a_killed_member_of_a_group_ends_the_run_with_its_name(cache: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    command = [
        *RUN, "--steps", "4000", "--output", str(output), *UNJUDGED,
        "--runtime", "data-parallel", "--drafters", "2", "--set", "target.tensor_parallel=2",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "trainer", *command], cwd=ROOT, text=True, stderr=subprocess.PIPE,
        env=environment(cache),
    )  # fmt: skip
    # A checkpoint to go on from.
    until(lambda: any(output.glob("checkpoints/step-*")), process)
    (second,) = [pid for pid in children(process.pid) if b"\0RANK=1\0" in Path(f"/proc/{pid}/environ").read_bytes()]
    os.kill(second, signal.SIGKILL)
    told = process.communicate(timeout=120)[1].splitlines()
    assert process.returncode == 137
    assert told[-2:] == [
        "error: rank 1 was killed by SIGKILL",
        "hint: see dmesg or journalctl -k (the kernel does so when memory is full), then go on with --resume",
    ]


def children(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(word) for word in found.split()]


NAN = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture(scope="module")
def damaged(target_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a target with a weight that is NaN."""
    place = tmp_path_factory.mktemp("damaged") / "target"
    shutil.copytree(target_folder, place)
    held = {name: each.clone() for name, each in load_file(place / "model.safetensors").items()}
    held[NAN][0] = float("nan")
    save_file(held, place / "model.safetensors", metadata={"format": "pt"})
    return place


LOAD, DECODE = (
    ("trainer.assemble.Target.load", "full"),
    "trainer.decoding.evaluate.SpeculativeDecoder.speculative_texts",
)
NO_ROOM = "can't allocate memory: you tried to allocate 4503599627370496 bytes. Error code 12 (Cannot allocate memory)"
LOWER = "hint: lower run.evaluate_positions (now 32768), then go on with --resume"
BROKEN = ("trainer.assemble.load_shared", "None")
# Runtime, what is put in the place of what, the target, the exit code of all, and what is said: by one of them.
MET = {
    "all, before loading": (
        "data-parallel", None, "{other}", 2,
        ["error: {other} holds no config.json", "hint: give the folder of a local Hugging Face model"],
    ),
    "all, when loading": (
        "data-parallel", None, "{damaged}", 2,
        [f"error: {{damaged}}: {NAN} has NaN or infinity", "hint: fetch the target's folder again"],
    ),
    "the target's rank": (
        "processes", LOAD, "{target}", 2,
        [
            f"error: rank 1: loading {{target}}: {NO_ROOM}",
            "hint: free the device, or give it less: `python -m trainer.plan` with the same flags lists what fits"
            " where",
        ],
    ),
    "the drafter's rank, a fault": (
        "processes", BROKEN, "{target}", 1, ["TypeError: 'NoneType' object is not callable"],
    ),
    "rank 0, in an evaluation": (
        "data-parallel", (DECODE, "full"), "{target}", 2, [f"error: the evaluation after step 2: {NO_ROOM}", LOWER],
    ),
    "rank 1, in an evaluation of a split target": (
        "data-parallel", (DECODE, "full if RANK else SpeculativeDecoder.speculative_texts"), "{target}", 2,
        [f"error: the evaluation after step 3: {NO_ROOM}", LOWER],
    ),
}  # fmt: skip
MORE = {
    "rank 0, in an evaluation": ["--set", "run.evaluate_every=2"],
    "rank 1, in an evaluation of a split target": [
        "--set", "run.evaluate_every=3", "--set", "target.tensor_parallel=2", "--set", "run.save_every=0",
    ],
}  # fmt: skip
"""Flags of these cases besides."""
EACH = """
import traceback
from unittest import mock
import torch
import torch.distributed as dist
from trainer.__main__ import main
from trainer.decoding.evaluate import SpeculativeDecoder
def full(*_, **__):
    torch.empty(1 << 50)  # 4 PB, which no machine has
for port, argv, put in {cases!r}:
    os.environ["MASTER_PORT"] = str(port)
    with mock.patch(put[0], eval(put[1])) if put else mock.patch("errno.EPERM", 1):
        try:
            code = main(argv)
        except Exception:
            traceback.print_exc()
            code = 1
    print("code:", code, file=sys.stderr)
    if dist.is_initialized():
        dist.destroy_process_group()
sys.exit(0)
"""


@pytest.fixture(scope="module")
def met(cache: Path, target_folder: Path, damaged: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what each of two ranks said in each case and its exit code, all in one pair of processes."""
    place = tmp_path_factory.mktemp("met")
    places = {"other": place, "damaged": damaged, "target": target_folder}
    (place / "rows.jsonl").write_text(json.dumps({"input_ids": [5] * 30, "loss_mask": [0] * 4 + [1] * 26}) + "\n")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENVDOCTOR_GATE", "off")
        patch.setenv("ENVDOCTOR_GATE_REASON", "trainer tests")
        patch.setenv("ENVDOCTOR_GATE_LOG", str(place / "gate.log"))
        cases = []
        for number, (name, (runtime, put, target, *_)) in enumerate(MET.items()):
            workers = ["--drafters", "2"] if runtime == "data-parallel" else []
            # The toy is what is trained for without the two flags.
            files = ["--target", target.format(**places), "--data", str(place / "rows.jsonl")]
            where = ["--output", str(place / f"run-{number}"), *(files if target != "{target}" else [])]
            argv = [*RUN, "--quiet", "--runtime", runtime, *workers, *where, *MORE.get(name, [])]
            cases.append((stack.enter_context(make_port()), argv, put))
        found = ranks(cache, place, 2, EACH.format(cases=cases), [])
    assert [code for code, _ in found] == [0, 0], found
    said = [text.split("code: ") for _, text in found]
    return {
        name: (
            [int(each[number + 1].split()[0]) for each in said],
            [line for each in said for line in each[number].splitlines() if line.split(": ")[0] in MARKS],
            [line.format(**places) for line in wanted],
            sorted(each.name for each in (place / f"run-{number}").glob("checkpoints/step-*")),
        )
        for number, (name, (*_, wanted)) in enumerate(MET.items())
    }


MARKS = {"error", "hint", "TypeError"}


@pytest.mark.parametrize("case", MET)
def test_an_error_of_a_worker_is_said_once_and_ends_all_alike(met: dict[str, Any], case: str) -> None:
    codes, said, wanted, saved = met[case]
    if case in MORE:
        # What began is saved: after a step more, or where one cannot tell the other before the evaluation, also
        # where run.save_every asks for no checkpoint.
        assert saved == (["step-000003"] if "split" in case else ["step-000002", "step-000003"])
    if "split" in case:
        assert codes == [1, 2]
        assert said.pop(0).startswith("error: this worker could not go on with the others: ")
        said.pop(0)
    else:
        assert codes == [MET[case][3]] * 2
    assert said == wanted


@pytest.mark.parametrize(
    ("ranks", "told"), [([3], "rank 3"), ([0, 1], "ranks 0, 1"), ([0, 2, 3, 4, 7, 8], "ranks 0, 2 to 4, 7, 8")]
)
def test_ranks_are_listed_by_the_ends_of_their_runs(ranks: list[int], told: str) -> None:
    assert meetings._listed(ranks) == told


def test_a_signal_that_was_passed_on_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_QUIET_SECONDS", -1.0)
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def sleep(_seconds: float) -> None:
        worker.communicate(b"\n")

    monkeypatch.setattr(launch.time, "sleep", sleep)
    assert launch._wait([worker], [15], quiet=False) == 0
    assert capsys.readouterr().err.splitlines() == [
        "the signal was passed on to rank 0: each ends after its step, saved, or once a wait inside torch ends;"
        " a second signal ends them within 20 s, without saving"
    ]


def test_a_signal_while_warm_up_workers_are_started_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []
    popen = subprocess.Popen

    def start(*_: object, **_named: object) -> "subprocess.Popen[str]":
        started.append(popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.PIPE, text=True))
        if len(started) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return started[-1]

    monkeypatch.setattr(warmup.subprocess, "Popen", start)
    with StopRequest() as stop, pytest.raises(Interrupted):
        warmup._spawn([], 2, stop)
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 2
