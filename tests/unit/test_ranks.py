"""The ranks of a job meet: over real sockets, each rank a thread, rank 0 among them."""

import hashlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from envdoctor import gate_ranks
from envdoctor.errors import UsageError
from envdoctor.facts.host import Host
from envdoctor.model.frozen import replace
from envdoctor.ranks import joining, meeting
from envdoctor.ranks.job import MeetingPlace, RankedJob, job_of
from envdoctor.ranks.sockets import connect, listen
from envdoctor.ranks.wire import TO_RANK, TO_RANK_0, ForeignError, FrameReader, frame

KEY = b"k" * 32
HELP = (
    "help: look at the launcher's log of those ranks, and whether the gate is in their environment\n"
    "help: a rank that starts later needs ENVDOCTOR_RANKS_TIMEOUT=SECONDS; ENVDOCTOR_RANKS=require refuses such a job, "
    "ENVDOCTOR_RANKS=off compares nothing"
)
NOT_MET = {"compare": (0, "warning", "; it starts all the same"), "require": (3, "error", "")}
"""Mode -> the exit code of who met nobody, and how it is said."""
REQUIRED_HELP = HELP.replace("require refuses", "compare starts")
USUAL = {"torch": "2.13.0+cpu", "variable NCCL_DEBUG": "INFO", "package numpy": "2.3 (aa)"}


def own(code: int = 0, found: tuple[str, ...] = (), **other: str) -> gate_ranks.Own:
    """Return what a rank says of itself: the usual facts, and others."""
    return gate_ranks.Own(code=code, found=found, sheet=json.dumps({"facts": USUAL | other, "unread": {}}))


@dataclass(slots=True)
class Ranks:
    """Ranks of one job on one node."""

    folder: Path
    launch: Mapping[str, str]
    size: int = 3
    said: dict[int, list[str]] = field(default_factory=dict)
    codes: dict[int, int] = field(default_factory=dict)
    threads: list[threading.Thread] = field(default_factory=list)

    def environ(self, rank: int) -> dict[str, str]:
        """Return the variables of a rank."""
        return {"RANK": str(rank), "WORLD_SIZE": str(self.size), "LOCAL_WORLD_SIZE": str(self.size), **self.launch}

    def job(self, rank: int) -> RankedJob:
        """Return the job as a rank sees it."""
        found = job_of(self.environ(rank))
        assert found is not None
        return found

    def begin(self, rank: int, says: gate_ranks.Own) -> None:
        """Let a rank come."""
        host = replace(Host.current(), environ=self.environ(rank), cwd=self.folder)
        said = self.said.setdefault(rank, [])

        def run() -> None:
            self.codes[rank] = gate_ranks.compared(self.job(rank), host, says, "good", said.append)

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def run(self, *all_of_them: gate_ranks.Own) -> list[int]:
        """Return the exit codes of ranks 0, 1, …, the last of which comes first."""
        for rank, says in reversed(list(enumerate(all_of_them))):
            self.begin(rank, says)
        return self.ended()

    def ended(self) -> list[int]:
        """Return the exit codes by rank, when all have ended."""
        for thread in self.threads:
            thread.join(60)
        return [code for _, code in sorted(self.codes.items())]

    def text(self) -> str:
        """Return what rank 0 said, but for its host and this interpreter."""
        shown = "\n".join(self.said[0]).replace(f" ({os.uname().nodename})", "")
        return shown.replace(sys.prefix, "[VENV]")


@pytest.fixture
def ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ranks:
    monkeypatch.setenv("ENVDOCTOR_RANKS_DONE", "")  # given back when the test is over
    for of, name, value in ((meeting, "_WORDS", (60.0,)), (joining, "_WORD_SECONDS", 60.0)):
        monkeypatch.setattr(of, name, value)  # on a busy machine two seconds are nothing
    return Ranks(folder=tmp_path, launch={"TORCHELASTIC_RUN_ID": str(tmp_path), "ENVDOCTOR_RANKS_TIMEOUT": "30"})


