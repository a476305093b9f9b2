"""`fleet check` over the engines that people use: four nodes, one contaminated, one that dies while it is asked.

Each node has a venv of its own. sshd, Slurm and Ray are real, and started and stopped here.
"""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.factories.make_incident import make_broken_incident, make_incident
from tests.factories.make_ray import make_ray
from tests.factories.make_slurm import make_slurm
from tests.factories.make_sshd import make_sshd
from tests.factories.run_envdoctor import Outcome, run_envdoctor

NODES = ("n1", "n2", "n3", "n4")

REPAIR = (
    "`uv pip install --python [TMP]/n3/.venv/bin/python --no-deps --reinstall-package nvidia-cudnn-cu12"
    " nvidia-cudnn-cu12==9.19.0.56`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Four environments; the third lost a file, and what examines the fourth says that it has begun, and waits."""

    root: Path

    @property
    def paths(self) -> list[str]:
        """Options that give each node its own environment and interpreter."""
        return ["--venv", f"{self.root}/{{node}}/.venv", "--python", f"{self.root}/{{node}}/python"]

    @property
    def begun(self) -> Path:
        """Where the fourth node writes the processes of its errand."""
        return self.root / "begun"

    def ask(self, *words: str, extra: Mapping[str, str] | None = None) -> Outcome:
        """Ask the fleet."""
        return run_envdoctor("fleet", "check", *words, *self.paths, folder=self.root, extra=dict(extra or {}))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    root = tmp_path_factory.mktemp("fleet")
    for name in NODES:
        (make_broken_incident if name == "n3" else make_incident)(root / name)
        python = root / name / "python"
        hangs = f"echo $$ $PPID >{root}/begun.part; mv {root}/begun.part {root}/begun; exec sleep 600"
        runs = (
            'exec /usr/bin/env python3 "$@"' if name != "n4" else f'case "$*" in *version_info*) ;; *) {hangs};; esac'
        )
        python.write_text(f"#!/bin/sh\n{runs}\n")
        python.chmod(0o755)
    return Fleet(root=root)


@contextmanager
def when_begun(fleet: Fleet, deed: Callable[[list[int]], None]) -> Iterator[None]:
    """Do that to the processes of the fourth node's errand as soon as it has begun; the block asks the fleet."""
    over = threading.Event()

    def wait() -> None:
        while not fleet.begun.exists() and not over.wait(0.05):
            pass
        if fleet.begun.exists():
            deed([int(word) for word in fleet.begun.read_text().split()])

    fleet.begun.unlink(missing_ok=True)
    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def below(process: int) -> list[int]:
    """Return a process and all that it started, by their ids."""
    found = [process]
    for one in found:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                found += [int(stat.parent.name)] if int(fields[1]) == one else []
    return found


def judged(outcome: Outcome, fleet: Fleet, problem: str) -> None:
    """Hold the document to what is true of the four."""
    assert outcome.code == 1, outcome.err
    document: dict[str, Any] = json.loads(outcome.out)
    assert {node["name"]: node["state"] for node in document["nodes"]} == {
        "n1": "same", "n2": "same", "n3": "broken", "n4": "unknown"
    }  # fmt: skip
    facts = {fact["fact"]: fact["others"] for fact in document["facts"]}
    assert facts.keys() == {"stack", "finding ED201 nvidia-cudnn-cu12"}
    assert facts["finding ED201 nvidia-cudnn-cu12"] == [{"value": "error", "nodes": ["n3"]}]
    third, fourth = sorted(document["nodes"], key=lambda node: str(node["name"]))[2:]
    assert third["prefix"] == "[TMP]/n3/.venv"
    assert third["remedies"] == [REPAIR]
    assert str(fourth["problem"]).startswith(problem), fourth


def test_hosts_over_ssh(fleet: Fleet, tmp_path: Path) -> None:
    def kill(processes: list[int]) -> None:
        # The whole host: the server, its session, and what that runs.
        for process in (*below(int((tmp_path / "dies/pid").read_text())), *processes):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    with (
        make_sshd(tmp_path / "lives", NODES[:3]) as three,
        make_sshd(tmp_path / "dies", NODES[3:]) as one,
    ):
        (tmp_path / "config").write_text(three + one)
        (tmp_path / "hosts").write_text("# one a line\n" + "\n".join(NODES) + "\n")
        with when_begun(fleet, kill):
            words = ["--hosts", str(tmp_path / "hosts"), "--ssh-config", str(tmp_path / "config"), "--timeout", "60"]
            outcome = fleet.ask(*words, "--json")
    judged(outcome, fleet, "ssh ended with exit code 255")


def test_nodes_over_slurm(fleet: Fleet, tmp_path: Path) -> None:
    def kill(processes: list[int]) -> None:
        os.killpg(int((tmp_path / "slurmd-n4.pid").read_text()), signal.SIGKILL)
        for process in processes:
            os.kill(process, signal.SIGKILL)

    with make_slurm(tmp_path, nodes=4) as slurm, when_begun(fleet, kill):
        outcome = fleet.ask("--slurm", "--timeout", "45", "--json", extra=slurm)
    judged(outcome, fleet, "")


@pytest.mark.stack
@pytest.mark.index
def test_nodes_of_a_ray_cluster(fleet: Fleet, tmp_path: Path) -> None:
    with make_ray(tmp_path, NODES) as ray, when_begun(fleet, lambda _: ray.lose_last()):
        outcome = fleet.ask("--ray", ray.address, "--ray-python", ray.python, "--timeout", "120", "--json")
    judged(outcome, fleet, "its task ended with ")
