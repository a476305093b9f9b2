"""What a command leaves running: asked to end, ended, and told from what ran before."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from envdoctor.facts.processes import command_line, processes, strings
from envdoctor.trial import children
from envdoctor.trial.children import ending_all
from tests.factories.run_envdoctor import ROOT

COPY = "/no/such/copy"


def _run(script: str) -> None:
    """Run a command as it is run in a copy."""
    subprocess.run(["sh", "-c", script], env={**os.environ, "VIRTUAL_ENV": COPY}, check=True)


def _daemon(script: str, ready: Path) -> str:
    """Return a command that leaves another running, once that has made the file `ready`."""
    return f"setsid sh -c {shlex.quote(script)} & while ! [ -s {ready} ]; do sleep 0.02; done"


def test_what_is_left_is_asked_to_end_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # However busy the machine is, it is not killed before it could answer.
    monkeypatch.setattr(children, "_GRACE", 100.0)
    monkeypatch.setattr(children, "_PATIENCE", 200.0)
    asked, ready = tmp_path / "asked", tmp_path / "ready"
    script = f"trap 'echo asked >{asked}; exit' TERM; echo $$ >{ready}; while :; do sleep 0.02; done"
    with ending_all(COPY) as ended:
        _run(_daemon(script, ready))
    assert asked.read_text() == "asked\n"
    assert ended[0] == command_line([b"sh", b"-c", script.encode()])
    assert not Path("/proc", ready.read_text().strip()).exists()


def test_what_does_not_listen_is_ended_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_GRACE", 0.1)
    ready = tmp_path / "ready"
    with ending_all(COPY):
        _run(_daemon(f"trap '' TERM; echo $$ >{ready}; exec sleep 604", ready))
    assert not Path("/proc", ready.read_text().strip()).exists()


def test_what_ran_before_and_what_that_starts_is_left_alone() -> None:
    """`sh -c 'job & exec envdoctor try …'`: the job is a child of envdoctor, and what it leaves becomes one."""
    job = "sleep 601 & echo $!; read line; sleep 602 & echo $!"
    with subprocess.Popen(["sh", "-c", job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as before:
        assert before.stdin
        assert before.stdout
        jobs = [int(before.stdout.readline())]
        try:
            with ending_all(COPY) as ended:
                before.stdin.write("\n")
                before.stdin.flush()
                jobs.append(int(before.stdout.readline()))
                before.wait()
                _run("setsid sleep 603 & while [ $(cat /proc/$!/comm) != sleep ]; do :; done")
            assert ended == ["sleep 603"]
            assert [strings(Path(f"/proc/{pid}/cmdline"))[1:] for pid in jobs] == [[b"601"], [b"602"]]
        finally:
            for pid in jobs:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


_KILLED = """
import subprocess, sys, time
from envdoctor.trial import children
from envdoctor.trial.children import ending_all
children._GRACE, children._PATIENCE = 100.0, 200.0
from tests.factories.run_envdoctor import ROOT
with ending_all(sys.argv[1]):
    subprocess.run(["sh", "-c", sys.argv[2]])
    time.sleep(600)
"""


def test_killed_it_leaves_nothing_running_that_has_the_copys_variable(tmp_path: Path) -> None:
    ready, asked = tmp_path / "ready", tmp_path / "asked"
    script = f"trap 'echo asked >{asked}; exit' TERM; echo $$ >{ready}; while :; do sleep 0.02; done"
    daemon = f"setsid sh -c {shlex.quote(script)} & setsid sleep 605"
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path), daemon],
        cwd=ROOT,
        env={**os.environ, "VIRTUAL_ENV": str(tmp_path)},
        start_new_session=True,
    )
    while not (ready.exists() and ready.read_text()):
        assert process.poll() is None
        time.sleep(0.01)
    # It stands by where the whole group is killed.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    while [
        path for path in processes(Path("/proc")) if f"VIRTUAL_ENV={tmp_path}".encode() in strings(path / "environ")
    ]:
        time.sleep(0.01)
    assert asked.read_text() == "asked\n"


def test_nobody_stands_by_when_it_is_done() -> None:
    before = set(children._children())
    with ending_all(COPY):
        ((warden, _),) = set(children._children()) - before
    assert not Path("/proc", str(warden)).exists()


def test_an_interrupt_while_it_is_ended_leaves_nothing_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = children._children

    def interrupted() -> list[children.Process]:
        monkeypatch.setattr(children, "_children", look)
        raise KeyboardInterrupt

    ready = tmp_path / "ready"

    def block() -> None:
        with ending_all(str(tmp_path)):
            command = _daemon(f"echo $$ >{ready}; exec sleep 606", ready)
            subprocess.run(["sh", "-c", command], env={**os.environ, "VIRTUAL_ENV": str(tmp_path)}, check=True)
            monkeypatch.setattr(children, "_children", interrupted)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert not Path("/proc", ready.read_text().strip(), "exe").exists()