def test_equal_ranks_start_without_a_word(ranks: Ranks) -> None:
    assert ranks.run(own(), own(), own()) == [0, 0, 0]
    assert ranks.said == {0: [], 1: [], 2: []}
    assert os.environ["ENVDOCTOR_RANKS_DONE"] == ranks.job(1).mark


def test_the_one_that_differs_is_named_with_what_it_needs(ranks: Ranks) -> None:
    odd = own(torch="2.9.0", **{"variable NCCL_DEBUG": "", "package more": "1 (bb)"})
    assert ranks.run(own(), odd, own()) == [1, 1, 1]
    assert (ranks.said[1], ranks.said[2]) == ([], [])
    assert ranks.text() == (
        "error: envdoctor gate: the ranks of this job do not run one stack: 1 of 3 differs, rank 1\n"
        "\n"
        "  fact                 most ranks  others  who\n"
        "  torch                2.13.0+cpu  2.9.0   rank 1\n"
        "  package more         none        1 (bb)  rank 1\n"
        "  variable NCCL_DEBUG  INFO        none    rank 1\n"
        "\n"
        "help: rank 1: `envdoctor restore --profile good --venv [VENV] --dry-run` shows what would change there\n"
        "help: rank 1: `export NCCL_DEBUG=INFO`"
    )


def test_two_that_differ_accuse_nobody(ranks: Ranks) -> None:
    ranks.size = 2
    assert ranks.run(own(), own(driver="570")) == [1, 1]
    assert ranks.text() == (
        "error: envdoctor gate: the ranks of this job do not run one stack, and no majority says which of them is "
        "wrong\n"
        "\n"
        "  fact    one value  another  who\n"
        "  driver  none       570      rank 1\n"
        "\n"
        "help: find the wrong one on each host: `envdoctor check VENV --profile good`"
    )


@pytest.mark.parametrize("by", ["variable", "configuration"])
def test_a_fact_that_may_differ(ranks: Ranks, by: str) -> None:
    if by == "variable":
        ranks.launch = {**ranks.launch, "ENVDOCTOR_RANKS_IGNORE": "driver, torch"}
    else:
        (ranks.folder / "pyproject.toml").write_text('[tool.envdoctor]\nranks-ignore = ["driver", "torch"]\n')
    assert ranks.run(own(), own(driver="570"), own(torch="3")) == [0, 0, 0]


def test_an_ignored_package_takes_the_digest_along_and_nothing_else(ranks: Ranks) -> None:
    ranks.launch = {**ranks.launch, "ENVDOCTOR_RANKS_IGNORE": "package numpy,package nunpy"}
    sheets = [own(stack="a"), own(stack="b", **{"package numpy": "2.4 (bb)"}), own(stack="a")]
    assert ranks.run(*sheets) == [0, 0, 0]
    assert ranks.said[0] == []
    assert ranks.run(*sheets[:2], own(stack="c")) == [1, 1, 1]
    assert ranks.text() == (
        "error: envdoctor gate: the ranks of this job do not run one stack, and no majority says which of them is "
        "wrong\n"
        "\n"
        "  fact   one value  another  who\n"
        "  stack  a          b        rank 1\n"
        "                    c        rank 2\n"
        "\n"
        "help: find the wrong one on each host: `envdoctor check VENV --profile good`\n"
        "help: ranks-ignore names what no rank has: package nunpy"
    )


@pytest.mark.parametrize("wrong", ["variable", "variabel NCCL_PROTO", "packages"])
def test_what_may_differ_is_a_fact(ranks: Ranks, wrong: str) -> None:
    host = replace(Host.current(), environ={**ranks.environ(1), "ENVDOCTOR_RANKS_IGNORE": f"driver,{wrong}"})
    with pytest.raises(UsageError) as caught:
        gate_ranks.job_here(replace(host, cwd=ranks.folder))
    assert caught.value.message == f"`{wrong}` of ranks-ignore or ENVDOCTOR_RANKS_IGNORE is no fact of a stack"


