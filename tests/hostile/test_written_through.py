"""A link waits where a command writes: what it leads to is not written to, made, or cut."""

from pathlib import Path

import pytest

from envdoctor.cache.store import SnapshotStore
from envdoctor.errors import CacheError
from envdoctor.facts import whole_file
from tests.factories.make_cache import filled, manifest_of
from tests.factories.make_incident import Incident
from tests.factories.make_stack import make_stack
from tests.factories.make_venv import rewrite
from tests.factories.run_envdoctor import run_envdoctor


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


@pytest.mark.parametrize("kind", ["link", "second name", "folder"])
def test_what_stays_where_it_is_must_be_a_file_of_its_own(tmp_path: Path, kind: str) -> None:
    victim, log = tmp_path / "victim", tmp_path / "log"
    victim.write_text("precious")
    {"link": log.symlink_to, "second name": log.hardlink_to, "folder": lambda _: log.mkdir()}[kind](victim)
    with pytest.raises(OSError, match="log"):
        whole_file.appending(log)
    assert victim.read_text() == "precious"


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
