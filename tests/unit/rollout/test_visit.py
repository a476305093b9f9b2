"""A visit of a node without a fleet: its folder, what arrives torn, and nobody who listens any more."""

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from envdoctor.fleet.answer import framed
from envdoctor.fleet.carried import Errand
from envdoctor.rollout import visit

# In place of the tool: it says what it was given, and waits where that is asked for.
TOOL = """\
import json, os, signal, sys, time
from pathlib import Path
tasks = json.loads(sys.argv[1])
def stopped(*_):
    with open(tasks[0]["stopped"], "a") as file:
        file.write("stopped ")
def main():
    if "stopped" in tasks[0]:
        signal.signal(signal.SIGTERM, stopped)
        Path(tasks[0]["begun"]).touch()
        while not Path(tasks[0]["stopped"]).exists():
            time.sleep(0.05)
        time.sleep(1.6)  # three looks of the visit at whether somebody listens: what tidies up is stopped by no other
        sys.exit(130)
    if "crash" in tasks[0]:
        print("no room", file=sys.stderr)
        sys.exit(7)
    if "dies" in tasks[0]:
        print(json.dumps({"code": 0, "text": "changed"}), flush=True)
        print("my " + os.environ["HUB_TOKEN"], file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)
    print(json.dumps({"code": 0, "text": json.dumps(tasks) + Path(tasks[0]["files"]).read_text()}))
"""


def packed() -> bytes:
    program = Path(visit.__file__).read_bytes()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in (
            ("tool/envdoctor/__init__.py", ""),
            ("tool/envdoctor/cli/__init__.py", ""),
            ("tool/envdoctor/cli/on_node.py", TOOL),
            ("files/a", "what travelled"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return b"%d\n" % len(program) + program + out.getvalue()


def command(scratch: Path, *, machine: str = os.uname().machine, **task: str) -> list[str]:
    request = {"name": "n1", "scratch": str(scratch), "machine": machine, "tasks": [{"files": "{files}/a", **task}]}
    errand = Errand(node="n1", venv="", python=sys.executable, mark="m", request=json.dumps(request))
    return ["sh", "-c", errand.shell()]


def visited(scratch: Path, sent: bytes | None = None, **task: str) -> Any:
    done = subprocess.run(
        command(scratch, **task), input=packed() if sent is None else sent, capture_output=True, check=True
    )
    text, problem = framed("m", done.stdout)
    assert not problem, done.stderr
    return json.loads(text)


def test_it_unpacks_does_and_leaves_nothing(tmp_path: Path) -> None:
    folder = f"{tmp_path}/envdoctor-fleet-{os.geteuid()}-n1"
    said = f'[{{"files": "{folder}/files/a"}}]what travelled'
    assert visited(tmp_path) == {"tasks": [{"code": 0, "text": said}]}
    assert list(tmp_path.iterdir()) == []


def test_what_was_left_by_a_killed_visit_is_no_obstacle(tmp_path: Path) -> None:
    left = tmp_path / f"envdoctor-fleet-{os.geteuid()}-n1"
    (left / "tool/envdoctor").mkdir(parents=True)
    left.chmod(0o700)
    (left / "tool/envdoctor/old.py").touch()
    assert [task["code"] for task in visited(tmp_path)["tasks"]] == [0]
    assert list(tmp_path.iterdir()) == []


def test_two_are_not_at_work_on_one_node(tmp_path: Path) -> None:
    folder = tmp_path / f"envdoctor-fleet-{os.geteuid()}-n1"
    folder.mkdir(mode=0o700)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert visited(tmp_path) == {"problem": "another fleet command is at work on this node"}
    assert (folder / "lock").exists()


@pytest.mark.parametrize("kind", ["link", "open"])
def test_a_folder_that_another_may_have_made_is_not_used(tmp_path: Path, kind: str) -> None:
    scratch, elsewhere = tmp_path / "scratch", tmp_path / "elsewhere"
    scratch.mkdir()
    elsewhere.mkdir(mode=0o700)
    folder = scratch / f"envdoctor-fleet-{os.geteuid()}-n1"
    if kind == "link":
        folder.symlink_to(elsewhere)
    else:
        folder.mkdir()
        folder.chmod(0o755)
    assert visited(scratch) == {
        "problem": f"{folder} is not a folder of this user alone; remove it, or name another: `--scratch FOLDER`"
    }
    assert list(elsewhere.iterdir()) == []


def test_what_arrives_torn_is_not_run(tmp_path: Path) -> None:
    told = visited(tmp_path, packed()[:-300])
    assert told["problem"].startswith("what was sent did not arrive whole: ")
    assert list(tmp_path.iterdir()) == []


def test_another_processor_is_named(tmp_path: Path) -> None:
    told = visited(tmp_path, machine="sparc64")
    assert told == {"problem": f"this node is {os.uname().machine}, and the tool that came is for sparc64"}


def test_a_tool_that_crashes_is_quoted(tmp_path: Path) -> None:
    assert visited(tmp_path, crash="yes") == {
        "tasks": [{"code": 7, "problem": "it ended with 7: no room", "died": True}]
    }


def test_what_was_done_before_the_tool_died_is_told_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TOKEN", "hunter22")
    assert visited(tmp_path, dies="yes") == {
        "tasks": [
            {"code": 0, "text": "changed"},
            {"code": -9, "problem": "it ended with -9: my ***", "died": True},
        ]
    }


def test_a_name_of_the_request_is_no_pattern(tmp_path: Path) -> None:
    odd = "/srv/{files}/'\\"
    (task,) = visited(tmp_path, venv=odd)["tasks"]
    assert json.loads(task["text"].removesuffix("what travelled"))[0]["venv"] == odd


def test_a_node_to_which_nobody_listens_stops_as_after_an_interrupt(tmp_path: Path) -> None:
    scratch, begun, stopped = tmp_path / "scratch", tmp_path / "begun", tmp_path / "stopped"
    scratch.mkdir()
    process = subprocess.Popen(
        command(scratch, begun=str(begun), stopped=str(stopped)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(packed())
    process.stdin.close()
    while not begun.exists() and process.poll() is None:
        time.sleep(0.02)
    process.stdout.close()
    process.wait()
    assert stopped.read_text() == "stopped "
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_stop_while_what_is_sent_arrives_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(command(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(packed()[:-300])
    process.stdin.flush()
    while not list(tmp_path.glob("*/lock")) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    out, _ = process.communicate()
    text, problem = framed("m", out)
    assert not problem
    assert json.loads(text) == {"problem": "it was asked to stop"}
    assert list(tmp_path.iterdir()) == []


def test_a_tool_that_outlives_its_visit_keeps_its_folder(tmp_path: Path) -> None:
    scratch, begun, stopped = tmp_path / "scratch", tmp_path / "begun", tmp_path / "stopped"
    scratch.mkdir()
    process = subprocess.Popen(
        command(scratch, begun=str(begun), stopped=str(stopped)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(packed())
    process.stdin.close()
    while not begun.exists() and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    assert visited(scratch) == {"problem": "another fleet command is at work on this node"}
    stopped.touch()
    while (again := visited(scratch)) == {"problem": "another fleet command is at work on this node"}:
        time.sleep(0.2)
    assert [task["code"] for task in again["tasks"]] == [0]