def test_a_fact_that_could_not_be_read_is_said(ranks: Ranks) -> None:
    blind = json.dumps({"facts": USUAL, "unread": {"NCCL": "torn", "bytes of NCCL": "torn"}})
    assert ranks.run(own(), gate_ranks.Own(code=0, sheet=blind), own()) == [0, 0, 0]
    assert ranks.text() == (
        "note: envdoctor gate: could not be read and was not compared: NCCL, bytes of NCCL of rank 1: torn"
    )


def test_no_export_is_said_of_a_name_that_a_shell_would_run(ranks: Ranks) -> None:
    assert ranks.run(own(), own(**{"variable TORCH_X; reboot": "1"}), own()) == [1, 1, 1]
    assert "reboot`" not in ranks.text()


def _said_where_one_never_comes(ranks: Ranks, mode: str, code: int) -> str:
    ranks.launch = {**ranks.launch, "ENVDOCTOR_RANKS_TIMEOUT": "0.5", "ENVDOCTOR_RANKS": mode}
    for rank in (0, 2):
        ranks.begin(rank, own())
    assert ranks.ended() == [code, code]
    assert ranks.said[2] == []
    return ranks.text()


def test_a_rank_that_never_comes_is_named_and_ends_no_job(ranks: Ranks) -> None:
    assert _said_where_one_never_comes(ranks, "compare", 0) == (
        "warning: envdoctor gate: rank 1 of 3 did not come within 0.5 s, so that not all ranks could be compared; "
        f"the job starts all the same\n\n{HELP}"
    )
    assert os.environ["ENVDOCTOR_RANKS_DONE"] == ranks.job(0).mark


def test_a_rank_that_never_comes_is_named_and_refused_where_all_are_required(ranks: Ranks) -> None:
    assert _said_where_one_never_comes(ranks, "require", 3) == (
        "error: envdoctor gate: rank 1 of 3 did not come within 0.5 s, so that not all ranks could be compared\n\n"
        f"{REQUIRED_HELP}"
    )
    assert os.environ["ENVDOCTOR_RANKS_DONE"] == ""


@pytest.mark.parametrize(
    ("mode", "then"), [("compare", "the others start without them"), ("require", "the start is refused")]
)
def test_who_is_waited_for_is_said(ranks: Ranks, monkeypatch: pytest.MonkeyPatch, mode: str, then: str) -> None:
    monkeypatch.setattr(meeting, "_WORDS", (0.0,))
    ranks.size = 2
    ranks.launch = {**ranks.launch, "ENVDOCTOR_RANKS_TIMEOUT": "0.1", "ENVDOCTOR_RANKS": mode}
    ranks.begin(0, own())
    ranks.ended()
    word = f"waiting for 1 of 2 ranks: rank 1; {then} 0.1 s after rank 0 was there"
    assert ranks.said[0][0] == f"note: envdoctor gate: {word}"


