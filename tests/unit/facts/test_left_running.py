"""What a command leaves running: asked to end, ended, and told from what ran before."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.facts import left_running as children
from envdoctor.facts.left_running import Started, ending_all
from envdoctor.facts.processes import command_line, processes, strings
from tests.factories.run_envdoctor import ROOT


def _run(script: str, started: Started) -> None:
    """Run a command as it is run in a copy."""
    subprocess.run(["sh", "-c", script], env={**os.environ, **started.mark}, check=True, timeout=60)


def _until(done: Callable[[], object]) -> None:
    """Wait; a minute, on any machine, is for ever."""
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def _runs(pid: int | str) -> bool:
    """Tell a process from none, and from one that nobody has waited for."""
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _silent(text: str) -> None:
    raise AssertionError(text)


def _daemon(script: str, ready: Path) -> str:
    """Return a command that leaves another running, once that has made the file `ready`."""
    return f"setsid sh -c {shlex.quote(script)} & while ! [ -s {ready} ]; do sleep 0.02; done"


def test_what_is_left_is_asked_to_end_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # However busy the machine is, it is not killed before it could answer.
    monkeypatch.setattr(children, "_GRACE", 100.0)
    monkeypatch.setattr(children, "_PATIENCE", 200.0)
    asked, ready = tmp_path / "asked", tmp_path / "ready"
    script = f"trap 'echo asked >{asked}; exit' TERM; echo $$ >{ready}; while :; do sleep 0.02; done"
    monkeypatch.setattr(children, "_WORD", 100.0)
    with ending_all(_silent) as started:
        _run(_daemon(script, ready), started)
    assert asked.read_text() == "asked\n"
    assert started.ended[0] == command_line([b"sh", b"-c", script.encode()])
    assert not Path("/proc", ready.read_text().strip()).exists()


def test_what_does_not_listen_is_ended_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_GRACE", 0.2)
    monkeypatch.setattr(children, "_WORD", 0.1)
    ready = tmp_path / "ready"
    said: list[str] = []
    with ending_all(said.append) as started:
        _run(_daemon(f"trap '' TERM; echo $$ >{ready}; while :; do sleep 0.02; done", ready), started)
    assert len(said) == 1
    assert said[0].startswith("waiting for what the command left running to end: sh -c trap '' TERM; ")
    assert not Path("/proc", ready.read_text().strip()).exists()


def test_what_ran_before_and_what_that_starts_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sh -c 'job & exec envdoctor try …'`: the job is a child of envdoctor, and what it leaves becomes one."""
    monkeypatch.setattr(children, "_WORD", 100.0)
    job = "sleep 601 & echo $!; read line; sleep 602 & echo $!"
    with subprocess.Popen(["sh", "-c", job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as before:
        assert before.stdin
        assert before.stdout
        jobs = [int(before.stdout.readline())]
        try:
            with ending_all(_silent) as started:
                before.stdin.write("\n")
                before.stdin.flush()
                jobs.append(int(before.stdout.readline()))
                before.wait()
                _run("setsid sleep 603 & while [ $(cat /proc/$!/comm) != sleep ]; do :; done", started)
            assert started.ended == ["sleep 603"]
            assert [strings(Path(f"/proc/{pid}/cmdline"))[1:] for pid in jobs] == [[b"601"], [b"602"]]
        finally:
            for pid in jobs:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


_KILLED = """
import os, subprocess, sys, time
from envdoctor.facts import left_running as children
from envdoctor.facts.left_running import ending_all
children._GRACE, children._PATIENCE = 100.0, 200.0
with ending_all(print) as started:
    print(*(pid for pid, _ in children._children()), *map("=".join, started.mark.items()), flush=True)
    subprocess.run(["sh", "-c", sys.argv[1]], env={**os.environ, **started.mark})
    time.sleep(600)
"""


def test_killed_it_leaves_nothing_running_of_its_own_and_the_next_one_alone(tmp_path: Path) -> None:
    """`bisect` is killed and resumed: the next command runs in a copy of the same name, in the same folder."""
    ready, asked, may_end, spared = (tmp_path / name for name in ("ready", "asked", "may_end", "spared"))
    traps = f"trap 'echo asked >{asked}; while ! [ -e {may_end} ]; do sleep 0.02; done; exit' TERM"
    script = f"{traps}; echo $$ >{ready}; while :; do sleep 0.02; done"
    copy = {**os.environ, "VIRTUAL_ENV": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, f"setsid sh -c {shlex.quote(script)} & setsid sleep 605"],
        cwd=ROOT,
        env=copy,
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    warden, mark = process.stdout.readline().split()
    _until(lambda: ready.exists() and ready.read_text())
    # It stands by where the whole group is killed.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    _until(asked.exists)
    traps = f"trap 'echo asked >{spared}; exit' TERM; echo ready; read line"
    with (
        ending_all(_silent) as started,
        subprocess.Popen(
            ["sh", "-c", traps], env=copy | started.mark, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as following,
    ):
        assert following.stdout is not None
        following.stdout.readline()
        may_end.touch()
        # It has looked for what is left until there was nothing.
        _until(lambda: not _runs(warden))
        following.communicate("\n")
    assert not spared.exists()
    assert [path for path in processes(Path("/proc")) if mark.encode() in strings(path / "environ")] == []


def test_what_stands_by_keeps_nothing_open() -> None:
    reader, writer = os.pipe()
    before = set(children._children())
    with ending_all(_silent):
        ((warden, _),) = set(children._children()) - before
        os.close(writer)
        assert os.read(reader, 1) == b"", "the other end is closed"
        assert [path.name for path in Path(f"/proc/{warden}/fd").iterdir()] == ["0"]
    os.close(reader)


def test_an_error_of_the_block_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands by has nothing to do, and does not look through all processes."""
    looked = tmp_path / "looked"
    monkeypatch.setattr(children, "_end_marked", lambda _, **__: looked.touch())
    with pytest.raises(ZeroDivisionError), ending_all(_silent):
        raise ZeroDivisionError
    assert not looked.exists()


def test_nobody_stands_by_when_it_is_done() -> None:
    before = set(children._children())
    with ending_all(_silent):
        ((warden, _),) = set(children._children()) - before
    assert not Path("/proc", str(warden)).exists()


def test_an_interrupt_while_it_is_ended_leaves_nothing_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = children._children

    def interrupted() -> list[children.Process]:
        monkeypatch.setattr(children, "_children", look)
        raise KeyboardInterrupt

    ready = tmp_path / "ready"

    def block() -> None:
        with ending_all(_silent) as started:
            _run(_daemon(f"trap '' TERM; echo $$ >{ready}; exec sleep 606", ready), started)
            monkeypatch.setattr(children, "_children", interrupted)

    with pytest.raises(KeyboardInterrupt):
        block()
    assert not _runs(ready.read_text().strip())
