"""The gate in the ranks of one node: one examination for all that ask the same, in real processes."""

import fcntl
import math
import os
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from envdoctor.doctor import once_a_node
from envdoctor.facts.launch import shared
from tests.factories.make_incident import Incident, make_gated_incident
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import ROOT, environment, filtered
from tests.unit.test_gate import REFUSED, report

# The gate as it is; each examination is written down, and the first may end its process in its midst.
SCRIPT = f"""\
import os, signal, sys, time
sys.path.insert(0, {str(ROOT)!r})
from envdoctor import gate
examine = gate._examine
def noted(*given, **named):
    log = os.open(os.environ["EXAMINED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    first = not os.fstat(log).st_size
    os.write(log, (os.environ.get("LOCAL_RANK", "") + "\\n").encode())
    if first and os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("SLOW"):
        time.sleep(1)
    return examine(*given, **named)
gate._examine = noted
if os.environ.get("SLOW"):
    gate._WORD_SECONDS = 0.0
gate.REPORT_SECONDS = float(os.environ.get("WAITS", "600"))
gate.require("small")
print("started")
"""


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_gated_incident(tmp_path_factory.mktemp("healthy"))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    return make_gated_incident(tmp_path_factory.mktemp("broken"), lost=True)


class Node:
    """Starts ranks as a launcher does, with one runtime folder."""

    def __init__(self, folder: Path) -> None:
        """Make the runtime folder, and the script that each rank runs."""
        self.runtime = folder / "runtime"
        self.runtime.mkdir(mode=0o700)
        self.log = folder / "examined"
        self.script = folder / "train.py"
        self.script.write_text(SCRIPT)

    @property
    def examined(self) -> list[str]:
        """The local rank of each examination, in their order."""
        return self.log.read_text().split()

    def variables(self, incident: Incident, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the variables of a process of this node."""
        own = {"XDG_RUNTIME_DIR": str(self.runtime), "EXAMINED": str(self.log)}
        return environment(incident.root, {**own, **(extra or {})})

    def begin(self, incident: Incident, rank: int, extra: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
        """Start a rank as torchrun starts it."""
        launched = {"LOCAL_RANK": str(rank), "RANK": str(rank), "TORCHELASTIC_RUN_ID": "run", **(extra or {})}
        return subprocess.Popen(
            [incident.venv.python, self.script],
            cwd=incident.root,
            env=self.variables(incident, launched),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, incident: Incident, ranks: Sequence[int], extra: Mapping[str, str] | None = None) -> list[int]:
        """Return the exit codes of ranks that run at once."""
        begun = [self.begin(incident, rank, extra) for rank in ranks]
        for process in begun:
            process.communicate()
        return [process.returncode for process in begun]

    def torchrun(self, incident: Incident, ranks: int, start: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """Have the real torchrun start them."""
        command: list[object] = ["--standalone", "--nproc-per-node", str(ranks), "--no-python"]
        command += [start] if start else [incident.venv.python, self.script]
        return subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *map(str, command)],
            cwd=incident.root,
            env=self.variables(incident),
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def verdict(node: Node, healthy: Incident) -> Iterator[Path]:
    """Let rank 0 examine, and return the file with what it found."""
    assert node.run(healthy, [0]) == [0]
    (found,) = (node.runtime / "envdoctor").glob("*.verdict")
    yield found
    assert node.examined[0] == "0"


@pytest.mark.torch_stack
def test_torchrun_starts_four_ranks_after_one_examination(node: Node, healthy: Incident) -> None:
    done = node.torchrun(healthy, 4)
    assert (done.returncode, done.stdout.count("started"), len(node.examined)) == (0, 4, 1), done.stderr


@pytest.mark.torch_stack
def test_torchrun_refuses_with_one_report(node: Node, broken: Incident) -> None:
    done = node.torchrun(broken, 3)
    said = filtered(done.stderr, broken.root)
    assert (done.returncode, done.stdout, len(node.examined)) == (1, "", 1)
    assert said.count(report(broken)) == 1
    assert REFUSED.format(who="rank 0") in said


@pytest.mark.torch_stack
def test_torchrun_refuses_a_rank_of_another_venv_by_name(
    node: Node, healthy: Incident, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("other")
    other = make_gated_incident(root, more=[make_wheel(root / "wheels", "extra", "1.0", files={"extra.py": ""})])
    start = node.script.with_name("start.sh")
    choice = f'[ "$RANK" = 2 ] && exec {other.venv.python} {node.script}'
    start.write_text(f"#!/bin/sh\n{choice}\nexec {healthy.venv.python} {node.script}\n")
    start.chmod(0o755)
    done = node.torchrun(healthy, 4, start)
    said = filtered(done.stderr, healthy.root).replace(str(root), "[OTHER]").replace(f" ({os.uname().nodename})", "")
    table = (
        "error: envdoctor gate: the ranks of this job do not run one stack: 1 of 4 differs, rank 2\n"
        "\n"
        "  fact           most ranks           others               who\n"
        "  stack          sha256:############  sha256:############  rank 2\n"
        "  package extra  none                 1.0 (############)   rank 2\n"
        "\n"
        "help: rank 2: runs from [OTHER]/.venv; start it with [TMP]/.venv/bin/python\n"
    )
    assert (done.returncode, done.stdout) == (1, ""), said
    assert re.sub(r"(?<=[:(])[0-9a-f]{12}\b", "#" * 12, said).count(table) == 1, said


def test_the_report_is_local_rank_0s_whoever_examined(node: Node, broken: Incident) -> None:
    later = node.begin(broken, 1)
    assert later.stderr is not None
    refused = later.stderr.readline()
    first = node.begin(broken, 0)
    _, said = first.communicate()
    assert filtered(said, broken.root) == f"{report(broken)}\n{REFUSED.format(who='rank 0')}"
    assert (refused + later.communicate()[1]).replace(str(broken.root), "[TMP]") == REFUSED.format(who="rank 1")
    assert (later.returncode, first.returncode, node.examined) == (1, 1, ["1"])


def test_a_cause_that_local_rank_0_does_not_have_is_reported_by_another_rank(
    node: Node, healthy: Incident, broken: Incident
) -> None:
    assert node.run(healthy, [0]) == [0]
    begun = [node.begin(broken, rank, {"WAITS": "0"}) for rank in (1, 2, 3)]
    said = [filtered(process.communicate()[1], broken.root) for process in begun]
    assert [process.returncode for process in begun] == [1, 1, 1]
    assert sorted(text.count(report(broken)) for text in said) == [0, 0, 1]
    late = node.begin(broken, 0, {"WAITS": "0"})
    assert filtered(late.communicate()[1], broken.root) == REFUSED.format(who="rank 0")
    assert len(node.examined) == 2


def test_a_warning_is_said_and_logged_once_by_the_first_rank(node: Node, broken: Incident, tmp_path: Path) -> None:
    log = tmp_path / "gate.log"
    warned = {"ENVDOCTOR_GATE": "warn", "ENVDOCTOR_GATE_REASON": "r", "ENVDOCTOR_GATE_LOG": str(log)}
    said = [node.begin(broken, rank, warned).communicate() for rank in (1, 0, 2)]
    assert [out for out, _ in said] == ["started\n"] * 3
    once = "warning: envdoctor gate: mode warn for profile small, because: r; findings let through: ED201\n"
    assert [filtered(err, broken.root) for _, err in said] == [f"{report(broken)}\n{once}", "", ""]
    assert len(log.read_text().splitlines()) == 1


def test_a_warned_rank_with_a_finding_refuses_no_other(
    node: Node, healthy: Incident, broken: Incident, tmp_path: Path
) -> None:
    warned = {"ENVDOCTOR_GATE": "warn", "ENVDOCTOR_GATE_REASON": "r", "ENVDOCTOR_GATE_LOG": str(tmp_path / "gate.log")}
    job = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    begun = [node.begin(one, rank, {**warned, **job}) for rank, one in enumerate((broken, healthy))]
    said = [process.communicate() for process in begun]
    assert [(process.returncode, out) for process, (out, _) in zip(begun, said, strict=True)] == [(0, "started\n")] * 2
    head = "error: envdoctor gate: the ranks of this job do not run one stack, and no majority says which"
    assert [err.count(head) for _, err in said] == [1, 0]
    assert "findings let through: ED201, ranks-differ\n" in said[0][1]


def test_when_the_examiner_is_killed_the_next_rank_examines(node: Node, healthy: Incident) -> None:
    codes = node.run(healthy, [0, 1, 2], {"DIES": "1"})
    assert (sorted(codes), len(node.examined)) == ([-9, 0, 0], 2)


def test_a_rank_of_another_environment_has_its_own_verdict(node: Node, healthy: Incident, broken: Incident) -> None:
    begun = [node.begin(healthy, 0), node.begin(broken, 1, {"WAITS": "0"}), node.begin(healthy, 2)]
    said = [process.communicate()[1] for process in begun]
    assert [process.returncode for process in begun] == [0, 1, 0], said
    assert len(node.examined) == 2


@pytest.mark.parametrize(
    "variable", ["LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "PYTHONPATH", "TORCHELASTIC_RESTART_COUNT"]
)
@pytest.mark.usefixtures("verdict")
def test_a_rank_with_another_variable_examines(node: Node, healthy: Incident, variable: str) -> None:
    assert node.run(healthy, [1], {variable: "1"}) == [0]
    assert node.examined == ["0", "1"]


@pytest.mark.parametrize(
    ("first", "later"),
    [
        # As srun of Slurm 22.05 and mpirun of Open MPI 4.1 leave them in two ranks.
        ({"SLURM_PROCID": "0", "SLURM_TASK_PID": "7", "TMPDIR": "/tmp"}, {"SLURM_PROCID": "1", "SLURM_TASK_PID": "8"}),
        (
            {"PMIX_ID": "5.0", "OMPI_MCA_ess_base_vpid": "0", "OMPI_MCA_orte_ess_node_rank": "0"},
            {"PMIX_ID": "5.1", "OMPI_MCA_ess_base_vpid": "1", "OMPI_MCA_orte_ess_node_rank": "1"},
        ),
    ],
)
def test_what_tells_ranks_apart_is_no_other_environment(first: dict[str, str], later: dict[str, str]) -> None:
    assert shared({"PATH": "/bin", **first}) == shared({"PATH": "/bin", **later}) == {"PATH": "/bin"}


def test_another_folder_for_temporary_files_is_another_environment() -> None:
    assert shared({"TMPDIR": "/tmp", "TEMP": "/scratch"}) != shared({"TEMP": "/scratch"})
    assert shared({"TMPDIR": "/scratch"}) != shared({})


@pytest.mark.usefixtures("verdict")
def test_a_later_process_of_a_rank_examines_again(node: Node, healthy: Incident) -> None:
    assert node.run(healthy, [1]) == [0]
    assert node.examined == ["0"]
    assert node.run(healthy, [1]) == [0]
    assert node.examined == ["0", "1"]


@pytest.mark.usefixtures("verdict")
def test_ranks_of_a_launcher_that_goes_on_take_no_verdict_from_before_their_start(
    node: Node, healthy: Incident
) -> None:
    by_hand = {"TORCHELASTIC_RUN_ID": ""}
    assert [node.run(healthy, [rank], by_hand) for rank in (0, 1)] == [[0], [0]]
    assert node.examined == ["0", "0", "1"]


def test_a_process_that_is_not_one_of_several_leaves_nothing(node: Node, healthy: Incident) -> None:
    for alone in ({"LOCAL_RANK": ""}, {"LOCAL_WORLD_SIZE": "1"}):
        assert node.run(healthy, [0], alone) == [0]
    assert list(node.runtime.iterdir()) == []


def _of_another_user(verdict: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(verdict, 65534, 65534)


def _open_to_others(verdict: Path) -> None:
    verdict.parent.chmod(0o755)


def _writable_by_others(verdict: Path) -> None:
    verdict.chmod(0o666)


def _link(verdict: Path) -> None:
    verdict.rename(verdict.with_suffix(".moved"))
    verdict.symlink_to(verdict.with_suffix(".moved"))


def _cut(verdict: Path) -> None:
    os.truncate(verdict, verdict.stat().st_size - 1)


def _of_tomorrow(verdict: Path) -> None:
    body = verdict.read_bytes().partition(b"\n")[2].replace(b'"ended": ', b'"ended": 9')
    verdict.write_bytes(b"%08x\n%b" % (zlib.crc32(body), body))


@pytest.mark.parametrize("spoil", [_of_another_user, _open_to_others, _writable_by_others, _link, _cut, _of_tomorrow])
def test_a_verdict_that_may_be_anothers_or_is_damaged_is_not_believed(
    node: Node, healthy: Incident, verdict: Path, spoil: object
) -> None:
    spoil(verdict)  # type: ignore[operator]
    assert node.run(healthy, [1]) == [0]
    assert node.examined == ["0", "1"]


def test_who_waits_for_long_says_so(node: Node, healthy: Incident, verdict: Path) -> None:
    with verdict.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = node.begin(healthy, 0)
        assert waiting.stderr is not None
        said = waiting.stderr.readline()
        time.sleep(0.1)
    waiting.communicate()
    assert said == "note: envdoctor gate: waiting for another rank of this node, which examines the same environment\n"
    assert waiting.returncode == 0


def test_who_waits_for_longer_says_so_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once_a_node, "_WORD_SECONDS", 0.01)
    monkeypatch.setattr(once_a_node, "_NEXT_WORD_SECONDS", 0.02)
    path, said = tmp_path / "verdict", []

    def say(text: str, waited: float) -> None:
        said.append(text)
        if len(said) == 3:
            fcntl.flock(held, fcntl.LOCK_UN)

    with path.open("w") as held, path.open() as waiting:
        fcntl.flock(held, fcntl.LOCK_EX)
        with once_a_node._locked(waiting.fileno(), say, math.inf, "restores the same venv") as alone:
            assert alone
    first = "waiting for another rank of this node, which restores the same venv"
    assert [said[0], *(re.sub(r"\d+ s", "N s", text) for text in said[1:])] == [first, *[f"{first}: N s so far"] * 2]


def test_an_examination_that_takes_long_is_said_by_local_rank_0(node: Node, healthy: Incident) -> None:
    said = [node.begin(healthy, rank, {"SLOW": "1"}).communicate()[1] for rank in (1, 0)]
    assert said == ["", ""], "rank 0 took the verdict of rank 1"
    alone = node.begin(healthy, 0, {"SLOW": "1", "TORCHELASTIC_RESTART_COUNT": "1"}).communicate()[1]
    note = f"examining {healthy.venv.prefix}, which takes long where its files are slow or were not read before"
    assert alone == f"note: envdoctor gate: {note}\n"


def test_old_verdicts_go_little_by_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "verdicts"
    folder.mkdir(mode=0o700)
    for name in ("a", "b", "c", "new"):
        (folder / f"{name}.verdict").touch()
    (folder / "mine").touch()
    for name in ("a.verdict", "b.verdict", "c.verdict", "mine"):
        os.utime(folder / name, (0, 0))
    monkeypatch.setattr(once_a_node, "_MOST_LOOKED_AT", 2)
    left = []
    for _ in range(4):
        os.close(once_a_node._opened(folder, "x.verdict"))
        left.append(len(list(folder.iterdir())))
    assert left[0] >= 4, "no more than two at a start"
    monkeypatch.setattr(once_a_node, "_MOST_LOOKED_AT", 100)
    os.close(once_a_node._opened(folder, "x.verdict"))
    assert sorted(path.name for path in folder.iterdir()) == ["mine", "new.verdict", "x.verdict"]
