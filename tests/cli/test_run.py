"""`envdoctor run` as a process: the command's exit code and signals are its own."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.test_check import UNSEEN
from tests.factories.make_incident import Incident, make_broken_incident, make_incident
from tests.factories.run_envdoctor import COMMAND, Outcome, environment, run_behind, run_envdoctor

REPORT_ENDS = """\
Found 1 error (1 cause).   exit 1
For more about a finding, run `envdoctor explain ED201`.

"""


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_incident(tmp_path_factory.mktemp("healthy"), environment={"DFLASH_THREADS": "3"})


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_broken_incident(tmp_path_factory.mktemp("broken"))


def test_the_command_gets_the_venv_and_the_profiles_environment(healthy: Incident) -> None:
    code = "import os, sys; print(sys.prefix, *(os.environ[n] for n in ('VIRTUAL_ENV', 'DFLASH_THREADS', 'PATH')))"
    outcome = run_envdoctor(
        "run",
        "-p",
        "small",
        "--",
        "python",
        "-c",
        code,
        folder=healthy.root,
        extra={"PATH": "/usr/bin:/bin", "PYTHONHOME": ""},
    )
    assert outcome == Outcome(code=0, out="[TMP]/.venv [TMP]/.venv 3 [TMP]/.venv/bin:/usr/bin:/bin\n", err="")


def test_the_commands_options_are_its_own_without_the_dashes(healthy: Incident) -> None:
    outcome = run_envdoctor("run", "-p", "small", "echo", "--profile", "x", "-h", folder=healthy.root)
    assert outcome == Outcome(code=0, out="--profile x -h\n", err="")


@pytest.mark.parametrize("end", [["--"], []])
def test_empty_values_of_the_command_are_its_own(healthy: Incident, end: list[str]) -> None:
    words = ("echo", "-p", "", "--profile=", "--venv", "")
    outcome = run_envdoctor("run", "-p", "small", *end, *words, folder=healthy.root)
    assert outcome == Outcome(code=0, out="-p  --profile= --venv \n", err="")


def test_the_exit_code_is_the_commands(healthy: Incident) -> None:
    outcome = run_envdoctor("run", "-p", "small", "--", "sh", "-c", "exit 77", folder=healthy.root)
    assert outcome == Outcome(code=77, out="", err="")


def test_the_process_becomes_the_command(healthy: Incident) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", "-p", "small", "--", "sh", "-c", "echo $$; exec sleep 60"],
        cwd=healthy.root,
        env=environment(healthy.root),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert int(process.stdout.readline()) == process.pid
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == -signal.SIGTERM
    process.stdout.close()


def test_the_command_dies_of_a_closed_pipe_as_it_would_alone(healthy: Incident) -> None:
    # Python ignores SIGPIPE; a command that inherits that writes for ever into `| head`.
    status = run_envdoctor("run", "-p", "small", "--", "grep", "SigIgn", "/proc/self/status", folder=healthy.root)
    ignored = int(status.out.split()[1], 16)
    assert ignored & (1 << (signal.SIGPIPE - 1)) == 0


def test_a_broken_venv_is_refused(broken: Incident) -> None:
    outcome = run_envdoctor("run", "-p", "small", "--", "touch", "started", folder=broken.root)
    checked = run_envdoctor("check", "-p", "small", folder=broken.root)
    assert outcome == Outcome(
        code=1,
        out="",
        err=f"{checked.out}\nerror: `touch started` was not started on [TMP]/.venv (profile small)\n",
    )
    assert not (broken.root / "started").exists()


@pytest.mark.parametrize(("mode", "codes"), [("warn", ["ED201"]), ("off", [])])
def test_a_bypass_is_said_and_logged(broken: Incident, tmp_path: Path, mode: str, codes: list[str]) -> None:
    log = tmp_path / "logs" / "gate.log"
    outcome = run_envdoctor(
        "run",
        "-p",
        "small",
        "--gate",
        mode,
        "--reason",
        "the cudnn path is not used",
        "--",
        "echo",
        "started",
        folder=broken.root,
        extra={"ENVDOCTOR_GATE_LOG": str(log)},
    )
    passed = f"; findings let through: {codes[0]}" if codes else ""
    said = f"warning: envdoctor gate: mode {mode} for profile small, because: the cudnn path is not used{passed}\n"
    report = f"{run_envdoctor('check', '-p', 'small', folder=broken.root).out}\n" if mode == "warn" else ""
    assert outcome == Outcome(code=0, out="started\n", err=report + said)
    entry = json.loads(log.read_text())
    assert (entry["profile"], entry["mode"], entry["reason"], entry["found"], entry["prefix"]) == (
        "small",
        mode,
        "the cudnn path is not used",
        codes,
        str(broken.venv.prefix),
    )
    assert entry["command"][-2:] == ["echo", "started"]


@pytest.mark.parametrize("mode", ["warn", "enforce"])
def test_an_examination_that_fails_refuses_unless_it_only_warns(healthy: Incident, tmp_path: Path, mode: str) -> None:
    broken = (
        "from envdoctor.doctor.workspace import Workspace\nfrom envdoctor.errors import ProbeError\n"
        "def facts(self, *_): raise ProbeError('the disk does not answer', 'look at it')\nWorkspace.facts = facts"
    )
    log = tmp_path / "gate.log"
    words = ("run", "-p", "small", "--gate", mode, "--reason", "late", "--", "echo", "started")
    outcome = run_behind(broken, *words, folder=healthy.root, extra={"ENVDOCTOR_GATE_LOG": str(log)})
    if mode == "enforce":
        said = "error: the disk does not answer\n\nhint: look at it\n"
        assert outcome == Outcome(code=3, out="", err=said)
        return
    said = (
        "error: envdoctor gate: the disk does not answer\n\nhint: look at it\n"
        "warning: envdoctor gate: mode warn for profile small, because: late; findings let through: could-not-tell\n"
    )
    assert outcome == Outcome(code=0, out="started\n", err=said)
    assert json.loads(log.read_text())["found"] == ["could-not-tell"]


def test_a_command_that_is_not_there(healthy: Incident) -> None:
    outcome = run_envdoctor("run", "-p", "small", "--", "no-such-program", folder=healthy.root)
    assert outcome == Outcome(
        code=2,
        out="",
        err="error: cannot start `no-such-program`: No such file or directory\n\n"
        "hint: name a program on the venv's PATH, or its path\n",
    )


def local_sources(folder: Path) -> dict[str, str]:
    """Return the settings under which a restore finds the wheels in `folder` and asks nobody else."""
    return {
        "PIP_FIND_LINKS": str(folder / "wheels"),
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
        "UV_CACHE_DIR": str(folder / "cache"),
        "UV_OFFLINE": "1",
    }


def test_restore_mends_a_broken_venv_before_the_command_starts(tmp_path: Path) -> None:
    incident = make_incident(tmp_path)
    incident.lose()
    outcome = run_envdoctor(
        "run", "-p", "small", "--restore", "--", "echo", "started", folder=tmp_path, extra=local_sources(tmp_path)
    )
    assert (outcome.code, outcome.out) == (0, "started\n")
    assert run_envdoctor("check", "-p", "small", "-q", folder=tmp_path) == Outcome(
        code=0, out=f"Nothing found; {UNSEEN}.   exit 0\n", err=""
    )
    # Nothing to fix any more: nothing is restored, and nothing said.
    again = run_envdoctor(
        "run", "-p", "small", "--restore", "--", "echo", "started", folder=tmp_path, extra=local_sources(tmp_path)
    )
    assert again == Outcome(code=0, out="started\n", err="")


_RANK = {"TORCHELASTIC_RUN_ID": "run", "LOCAL_WORLD_SIZE": "2"}


def _begin(folder: Path, rank: int, words: Sequence[str], extra: Mapping[str, str]) -> "subprocess.Popen[str]":
    """Start a rank of `envdoctor run` as torchrun starts it."""
    own = {**_RANK, "RANK": str(rank), "LOCAL_RANK": str(rank), **extra}
    return subprocess.Popen(
        [*COMMAND, "run", "-p", "small", *words],
        cwd=folder,
        env=environment(folder, own),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ranks_that_see_a_gpu_each_restore_once(tmp_path: Path) -> None:
    """`srun --gpus-per-task=1` sets CUDA_VISIBLE_DEVICES in each; a second restore would be under the first rank."""
    incident = make_incident(tmp_path)
    incident.lose()
    words = ("--restore", "--", "python", "-c", "print('started', flush=True); input()")
    ranks = [
        _begin(tmp_path, rank, words, {"CUDA_VISIBLE_DEVICES": str(rank), **local_sources(tmp_path)})
        for rank in range(2)
    ]
    said = []
    for rank in ranks:
        assert rank.stdout is not None
        said.append(rank.stdout.readline())
    errors = [rank.communicate("\n")[1] for rank in ranks]
    assert said == ["started\n", "started\n"], errors
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert "".join(errors).count("restored ") == 1, errors


def test_an_error_that_ranks_share_is_printed_once(tmp_path: Path) -> None:
    incident = make_incident(tmp_path)
    incident.lose()
    # No wheel is found, so nothing can be restored.
    shutil.rmtree(tmp_path / "wheels")
    (tmp_path / "wheels").mkdir()
    ranks = [_begin(tmp_path, rank, ("--restore", "--", "true"), local_sources(tmp_path)) for rank in range(2)]
    said = [rank.communicate()[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [4, 4], said
    # Either of them tried; local rank 0 says what came of it.
    assert said[1].endswith("error: `true` was not started (profile small): another rank of this node says why\n")
    assert ["\n\nhint: " in text for text in said] == [True, False], said


def test_with_the_gate_off_what_is_restored_is_not_judged(tmp_path: Path) -> None:
    incident = make_incident(tmp_path)
    incident.lose()
    once = (
        "from envdoctor.cli.commands import run\n"
        "examine, calls = run._examine, []\n"
        "def once(workspace):\n"
        "    calls.append(workspace)\n"
        "    assert len(calls) == 1, 'examined again'\n"
        "    return examine(workspace)\n"
        "run._examine = once"
    )
    outcome = run_behind(
        once,
        *("run", "-p", "small", "--restore", "--gate", "off", "--reason", "a test", "--", "echo", "started"),
        folder=tmp_path,
        extra=local_sources(tmp_path),
    )
    assert (outcome.code, outcome.out) == (0, "started\n"), outcome.err


def test_restore_does_not_swap_under_a_running_process_unless_told(tmp_path: Path) -> None:
    incident = make_incident(tmp_path)
    incident.lose()
    extra = local_sources(tmp_path)
    command = ("run", "-p", "small", "--restore", "--", "echo", "started")
    with subprocess.Popen(
        [incident.venv.prefix / "bin/python", "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as training:
        inode = incident.venv.prefix.stat().st_ino
        refused = run_envdoctor(*command, folder=tmp_path, extra=extra)
        assert (refused.code, refused.out) == (4, "")
        assert refused.err.endswith(
            "error: [TMP]/.venv is in use, and is not swapped under "
            f"process {training.pid}: [TMP]/.venv/bin/python -c input() (started from it)\n"
            "[TMP]/.venv is as it was\n\n"
            "hint: wait until it has ended; `run --yes-while-in-use`, or a restore without `--unless-in-use`, swaps "
            "all the same: what it has open stays, what it imports or opens by path later is the new venv's\n"
        )
        assert incident.venv.prefix.stat().st_ino == inode
        told = run_envdoctor("run", "--yes-while-in-use", *command[1:], folder=tmp_path, extra=extra)
        training.kill()
    assert (told.code, told.out) == (0, "started\n")
    assert incident.venv.prefix.stat().st_ino != inode


def test_restore_makes_a_venv_that_is_not_there(tmp_path: Path) -> None:
    incident = make_incident(tmp_path)
    shutil.rmtree(incident.venv.prefix)
    command = ("python", "-c", "import sys; print(sys.prefix)")
    outcome = run_envdoctor(
        "run",
        "-p",
        "small",
        "--venv",
        "new",
        "--restore",
        "--",
        *command,
        folder=tmp_path,
        extra=local_sources(tmp_path),
    )
    assert (outcome.code, outcome.out) == (0, "[TMP]/new\n")


def test_a_profile_may_not_set_what_loads_code(healthy: Incident) -> None:
    profile = healthy.root / "profiles" / "loading.toml"
    small = (healthy.root / "profiles" / "small.toml").read_text()
    text = small.replace('name = "small"', 'name = "loading"').replace("DFLASH_THREADS", "LD_AUDIT")
    profile.write_text(text)
    wanted = (
        f"error: {profile}: environment.set: LD_AUDIT would load code into all that is started\n\nhint: take it out, "
    )
    wanted += "or add `--trust-variables` to `run` or `cache warm` if that profile is yours\n"
    for command in (("run", "-p", "loading", "--", "true"), ("cache", "warm", "-p", "loading")):
        refused = run_envdoctor(*command, folder=healthy.root)
        assert (refused.code, refused.out, refused.err.replace("[TMP]", str(healthy.root))) == (2, "", wanted)
    allowed = run_envdoctor(
        *("run", "-p", "loading", "--trust-variables", "--", "sh", "-c", "echo $LD_AUDIT"), folder=healthy.root
    )
    assert (allowed.code, allowed.out) == (0, "3\n")
