"""The tasks of `fleet restore`, `repair`, `rollback` and `cache push` as a node does them, without a fleet."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envdoctor.swap import journal
from envdoctor.swap.journal import JournalEntry
from envdoctor.swap.same_venv import made
from envdoctor.swap.store import BackupStore, locked
from tests.factories.make_cache import filled
from tests.factories.make_incident import CUDNN, make_broken_incident, sources_of
from tests.factories.make_venv import make_venv, rewrite
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import ROOT, environment, filtered, run_envdoctor

START = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from envdoctor.cli.on_node import main; main()"


def done(root: Path, *tasks: dict[str, Any], extra: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Return what a node says of each task."""
    own = environment(root, sources_of(root) | (extra or {}))
    command = [sys.executable, "-c", START, json.dumps(tasks)]
    ended = subprocess.run(command, cwd=root, env=own, capture_output=True, text=True, check=True)
    return [json.loads(filtered(line, root)) for line in ended.stdout.splitlines()]


def task(root: Path, do: str, **more: object) -> dict[str, Any]:
    return {"do": do, "venv": str(root / ".venv"), "profile": str(root / "profiles/small.toml"), **more}


def left(root: Path) -> BackupStore:
    """Leave the journal of a restore that was killed while it built its copy."""
    store = BackupStore.of(root / ".venv")
    store.builds.mkdir(parents=True, exist_ok=True)
    (store.builds / "20260101T000000").mkdir()
    entry = JournalEntry(phase="building", profile="small", build=str(store.builds / "20260101T000000"))
    journal.write(store, entry)
    return store


def test_what_an_interrupted_command_left_is_part_of_the_plan_and_put_right(tmp_path: Path) -> None:
    incident = make_broken_incident(tmp_path)
    store = left(tmp_path)
    (planned,) = done(tmp_path, task(tmp_path, "restore"))
    assert planned["code"] == 0, planned
    assert planned["text"].startswith(
        "first: what an interrupted restore (small) left is put right\n\nenvdoctor restore  [TMP]/.venv   profile small"
    )
    assert store.journal.exists()
    changed, checked = done(tmp_path, task(tmp_path, "restore", plan=planned["digest"]), task(tmp_path, "check"))
    assert (changed["code"], changed["status"], checked["code"]) == (0, "restored", 0), (changed, checked)
    assert not store.journal.exists()
    assert (incident.venv.site_packages / CUDNN).exists()


def test_an_interrupted_command_that_nobody_was_shown_stops_a_plan(tmp_path: Path) -> None:
    make_broken_incident(tmp_path)
    (planned,) = done(tmp_path, task(tmp_path, "restore"))
    left(tmp_path)
    (refused,) = done(tmp_path, task(tmp_path, "restore", plan=planned["digest"]))
    assert refused["code"] == 4
    assert refused["problem"].startswith("an interrupted restore (small) has to be put right first")


def test_a_check_after_a_repair_counts_the_files_that_were_not_so_before(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "thing", "1", files={"thing.py": "", "other.py": ""})
    edited, lost = (make_venv(tmp_path / name, wheel) for name in ("edited", "lost"))
    rewrite(edited.site_packages / "thing.py", "edited = True\n")
    (lost.site_packages / "thing.py").unlink()
    check, again = ({"do": "check", "venv": str(venv.prefix)} for venv in (edited, lost))
    before, same, worse = done(tmp_path, {**check, "before": True}, {**check, "before": True}, again)
    assert before["errors"] == same["errors"] == worse["errors"] == ["ED202 thing"]
    assert [one["new_files"] for one in (before, same, worse)] == [1, 0, 1]


def test_a_repair_of_a_whole_venv_puts_right_what_was_left(tmp_path: Path) -> None:
    make_broken_incident(tmp_path)
    (planned,) = done(tmp_path, task(tmp_path, "repair"))
    assert done(tmp_path, task(tmp_path, "repair", plan=planned["digest"]))[0]["status"] == "repaired"
    store = left(tmp_path)
    (again,) = done(tmp_path, task(tmp_path, "repair"))
    assert (again["code"], again["status"]) == (0, "planned"), again
    (put_right,) = done(tmp_path, task(tmp_path, "repair", plan=again["digest"]))
    assert (put_right["code"], put_right["status"]) == (0, "nothing to repair"), put_right
    assert not store.journal.exists()


def test_a_venv_that_another_node_has_restored_meanwhile_is_in_place(tmp_path: Path) -> None:
    make_broken_incident(tmp_path)
    (planned,) = done(tmp_path, task(tmp_path, "restore"))
    (first,) = done(tmp_path, task(tmp_path, "restore", plan=planned["digest"]))
    assert first["status"] == "restored", first
    second, checked = done(tmp_path, task(tmp_path, "restore", plan=planned["digest"]), task(tmp_path, "check"))
    assert (second["code"], second["status"], checked["code"]) == (0, "already in place", 0), (second, checked)
    assert "rollback" not in first["text"] + second["text"]


