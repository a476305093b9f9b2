"""A link waits where a command writes: what it leads to is not written to, made, or cut."""

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envdoctor.cache.store import SnapshotStore
from envdoctor.errors import CacheError
from envdoctor.facts import whole_file
from tests.factories.make_cache import filled, manifest_of
from tests.factories.make_incident import Incident
from tests.factories.make_stack import make_stack
from tests.factories.make_venv import rewrite
from tests.factories.run_envdoctor import ROOT, run_envdoctor


def test_a_repair_writes_through_no_link_of_the_venv(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    assert stack.restore().code == 0
    before = {}
    for name in ("envdoctor-restore.json", "pyvenv.cfg"):
        victim = tmp_path / f"their-{name}"
        (stack.venv / name).rename(victim)
        (stack.venv / name).symlink_to(victim)
        before[victim] = victim.read_bytes()
    made = tmp_path / "made"
    ignored = stack.store.parent / ".gitignore"
    ignored.unlink()
    ignored.symlink_to(made)
    rewrite(next(stack.venv.glob("lib/python3*/site-packages")) / "some_tool.py", b"")
    answer = stack.run("repair", "--profile", "small", "--venv", "venv", "--yes", "--offline")
    assert (answer.code, {path: path.read_bytes() for path in before}) == (0, before), answer.err
    assert not made.exists()


def test_no_temporary_name_can_be_foreseen(project: Incident) -> None:
    root, victim = project.root, project.root / "victim"
    victim.write_text("precious")
    for name in ("profiles/.made.toml.part", "lockfiles/.made.txt.part", "lockfiles/.small.txt.part",
                 ".envdoctor_gate.py.part"):  # fmt: skip
        (root / name).symlink_to(victim)
    for words in (
        ("capture", "made", "--offline", "--venv", ".venv"),
        ("gate", "add", "-p", "small"),
        ("gate", "write", "envdoctor_gate.py"),
    ):
        outcome = run_envdoctor(*words, folder=root)
        assert outcome.code == 0, outcome.err
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
@pytest.mark.parametrize("opens", [whole_file.open_own, whole_file.open_alone])
def test_what_stays_where_it_is_must_be_a_file(tmp_path: Path, kind: str, opens: Callable[[Path, int], int]) -> None:
    victim, log = tmp_path / "victim", tmp_path / "log"
    victim.write_text("precious")
    {"link": log.symlink_to, "folder": lambda _: log.mkdir(), "pipe": lambda _: os.mkfifo(log)}[kind](victim)
    with pytest.raises(OSError, match="log"):
        opens(log, os.O_WRONLY | os.O_APPEND)
    assert victim.read_text() == "precious"


def test_a_lock_with_a_second_name_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "lock").hardlink_to(victim)
    with pytest.raises(OSError, match="lock"):
        whole_file.open_own(tmp_path / "lock", os.O_RDWR)


def test_a_log_with_a_second_name_goes_on_as_a_copy(tmp_path: Path) -> None:
    other, log = tmp_path / "other", tmp_path / "log"
    other.write_text("line 1\n")
    other.chmod(0o640)
    log.hardlink_to(other)
    with whole_file.appending(log) as file:
        file.write(b"line 2\n")
    assert (log.read_text(), other.read_text()) == ("line 1\nline 2\n", "line 1\n")
    assert stat.S_IMODE(log.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "other"]


def test_two_that_write_a_log_with_a_second_name_lose_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, log = tmp_path / "other", tmp_path / "log"
    other.write_text("line 1\n")
    log.hardlink_to(other)
    copy, begun = shutil.copyfileobj, []

    def meanwhile(*given: Any) -> None:
        copy(*given)
        code = f"from envdoctor.facts.whole_file import appending; appending(Path({str(log)!r})).write(b'line 2\\n')"
        begun.append(subprocess.Popen([sys.executable, "-c", f"from pathlib import Path; {code}"], cwd=ROOT))
        # Until the other one has written, or waits for this one.
        while begun[0].poll() is None and f"-> FLOCK  ADVISORY  WRITE {begun[0].pid} " not in _locks():
            time.sleep(0.01)

    monkeypatch.setattr(shutil, "copyfileobj", meanwhile)
    with whole_file.appending(log) as file:
        assert begun[0].wait() == 0
        file.write(b"line 3\n")
    assert (log.read_text(), other.read_text()) == ("line 1\nline 2\nline 3\n", "line 1\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "other"]


def _locks() -> str:
    return Path("/proc/locks").read_text()


def test_a_second_name_of_another_users_file_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").hardlink_to(_written(tmp_path / "other", "line 1\n"))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OSError, match="log"):
        whole_file.appending(tmp_path / "log")


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_the_logs_of_a_project_copied_by_hard_links_are_two(project: Incident, tmp_path: Path) -> None:
    """`cp -al`: a start that is let through, and a warm-up's history, are kept in the copy alone."""
    words = ("run", "-p", "small", "--venv", ".venv", "--gate", "off", "--reason", "first", "--", "true")
    assert run_envdoctor(*words, folder=project.root).code == 0
    copy = tmp_path.with_name(f"{tmp_path.name}-copy")
    subprocess.run(["cp", "-al", project.root, copy], check=True)
    assert run_envdoctor(*words[:-3], "second", "--", "true", folder=copy).err.count("cannot write") == 0
    logs = [(root / ".envdoctor/gate.log").read_text() for root in (project.root, copy)]
    assert [[json.loads(line)["reason"] for line in log.splitlines()] for log in logs] == [
        ["first"],
        ["first", "second"],
    ]
    store = SnapshotStore(folder=tmp_path / "store")
    manifest = manifest_of(filled(tmp_path / "cache"), name="n", profile="p")
    store.keep_warm(manifest, 1.0)
    subprocess.run(["cp", "-al", tmp_path / "store", tmp_path / "store-2"], check=True)
    SnapshotStore(folder=tmp_path / "store-2").keep_warm(manifest, 2.0)
    assert [
        len(at.warm_manifest("p").with_name("history.jsonl").read_text().splitlines())
        for at in (store, SnapshotStore(folder=tmp_path / "store-2"))
    ] == [1, 2]


def test_the_history_of_warm_ups_is_not_written_through_a_link(tmp_path: Path) -> None:
    store = SnapshotStore(folder=tmp_path / "store")
    manifest = manifest_of(filled(tmp_path / "cache"), name="n", profile="p")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    at = store.warm_manifest("p").with_name("history.jsonl")
    at.parent.mkdir(parents=True)
    at.symlink_to(victim)
    with pytest.raises(CacheError):
        store.keep_warm(manifest, 1.0)
    assert victim.read_text() == "precious"