def test_between_nodes_the_address_is_named_at_which_a_rank_did_not_come(ranks: Ranks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    between = {"LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "ENVDOCTOR_RANKS_PORT": port}
    ranks.launch = {**ranks.launch, **between}
    where = f"127.0.0.1, TCP port {port}"
    said = _said_where_one_never_comes(ranks, "compare", 0)
    first, second = HELP.split("\n")
    assert said == (
        f"warning: envdoctor gate: rank 1 of 3 did not come to {where} within 0.5 s, so that not all ranks could be "
        f"compared; the job starts all the same\n\n{first}\n"
        f"help: look whether {where} can be reached from there; ENVDOCTOR_RANKS_PORT names a port\n{second}"
    )


@pytest.mark.parametrize("mode", NOT_MET)
@pytest.mark.parametrize(
    ("between", "at", "route"),
    [
        ({}, "", ""),
        (
            {"LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "a..b", "ENVDOCTOR_RANKS_PORT": "29600"},
            " at a..b, TCP port 29600",
            ", and whether a..b, TCP port 29600 can be reached from here (ENVDOCTOR_RANKS_PORT names a port)",
        ),
    ],
    ids=["on one node", "between nodes"],
)
def test_a_rank_0_that_never_comes_is_named(
    ranks: Ranks, mode: str, between: dict[str, str], at: str, route: str
) -> None:
    code, kind, end = NOT_MET[mode]
    ranks.launch = {**ranks.launch, **between, "ENVDOCTOR_RANKS_TIMEOUT": "0.3", "ENVDOCTOR_RANKS": mode}
    ranks.begin(1, own())
    assert ranks.ended() == [code]
    assert ranks.said[1] == [
        f"{kind}: envdoctor gate: rank 1 of 3 was not compared with the others: rank 0 was not found{at} within 0.3 s"
        f"{end}\n\n"
        f"hint: look at the launcher's log of rank 0, whether the gate is in its environment{route}; "
        "`export ENVDOCTOR_RANKS=off` compares no ranks"
    ]


def test_ranks_that_start_in_any_case_refuse_nobody_and_meet_once(ranks: Ranks) -> None:
    warned = replace(own(), starts=True)
    blind = gate_ranks.Own(code=0, starts=True)
    assert ranks.run(replace(warned, found=("ED201",)), warned, blind) == [0, 0, 0]
    assert ranks.text() == (
        "warning: envdoctor gate: rank 2 of 3 could not be examined, so that not all ranks could be compared; the job "
        "starts all the same\n\n"
        "help: look at the launcher's log of those ranks, and whether the gate is in their environment"
    )
    os.environ["ENVDOCTOR_RANKS_DONE"] = ""
    assert ranks.run(warned, replace(own(torch="3"), starts=True), warned) == [1, 1, 1]
    assert os.environ["ENVDOCTOR_RANKS_DONE"] == ranks.job(0).mark


def test_a_rank_that_dies_while_others_are_waited_for(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "_BACK_SECONDS", 0.1)
    monkeypatch.setattr(meeting, "SETTLE_SECONDS", 0.3)
    ranks.begin(0, own())
    greeting = {
        "rank": 2,
        "host": os.uname().nodename,
        "prefix": "/v",
        "code": 0,
        "found": [],
        "sheet": "s",
        "nonce": "n",
    }
    with _at(ranks.job(2)) as connection:
        connection.sendall(frame(ranks.job(2).key, TO_RANK_0, greeting))
        connection.recv(1)
    assert ranks.ended() == [0]
    assert ranks.text() == (
        "warning: envdoctor gate: rank 2 of 3 ended while the others waited for all of them to come; the job starts "
        "all the same\n"
        "\n"
        "  ended while the others waited: rank 2\n"
        "  had not come by then: rank 1\n"
        f"\n{HELP}"
    )


def test_a_rank_that_its_own_check_refuses_ends_the_waiting(ranks: Ranks) -> None:
    assert ranks.run(own(), own(code=1, found=("ED201", "ED301")), own()) == [1, 1, 1]
    assert ranks.text() == (
        "error: envdoctor gate: 1 of 3 ranks is refused, so that this job does not start\n"
        "\n"
        "  refused by the check of their own environment: rank 1: ED201, ED301\n"
        "\n"
        "help: each refused environment has its own report, on the first of its ranks"
    )


def test_where_all_are_refused_for_one_reason_nothing_is_added_to_the_report(ranks: Ranks) -> None:
    assert ranks.run(*[own(code=1, found=("ED201",))] * 3) == [1, 1, 1]
    assert ranks.said == {0: [], 1: [], 2: []}


def test_between_nodes_they_meet_over_tcp_past_what_is_not_of_the_job(ranks: Ranks) -> None:
    ranks.launch = {**ranks.launch, "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    first = ranks.job(0).places[0]
    with socket.create_server((first.name, first.port)) as taken:  # another program has the first port
        taken.settimeout(0.2)
        ranks.begin(0, own())
        strangers = []
        for data in (b"GET / HTTP/1.1\r\n\r\n" * 4, b"\0" * 100, b"", b"\xff" * 9, frame(KEY, TO_RANK_0, {"rank": 1})):
            strangers.append(_at(ranks.job(0), place=1))
            strangers[-1].sendall(data)
        forged = {"rank": 7, "host": "h", "prefix": "", "code": 0, "found": [], "sheet": "", "nonce": ""}
        for greeting in (forged, {"rank": "1"}, {**forged, "rank": 0}):
            strangers.append(_at(ranks.job(0), place=1))
            strangers[-1].sendall(frame(ranks.job(0).key, TO_RANK_0, greeting))
        taken.close()
        for rank in (1, 2):
            ranks.begin(rank, own())
        assert ranks.ended() == [0, 0, 0]
    for stranger in strangers:
        stranger.close()
    assert ranks.said == {0: [], 1: [], 2: []}


def _at(job: RankedJob, place: int = 0) -> socket.socket:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if found := connect(job.places[place]):
            return found
        time.sleep(0.01)
    raise AssertionError("rank 0 does not listen")


@pytest.mark.parametrize("mode", NOT_MET)
def test_rank_0_that_cannot_listen_says_so(ranks: Ranks, mode: str) -> None:
    code, kind, end = NOT_MET[mode]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        between = {"LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "ENVDOCTOR_RANKS_PORT": port}
        ranks.launch = {**ranks.launch, **between, "ENVDOCTOR_RANKS": mode}
        ranks.begin(0, own())
        assert ranks.ended() == [code]
    assert ranks.text() == (
        f"{kind}: envdoctor gate: rank 0 cannot listen for the others of 3 ranks: 127.0.0.1 port {port}: Address "
        f"already in use{end}\n\nhint: name a free port: `export ENVDOCTOR_RANKS_PORT=29600`, on every rank; "
        "`export ENVDOCTOR_RANKS=off` compares no ranks"
    )


def test_a_master_address_that_is_no_name_is_said(ranks: Ranks) -> None:
    ranks.launch = {**ranks.launch, "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "a..b", "ENVDOCTOR_RANKS_PORT": "29600"}
    ranks.begin(0, own())
    assert ranks.ended() == [0]
    assert ranks.text().startswith(
        "warning: envdoctor gate: rank 0 cannot listen for the others of 3 ranks: a..b port 29600: "
    )


def test_names_of_one_node_that_others_took_are_given_up_for_own_ones(ranks: Ranks) -> None:
    taken = [socket.socket(socket.AF_UNIX) for _ in ranks.job(0).places]
    for one, place in zip(taken, ranks.job(0).places, strict=True):
        one.bind(f"\0{place.name}")
    ranks.begin(0, own())
    assert ranks.ended() == [0]
    assert ranks.text() == (
        "warning: envdoctor gate: rank 0 cannot listen for the others of 3 ranks: a Unix socket: Address already in "
        "use; it starts all the same\n\nhint: give the job names of its own, in front of its launcher: `export "
        "ENVDOCTOR_RANKS_KEY=$(cat /proc/sys/kernel/random/uuid)`; `export ENVDOCTOR_RANKS=off` compares no ranks"
    )
    ranks.launch = {**ranks.launch, "ENVDOCTOR_RANKS_KEY": "own"}
    ranks.said.clear()
    assert ranks.run(own(), own(), own()) == [0, 0, 0]
    assert ranks.said == {0: [], 1: [], 2: []}
    for one in taken:
        one.close()


def test_ranks_that_nothing_leads_to_each_other_are_said_not_to_be_compared(ranks: Ranks) -> None:
    ranks.launch = {"LOCAL_WORLD_SIZE": "1"}
    assert ranks.run(own(), own(torch="2"), own()) == [0, 0, 0]
    assert ranks.said == {
        0: [
            "note: envdoctor gate: the 3 ranks of this job were not compared: nothing says where rank 0 is; set "
            "MASTER_ADDR and MASTER_PORT as for torch.distributed"
        ],
        1: [],
        2: [],
    }
    ranks.launch = {"LOCAL_WORLD_SIZE": "1", "ENVDOCTOR_RANKS": "require"}
    assert ranks.run(own(), own(), own()) == [3, 3, 3]
    assert ranks.said[0][1] == ranks.said[0][0].replace("note:", "error:")


ELASTIC = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
SRUN = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (ELASTIC, (3, 8, True, "")),
        ({**ELASTIC, "LOCAL_WORLD_SIZE": "4"}, (3, 8, False, "n1")),
        # torchrun below srun: its own ranks count.
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "2", **ELASTIC}, (3, 8, True, "")),
        ({**SRUN, "SLURM_STEP_NUM_NODES": "1"}, (3, 8, True, "")),
        ({**SRUN, "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "gpu[01-02,07]"}, (3, 8, False, "gpu01")),
        ({**SRUN, "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "a-1.x,b"}, (3, 8, False, "a-1.x")),
        ({**SRUN, "SLURM_STEP_NUM_NODES": "2"}, (3, 8, False, None)),
        # A name with a number in its middle is not taken for another.
        ({**SRUN, "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "rack[1-2]n[01-04]"}, (3, 8, False, None)),
        ({**SRUN, "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "n[01-04]-ib"}, (3, 8, False, None)),
        (
            {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            (0, 2, True, ""),
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1", "MASTER_ADDR": "n1"}, (1, 2, False, "n1")),
        # A batch script of Slurm: nothing but the script was started.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "7"}, None),
        ({**ELASTIC, "WORLD_SIZE": "1", "RANK": "0"}, None),
        ({**ELASTIC, "RANK": "8"}, None),
        ({**ELASTIC, "WORLD_SIZE": "many"}, None),
        ({**ELASTIC, "ENVDOCTOR_RANKS": "off"}, None),
        ({}, None),
    ],
)
def test_the_job_that_variables_tell(
    environ: dict[str, str], expected: tuple[int, int, bool, str | None] | None
) -> None:
    job = job_of(environ)
    if expected is None:
        assert job is None
        return
    assert job is not None
    rank, size, on_node, address = expected
    assert (job.rank, job.size, job.on_node, bool(job.places)) == (rank, size, on_node, address is not None)
    assert {place.name for place in job.places if place.port} == ({address} if address else set())


def test_a_rank_that_was_compared_starts_processes_that_nobody_waits_for() -> None:
    job = job_of(ELASTIC)
    assert job is not None
    assert job_of({**ELASTIC, "ENVDOCTOR_RANKS_DONE": job.mark}) is None
    again = job_of({**ELASTIC, "MASTER_PORT": "29501", "ENVDOCTOR_RANKS_DONE": job.mark})
    assert again is not None
    assert again.key != job.key


def _key(environ: Mapping[str, str], launcher: str = "") -> bytes:
    job = job_of(environ, launcher)
    assert job is not None
    return job.key


def test_what_tells_jobs_apart_is_the_launchers_own() -> None:
    nodes = {**ELASTIC, "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none"}
    # One step of srun for each node's torchrun; and the ranks of one step.
    assert _key({**nodes, **SRUN}) == _key({**nodes, **SRUN, "SLURM_STEP_ID": "1"}) == _key(nodes)
    assert _key({**nodes, "TORCHELASTIC_RUN_ID": "7"}) != _key(nodes)
    assert _key({**SRUN, "SLURM_STEP_ID": "1"}) != _key(SRUN)
    # MPICH's mpirun gives its job no id, and PMI_ID is the rank's.
    mpich = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
    assert _key({**mpich, "PMI_ID": "1"}, "71 5") == _key({**mpich, "PMI_ID": "0"}, "71 5") != _key(mpich, "72 5")
    # Between nodes each has another launcher.
    assert _key(nodes, "71 5") == _key(nodes, "72 5")


def test_the_mark_of_a_compared_rank_holds_under_another_launcher() -> None:
    job = job_of(ELASTIC, "71 5")
    assert job is not None
    assert job_of({**ELASTIC, "ENVDOCTOR_RANKS_DONE": job.mark}, "1 0") is None


@pytest.mark.parametrize(("mode", "seconds"), [("", 60.0), ("compare", 60.0), ("require", 300.0)])
def test_how_long_ranks_are_waited_for(mode: str, seconds: float) -> None:
    job = job_of({**ELASTIC, "ENVDOCTOR_RANKS": mode})
    assert job is not None
    assert (job.timeout, job.required) == (seconds, mode == "require")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ENVDOCTOR_RANKS", "on", "ENVDOCTOR_RANKS is `on`"),
        ("ENVDOCTOR_RANKS_TIMEOUT", "0", "ENVDOCTOR_RANKS_TIMEOUT is `0`"),
        ("ENVDOCTOR_RANKS_TIMEOUT", "nan", "ENVDOCTOR_RANKS_TIMEOUT is `nan`"),
        ("ENVDOCTOR_RANKS_PORT", "65536", "ENVDOCTOR_RANKS_PORT is `65536`"),
    ],
)
def test_a_variable_without_meaning_is_bad_input(variable: str, value: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        job_of({**ELASTIC, "LOCAL_WORLD_SIZE": "4", variable: value})
    assert caught.value.message == message


def test_a_frame_comes_in_any_pieces_and_only_with_the_key_and_in_its_direction() -> None:
    values: Sequence[dict[str, object]] = [{"a": 1}, {"b": "ü" * 300}]
    sent = b"".join(frame(KEY, TO_RANK_0, value) for value in values)
    reader = FrameReader(KEY, TO_RANK_0)
    assert [told for at in range(len(sent)) for told in reader.feed(sent[at : at + 1])] == values
    spoiled = sent[:40] + bytes([sent[40] ^ 1]) + sent[41:]
    nested = b"[" * 60_000
    for key, direction, data in (
        (b"x" * 32, TO_RANK_0, sent),
        (KEY, TO_RANK, sent),
        (KEY, TO_RANK_0, spoiled),
        (KEY, TO_RANK_0, b"\xff" * 40),
        (KEY, TO_RANK_0, frame(KEY, TO_RANK_0, [1])),
        (KEY, TO_RANK_0, _raw(nested)),
        (KEY, TO_RANK_0, _raw(b"\xff")),
    ):
        with pytest.raises(ForeignError):
            FrameReader(key, direction).feed(data)


def _raw(body: bytes) -> bytes:
    mac = hashlib.blake2b(body, key=KEY, person=TO_RANK_0, digest_size=32).digest()
    return len(body).to_bytes(4, "big") + mac + body


def _listening(name: str) -> list[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    place = MeetingPlace(name=name, port=port)
    made = listen(RankedJob(rank=0, size=2, on_node=False, places=(place,), key=KEY, timeout=1))
    addresses = [one.getsockname()[0] for one in made]
    for one in made:
        one.close()
    return addresses


def test_a_socket_is_of_the_masters_address_alone() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this host has no route, so no address but loopback")
        address = asked.getsockname()[0]
    assert _listening(address) == [address]


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_master_address_of_loopback_is_another_one_elsewhere(name: str) -> None:
    assert _listening(name)[0] == "0.0.0.0"  # noqa: S104 - compared with