def test_a_venv_that_is_neither_as_shown_nor_in_place_is_left(tmp_path: Path) -> None:
    incident = make_broken_incident(tmp_path)
    (planned,) = done(tmp_path, task(tmp_path, "restore"))
    (incident.venv.site_packages / "mine.py").touch()  # an empty file is not in the plan
    (refused,) = done(tmp_path, task(tmp_path, "restore", plan=planned["digest"]))
    assert refused["code"] == 4
    assert refused["problem"].startswith("nothing was changed: the files are not those that the plan was made on")
    assert not (incident.venv.site_packages / CUDNN).exists()


def test_what_was_put_right_is_told_where_the_plan_is_not_carried_out(tmp_path: Path) -> None:
    incident = make_broken_incident(tmp_path)
    store = left(tmp_path)
    (planned,) = done(tmp_path, task(tmp_path, "restore"))
    (incident.venv.site_packages / "mine.py").touch()  # an empty file is not in the plan
    (refused,) = done(tmp_path, task(tmp_path, "restore", plan=planned["digest"]))
    assert refused["code"] == 4
    assert refused["problem"].startswith(
        "nothing was changed but that an interrupted restore (small) was put right: the files are not those that the "
        "plan was made on"
    )
    assert not store.journal.exists()


def rolling_back(root: Path, before: str, **more: object) -> dict[str, Any]:
    return task(root, "rollback", before=before, change="the restore", **more) | {"profile": ""}


def test_a_venv_goes_back_to_the_one_of_before_and_not_further(tmp_path: Path) -> None:
    incident = make_broken_incident(tmp_path)
    (planned,) = done(tmp_path, task(tmp_path, "restore"))
    before = planned["venv"]
    (idle,) = done(tmp_path, rolling_back(tmp_path, before))
    as_before = (0, "as before", "it has the venv that was there before the restore\n")
    assert (idle["code"], idle["status"], idle["text"]) == as_before
    done(tmp_path, task(tmp_path, "restore", plan=planned["digest"]))
    (once_more,) = done(tmp_path, task(tmp_path, "restore"))
    assert once_more["venv"] not in ("", before)
    (back,) = done(tmp_path, rolling_back(tmp_path, before))
    assert (back["code"], back["status"]) == (0, "planned"), back
    assert back["text"].startswith("backup 1 comes back to [TMP]/.venv: ")
    changed, checked = done(tmp_path, rolling_back(tmp_path, before, plan=back["digest"]), task(tmp_path, "check"))
    assert (changed["code"], changed["status"], checked["code"]) == (0, "rolled back", 1), changed
    assert not (incident.venv.site_packages / CUDNN).exists()
    # Another node that shares the venv was given the same plan: it finds it carried out, and does not undo it.
    (second,) = done(tmp_path, rolling_back(tmp_path, before, plan=back["digest"]))
    assert (second["code"], second["status"], second["text"]) == as_before


@pytest.mark.parametrize("aside", [False, True])
def test_a_venv_that_was_stopped_while_it_was_put_aside_is_put_right_before_it_is_the_one_of_before(
    tmp_path: Path,
    aside: bool,  # noqa: FBT001 - of parametrize
) -> None:
    incident = make_broken_incident(tmp_path)
    venv = incident.venv.prefix
    (tmp_path / ".venv/.envdoctor/.venv/generations/0001").mkdir(parents=True)
    store = BackupStore.of(venv)
    assert store.inside
    kept, before = store.generation(1), made(venv)
    entry = JournalEntry(phase="emptying", profile="small", build=str(store.builds / "1"), keep=str(kept))
    journal.write(store, entry)
    for path in list(venv.iterdir()):
        if path.name != ".envdoctor" and (aside or path.name != "pyvenv.cfg"):
            path.rename(kept / path.name)
    (planned,) = done(tmp_path, rolling_back(tmp_path, before))
    assert (planned["code"], planned["status"]) == (0, "planned"), planned
    assert planned["text"].startswith("first: what an interrupted restore (small) left is put right\n")
    assert not (venv / "bin").exists()
    asked = rolling_back(tmp_path, before, plan=planned["digest"])
    changed, checked = done(tmp_path, asked, task(tmp_path, "check"))
    assert (changed["code"], changed["status"], changed["venv"]) == (0, "as before", before), changed
    assert checked["errors"] == ["ED201 nvidia-cudnn-cu12"]
    assert (venv / "bin").exists()
    assert journal.read(store) is None


