"""`fleet restore`, `repair` and `cache push` over the engines that people use: real sshd and Slurm, a venv a node."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envdoctor.report import schemas
from envdoctor.swap.store import BackupStore
from tests.factories.make_cache import filled
from tests.factories.make_incident import CUDNN, Incident, make_incident, sources_of
from tests.factories.make_ray import make_ray
from tests.factories.make_slurm import make_slurm
from tests.factories.make_sshd import make_sshd
from tests.factories.make_venv import make_venv
from tests.factories.run_envdoctor import COMMAND, Outcome, environment, run_envdoctor
from tests.factories.schemas import closed

NODES = ("n1", "n2", "n3")
# A Python of a node that does something of its own when it is told to carry out a plan.
PYTHON = """\
#!/bin/sh
export TORCHINDUCTOR_CACHE_DIR={folder}/compiled TRITON_CACHE_DIR={folder}/triton
case "$*" in *'"plan": "'*) [ ! -e {folder}/before ] || . {folder}/before;; esac
exec {python} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Three nodes, each with a venv of its own, reached over ssh."""

    root: Path
    incidents: dict[str, Incident]

    @property
    def scratch(self) -> Path:
        """Where nodes unpack the tool."""
        return self.root / "scratch"

    def run(self, *words: str, extra: dict[str, str] | None = None) -> Outcome:
        """Run a fleet command on the nodes."""
        return run_envdoctor("fleet", *words, *self.paths(words[0]), folder=self.root, extra=extra)

    def paths(self, command: str) -> list[str]:
        """Return the options that give each node its own venv and Python, and what changes it a folder."""
        paths = ["--venv", f"{self.root}/{{node}}/.venv", "--python", f"{self.root}/{{node}}/python"]
        return paths if command == "check" else [*paths, "--scratch", str(self.scratch)]

    def over_ssh(self, *words: str) -> Outcome:
        """Run it over ssh."""
        return self.run(*words, "--hosts", "hosts", "--ssh-config", "config")

    def planned(self, *words: str) -> str:
        """Return the digest that a dry run shows."""
        document = json.loads(self.over_ssh(*words, "--dry-run", "--json").out)
        return str(document["digest"])

    def healthy(self) -> list[str]:
        """Return the nodes that have the file which the incident loses."""
        return [name for name, one in self.incidents.items() if (one.venv.site_packages / CUDNN).exists()]

    def lose(self, *names: str) -> None:
        """Let these nodes lose it, and leave the others as they are."""
        for name in names:
            self.incidents[name].lose()

    def before_carrying_out(self, name: str, script: str) -> None:
        """Let a node do this when it is told to carry out a plan; nothing for an empty script."""
        path = self.root / name / "before"
        path.write_text(script) if script else path.unlink()


@pytest.fixture
def nodes(tmp_path: Path) -> Changed:
    incidents = {}
    for name in NODES:
        incidents[name] = make_incident(tmp_path / name)
        python = tmp_path / name / "python"
        python.write_text(PYTHON.format(folder=tmp_path / name, python=shutil.which("python3")))
        python.chmod(0o755)
    for folder in ("profiles", "lockfiles", "wheels"):
        shutil.copytree(tmp_path / "n1" / folder, tmp_path / folder)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "hosts").write_text("\n".join(NODES))
    return Changed(root=tmp_path, incidents=incidents)


@pytest.fixture
def ssh(nodes: Changed) -> Iterator[Changed]:
    """Give the nodes with an sshd whose commands see the wheels of the incident, and nothing of this user."""
    root = nodes.root
    told = {**sources_of(root), "HOME": str(root / "home"), "PATH": os.environ["PATH"]}
    command = root / "command"
    variables = "".join(f"export {name}='{value}'\n" for name, value in told.items())
    command.write_text(f'#!/bin/sh\n{variables}exec sh -c "$SSH_ORIGINAL_COMMAND"\n')
    command.chmod(0o755)
    with make_sshd(root / "sshd", NODES, command=str(command)) as config:
        (root / "config").write_text(config)
        yield nodes
    assert list(nodes.scratch.iterdir()) == []


def steps(outcome: Outcome) -> dict[str, str]:
    document: dict[str, Any] = json.loads(outcome.out)
    jsonschema.validate(document, closed(json.loads(schemas.read("fleet-change"))))
    return {node["name"]: node["step"] for node in document["nodes"]}


def problem(outcome: Outcome, name: str) -> str:
    document: dict[str, Any] = json.loads(outcome.out)
    return next(str(node["problem"]) for node in document["nodes"] if node["name"] == name)


RESTORE = ("restore", "-p", "small")


# Each visit of a node unpacks the tool and starts it: `make test` has one rollout, the rest is for `make test-stack`.
# The nodes share one home and one cache of uv, as the nodes of a cluster do.
@pytest.mark.stack
def test_nothing_is_changed_that_was_not_shown(ssh: Changed) -> None:
    ssh.lose("n1", "n2", "n3")
    shown = ssh.over_ssh(*RESTORE, "--dry-run")
    assert shown.code == 0, shown.err
    assert "on n1, n2, n3\n" in shown.out, shown.out
    assert "venv         CPython [PYTHON]; 0 removed, 0 added, 0 changed, 2 as locked\n" in shown.out
    unasked = ssh.over_ssh(*RESTORE)
    assert (unasked.code, unasked.err) == (
        2,
        "error: confirmation needed, but stdin is not a terminal\n\nhint: `--dry-run` shows what each node would do, "
        "and the digest of it all; `--plan DIGEST` carries that out\n",
    )
    another = ssh.over_ssh(*RESTORE, "--plan", "0" * 40)
    assert another.code == 4
    assert another.out.startswith("nothing was changed: the plan is not the one that was shown (digest 0000")
    assert ssh.healthy() == []
    digest = ssh.planned(*RESTORE)
    assert f"  digest  {digest}\n" in shown.out
    done = ssh.over_ssh(*RESTORE, "--plan", digest, "--json")
    assert done.code == 0, done.out + done.err
    assert steps(done) == dict.fromkeys(NODES, "done")
    assert ssh.healthy() == list(NODES)
    checked = ssh.over_ssh("check")
    assert (checked.code, checked.out) == (0, "3 nodes over hosts: one stack\n")


def test_the_first_failure_ends_it_and_a_resume_goes_on(ssh: Changed) -> None:
    ssh.lose("n1", "n2", "n3")
    ssh.before_carrying_out("n2", "echo no room >&2; exit 9\n")
    words = (*RESTORE, "--at-once", "1")
    stopped = ssh.over_ssh(*words, "--plan", ssh.planned(*words), "--json")
    assert stopped.code == 4
    assert steps(stopped) == {"n1": "done", "n2": "failed", "n3": "not begun"}
    assert problem(stopped, "n2") == "ssh ended with exit code 9: no room; whether it was changed is not known"
    assert ssh.healthy() == ["n1"]
    ssh.before_carrying_out("n2", "")
    resumed = (*words, "--resume")
    planned = ssh.over_ssh(*resumed, "--dry-run", "--json")
    assert steps(planned) == {"n1": "done before", "n2": "planned", "n3": "planned"}
    done = ssh.over_ssh(*resumed, "--plan", json.loads(planned.out)["digest"], "--json")
    assert steps(done) == {"n1": "done before", "n2": "done", "n3": "done"}
    assert done.code == 0
    assert ssh.healthy() == list(NODES)
    # Of all of it: n1 was done before the stop.
    back = ssh.over_ssh("rollback", "--dry-run", "--json")
    assert (back.code, steps(back)) == (0, dict.fromkeys(NODES, "planned")), back.out
    again = ssh.over_ssh(*resumed, "--dry-run")
    assert again.code == 2
    assert again.err.startswith("error: nothing was stopped here that this could go on with\n")


@pytest.mark.stack
def test_a_restore_that_went_wrong_is_taken_back_where_it_was_done(ssh: Changed) -> None:
    first = {name: one.venv.prefix.stat().st_ino for name, one in ssh.incidents.items()}
    ssh.lose("n1", "n2", "n3")
    ssh.before_carrying_out("n2", "echo lost >&2; exit 9\n")
    words = (*RESTORE, "--at-once", "1")
    assert steps(ssh.over_ssh(*words, "--plan", ssh.planned(*words), "--json"))["n2"] == "failed"
    assert ssh.healthy() == ["n1"]
    ssh.before_carrying_out("n2", "")
    shown = ssh.over_ssh("rollback", "--dry-run")
    assert shown.code == 3, shown.err
    assert shown.out.startswith(
        "fleet rollback, 3 nodes over hosts: 1 planned, 2 errors left\n"
        "back to before the fleet restore of small that was begun at 20"
    )
    done = ssh.over_ssh("rollback", "--plan", ssh.planned("rollback"), "--json")
    assert done.code == 3, done.out + done.err  # the venv of before is broken, which is said
    assert steps(done) == dict.fromkeys(NODES, "errors left")
    assert (
        problem(done, "n1") == problem(done, "n3") == "its check finds in the venv of before: ED201 nvidia-cudnn-cu12"
    )
    assert ssh.healthy() == []
    assert {name: one.venv.prefix.stat().st_ino for name, one in ssh.incidents.items()} == first
    again = ssh.over_ssh("rollback", "--dry-run", "--json")
    assert (again.code, steps(again)) == (3, dict.fromkeys(NODES, "errors left"))


@pytest.mark.stack
def test_a_rollback_needs_a_change_that_was_begun_here(ssh: Changed) -> None:
    none = ssh.over_ssh("rollback", "--dry-run")
    assert (none.code, none.err) == (
        2,
        "error: no fleet restore or repair of these nodes and venvs was begun here\n\n"
        "hint: give the nodes and the venv as they were given then; `rollback` on a node goes back there\n",
    )
    ssh.lose("n1")
    (ssh.root / "hosts").write_text("n1\n")
    assert ssh.over_ssh(*RESTORE, "--plan", ssh.planned(*RESTORE)).code == 0
    (ssh.root / "hosts").write_text("n1\nn2\n")
    planned = ssh.over_ssh("rollback", "--dry-run", "--json")
    assert steps(planned) == {"n1": "planned", "n2": "nothing to do"}
    assert problem(planned, "n2").endswith(" UTC had nothing to do there")


@pytest.mark.stack
def test_a_venv_that_nodes_share_is_changed_once_and_goes_back_once(ssh: Changed) -> None:
    ssh.lose("n1", "n3")
    venv = ssh.incidents["n1"].venv
    (ssh.root / "hosts").write_text(f"n3\nn1 {venv.prefix}\nn2 {venv.prefix}\n")
    whole = f"[ -e {venv.site_packages}/{CUDNN} ]"
    ssh.before_carrying_out("n2", f"{whole} || {{ echo too early >&2; exit 9; }}\n")
    shown = ssh.over_ssh(*RESTORE, "--dry-run")
    assert "\n  n1, n2 share one venv, which n1 alone changes\n" in shown.out, shown.out
    done = ssh.over_ssh(*RESTORE, "--plan", ssh.planned(*RESTORE), "--json")
    assert steps(done) == {"n3": "done", "n1": "done", "n2": "done"}, done.out
    assert BackupStore.of(venv.prefix).numbers() == [1]
    ssh.before_carrying_out("n2", f"! {whole} || {{ echo too early >&2; exit 9; }}\n")
    back = ssh.over_ssh("rollback", "--plan", ssh.planned("rollback"), "--json")
    assert steps(back) == {"n3": "errors left", "n1": "errors left", "n2": "errors left"}, back.out
    assert ssh.healthy() == ["n2"]  # its own, which nobody named
    assert BackupStore.of(venv.prefix).numbers() == [2]


@pytest.mark.stack
def test_a_new_venv_that_nodes_share_is_made_once(ssh: Changed) -> None:
    venv = ssh.root / "shared/.venv"
    venv.parent.mkdir()
    (ssh.root / "hosts").write_text(f"n3\nn1 {venv}\nn2 {venv}\n")
    done = ssh.over_ssh(*RESTORE, "--plan", ssh.planned(*RESTORE), "--json")
    assert steps(done) == {"n3": "done", "n1": "done", "n2": "done"}, done.out
    assert BackupStore.of(venv).numbers() == []
    back = ssh.over_ssh("rollback", "--dry-run", "--json")
    assert steps(back)["n1"] == steps(back)["n2"] == "could not plan"
    assert problem(back, "n1").startswith("there was no venv before the fleet restore of small that was begun at ")


@pytest.mark.stack
def test_a_shared_venv_is_repaired_once(ssh: Changed) -> None:
    ssh.lose("n1", "n3")
    venv = ssh.incidents["n1"].venv.prefix
    (ssh.root / "hosts").write_text(f"n3\nn1 {venv}\nn2 {venv}\n")
    done = ssh.over_ssh("repair", "--plan", ssh.planned("repair"), "--json")
    assert steps(done) == {"n3": "done", "n1": "done", "n2": "done"}, done.out
    assert BackupStore.of(venv).numbers() == [1]


@pytest.mark.stack
def test_a_journal_is_of_its_nodes_and_not_of_the_name_of_a_file(ssh: Changed) -> None:
    ssh.lose("n1", "n2", "n3")
    hosts = ssh.root / "hosts"
    hosts.write_text("n1\nn2\n")
    ssh.before_carrying_out("n2", "exit 9\n")
    assert ssh.over_ssh(*RESTORE, "--plan", ssh.planned(*RESTORE)).code == 4
    hosts.write_text("n1\nn3\n")
    other = ssh.over_ssh(*RESTORE, "--resume", "--dry-run")
    assert (other.code, other.out) == (2, "")
    assert other.err.startswith("error: nothing was stopped here that this could go on with\n")
    (ssh.root / "again").write_text("n2\nn1\n")
    same = ssh.run(*RESTORE, "--resume", "--dry-run", "--json", "--hosts", "again", "--ssh-config", "config")
    assert steps(same) == {"n1": "done before", "n2": "planned"}


@pytest.mark.stack
def test_those_at_work_with_one_that_fails_go_on(ssh: Changed) -> None:
    ssh.lose("n1", "n2", "n3")
    ssh.before_carrying_out("n2", "exit 9\n")
    stopped = ssh.over_ssh(*RESTORE, "--plan", ssh.planned(*RESTORE), "--json")
    assert stopped.code == 4
    assert steps(stopped) == {"n1": "done", "n2": "failed", "n3": "done"}
    assert ssh.healthy() == ["n1", "n3"]


@pytest.mark.stack
def test_an_interrupt_of_the_controller_leaves_whole_venvs_and_no_tool(ssh: Changed) -> None:
    ssh.lose("n1", "n2", "n3")
    store = BackupStore.of(ssh.incidents["n1"].venv.prefix)
    command = [*COMMAND, "fleet", *RESTORE, "--plan", ssh.planned(*RESTORE), *ssh.paths("restore")]
    process = subprocess.Popen(
        [*command, "--hosts", "hosts", "--ssh-config", "config"],
        cwd=ssh.root,
        env=environment(ssh.root),
        stderr=subprocess.PIPE,
        text=True,
    )
    while not store.journal.exists() and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "interrupted while n1 was at work; each ends with its old stack or the new one\n" in said
    while list(ssh.scratch.iterdir()):  # the node tidies up after its connection is gone
        time.sleep(0.05)
    assert not store.journal.exists()
    assert not store.builds.exists() or list(store.builds.iterdir()) == []
    assert ssh.healthy() in ([], ["n1"])
    resumed = (*RESTORE, "--resume")
    assert ssh.over_ssh(*resumed, "--plan", ssh.planned(*resumed)).code == 0
    assert ssh.healthy() == list(NODES)


@pytest.mark.stack
def test_a_node_that_lacks_a_wheel_says_so_and_the_others_are_restored(ssh: Changed) -> None:
    ssh.lose("n1", "n2", "n3")
    python = ssh.root / "n2/python"
    python.write_text(
        python.read_text().replace("#!/bin/sh\n", "#!/bin/sh\nexport PIP_FIND_LINKS= UV_CACHE_DIR=$HOME/none\n")
    )
    done = ssh.over_ssh(*RESTORE, "--plan", ssh.planned(*RESTORE), "--json")
    assert done.code == 3
    assert steps(done) == {"n1": "done", "n2": "could not plan", "n3": "done"}
    assert " 9.19.0.56 was not found: " in problem(done, "n2")


@pytest.mark.stack
def test_a_node_that_changed_after_it_was_shown_keeps_its_venv_and_no_other_is_begun(ssh: Changed) -> None:
    ssh.lose("n1", "n2", "n3")
    lib = ssh.incidents["n1"].venv.site_packages
    ssh.before_carrying_out("n1", f"echo 1 >{lib}/mine.py\n")
    stopped = ssh.over_ssh(*RESTORE, "--plan", ssh.planned(*RESTORE), "--json")
    assert stopped.code == 4
    assert steps(stopped) == {"n1": "failed", "n2": "not begun", "n3": "not begun"}
    assert problem(stopped, "n1").startswith(
        "nothing was changed: the files are not those that the plan was made on, though it is the same (digest "
    )
    assert (lib / "mine.py").read_text() == "1\n"
    assert ssh.healthy() == []


@pytest.mark.stack
def test_a_repair_leaves_healthy_nodes_alone(ssh: Changed) -> None:
    ssh.lose("n2")
    done = ssh.over_ssh("repair", "--plan", ssh.planned("repair"), "--json")
    assert done.code == 0, done.out + done.err
    assert steps(done) == {"n1": "nothing to do", "n2": "done", "n3": "nothing to do"}
    assert ssh.healthy() == list(NODES)
    assert not (ssh.root / "n1/.envdoctor").exists()


@pytest.mark.stack
def test_a_restore_over_slurm(nodes: Changed, tmp_path: Path) -> None:
    nodes.lose("n2")
    folder = tmp_path / "slurm"
    folder.mkdir()
    wheels = str(tmp_path / "wheels")
    words = (*RESTORE, "--slurm", "--nodes", "n[1-2]", "--wheelhouse", wheels, "--json")
    with make_slurm(folder, nodes=2) as slurm:
        planned = nodes.run(*words, "--dry-run", extra=slurm)
        assert planned.code == 0, planned.out + planned.err
        done = nodes.run(*words, "--plan", json.loads(planned.out)["digest"], extra=slurm)
    assert done.code == 0, done.out + done.err
    assert steps(done) == {"n1": "done", "n2": "done"}
    assert nodes.healthy() == list(NODES)


@pytest.mark.stack
@pytest.mark.index
def test_a_restore_over_ray(nodes: Changed, tmp_path: Path) -> None:
    nodes.lose("n1", "n2", "n3")
    with make_ray(tmp_path, NODES) as ray:
        words = (*RESTORE, "--ray", ray.address, "--ray-python", ray.python, "--json")
        words = (*words, "--wheelhouse", str(tmp_path / "wheels"))
        planned = nodes.run(*words, "--dry-run")
        assert planned.code == 0, planned.out + planned.err
        nodes.before_carrying_out("n2", "echo no room >&2; exit 9\n")
        stopped = nodes.run(*words, "--plan", json.loads(planned.out)["digest"])
        assert stopped.code == 4, stopped.out + stopped.err
        assert steps(stopped) == {"n1": "done", "n2": "failed", "n3": "done"}
        assert problem(stopped, "n2") == "no room; whether it was changed is not known"
        nodes.before_carrying_out("n2", "")
        planned = nodes.run(*words, "--resume", "--dry-run")
        done = nodes.run(*words, "--resume", "--plan", json.loads(planned.out)["digest"])
    assert steps(done) == {"n1": "done before", "n2": "done", "n3": "done before"}
    assert nodes.healthy() == list(NODES)
    assert list(nodes.scratch.iterdir()) == []


@pytest.mark.stack
def test_a_snapshot_is_merged_where_it_fits(ssh: Changed) -> None:
    root = ssh.root
    filled(root / "compiled")
    here = {"TORCHINDUCTOR_CACHE_DIR": str(root / "compiled"), "TRITON_CACHE_DIR": str(root / "triton")}
    # Two without torch, which is a key too, at one path as on the nodes of a cluster, and one with.
    bare = make_venv(root / "n1/bare").prefix
    (root / "hosts").write_text(f"n1 {bare}\nn2 {bare}\nn3\n")
    saved = run_envdoctor("cache", "save", "mine", "--venv", "n1/bare", folder=root, extra=here)
    assert saved.code == 0, saved.err
    words = ("cache", "push", "mine")
    shown = ssh.over_ssh(*words, "--dry-run")
    assert shown.code == 3, shown.out + shown.err
    assert "on n1, n2\n  Would merge mine: " in shown.out
    done = ssh.over_ssh(*words, "--plan", ssh.planned(*words), "--json")
    assert steps(done) == {"n1": "done", "n2": "done", "n3": "could not plan"}
    assert "mine.tar.zst was made for another machine or stack; nothing was taken from it:" in problem(done, "n3")
    assert done.code == 3
    kept = [sorted(path.name for path in (root / name / "compiled").rglob("*.py")) for name in NODES]
    assert kept[0] == kept[1] == sorted(path.name for path in (root / "compiled").rglob("*.py")) != []
    assert kept[2] == []
    unsigned = ssh.over_ssh(*words, "--signers", "hosts", "--dry-run")
    assert unsigned.code == 1
    assert "mine.tar.zst" in unsigned.err