def test_a_venv_that_is_being_changed_is_not_called_the_one_of_before(tmp_path: Path) -> None:
    incident = make_broken_incident(tmp_path)
    store, before = left(tmp_path), made(incident.venv.prefix)
    (idle,) = done(tmp_path, rolling_back(tmp_path, before))
    assert (idle["code"], idle["status"], idle["errors"]) == (0, "as before", ["ED201 nvidia-cudnn-cu12"])
    with locked(store, print):
        (refused,) = done(tmp_path, rolling_back(tmp_path, before))
    assert refused["problem"] == f"another envdoctor (process {os.getpid()}) is changing [TMP]/.venv"


def test_a_venv_of_before_that_is_not_kept_is_not_guessed(tmp_path: Path) -> None:
    make_broken_incident(tmp_path)
    (planned,) = done(tmp_path, task(tmp_path, "restore"))
    done(tmp_path, task(tmp_path, "restore", plan=planned["digest"]))
    (refused,) = done(tmp_path, rolling_back(tmp_path, "1 2 3"))
    assert (refused["code"], refused["problem"]) == (
        2,
        "neither [TMP]/.venv nor a backup of it is the venv that was there before the restore",
    )


def test_a_rollback_carries_out_what_was_shown_or_nothing(tmp_path: Path) -> None:
    incident = make_broken_incident(tmp_path)
    (planned,) = done(tmp_path, task(tmp_path, "restore"))
    done(tmp_path, task(tmp_path, "restore", plan=planned["digest"]))
    (back,) = done(tmp_path, rolling_back(tmp_path, planned["venv"]))
    (incident.venv.site_packages / "mine.py").write_text("1")
    (refused,) = done(tmp_path, rolling_back(tmp_path, planned["venv"], plan=back["digest"]))
    assert refused["code"] == 4
    assert refused["problem"].startswith("nothing was changed: the files are not those that the plan was made on")
    assert (incident.venv.site_packages / CUDNN).exists()


def test_a_missing_wheel_is_named_and_why(tmp_path: Path) -> None:
    make_broken_incident(tmp_path)
    (wheel,) = (tmp_path / "wheels").glob("nvidia_cudnn_cu12-*")
    wheel.unlink()
    (planned,) = done(tmp_path, task(tmp_path, "restore"))
    assert planned["code"] == 4
    assert planned["problem"].startswith("nvidia-cudnn-cu12 9.19.0.56 was not found: "), planned["problem"]


def test_errors_of_a_check_before_do_not_end_it(tmp_path: Path) -> None:
    make_broken_incident(tmp_path)
    before, after = done(tmp_path, task(tmp_path, "check", before=True), task(tmp_path, "check"))
    assert before["code"] == after["code"] == 1
    assert "ED201 nvidia-cudnn-cu12" in before["errors"]
    assert before["errors"] == after["errors"]
    assert len(done(tmp_path, task(tmp_path, "check"), task(tmp_path, "check"))) == 1


@pytest.mark.parametrize("drops", [0, 1])
def test_a_stop_is_answered_once_also_where_python_drops_it(tmp_path: Path, drops: int) -> None:
    code = f"""
import os, signal, sys, time
sys.path.insert(0, {str(ROOT)!r})
from envdoctor.cli.on_node import _answer_stops_once
_answer_stops_once()
class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.001)
try:
    if {drops}:
        Dropped()
    else:
        os.kill(os.getpid(), signal.SIGTERM)
    while True:
        time.sleep(1)
except KeyboardInterrupt:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.kill(os.getpid(), number)
    print("tidied up")
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "tidied up\n", "")


def test_a_snapshot_is_merged_by_the_plan_that_was_shown_or_not_at_all(tmp_path: Path) -> None:
    filled(tmp_path / "compiled")
    venv = str(make_venv(tmp_path / "bare").prefix)
    folders = {
        name: {"TORCHINDUCTOR_CACHE_DIR": f"{tmp_path}/{name}", "TRITON_CACHE_DIR": f"{tmp_path}/triton-{name}"}
        for name in ("compiled", "node")
    }
    saved = run_envdoctor("cache", "save", "mine", "--venv", venv, folder=tmp_path, extra=folders["compiled"])
    assert saved.code == 0, saved.err
    (archive,) = tmp_path.rglob("mine.tar.zst")
    sha256 = subprocess.run(["sha256sum", archive], capture_output=True, text=True, check=True).stdout.split()[0]
    push = {"do": "cache", "venv": venv, "profile": "", "archive": str(archive), "sha256": sha256}
    (planned,) = done(tmp_path, push, extra=folders["node"])
    assert planned["code"] == 0, planned
    (refused,) = done(tmp_path, push | {"plan": "0" * 40}, extra=folders["node"])
    assert refused["code"] == 4
    assert refused["problem"].startswith("nothing was changed: the plan is not the one that was shown (digest 0000")
    assert not (tmp_path / "node").exists()
    (merged,) = done(tmp_path, push | {"plan": planned["digest"]}, extra=folders["node"])
    assert merged["code"] == 0, merged
    assert list((tmp_path / "node").rglob("*.py")) != []
