"""A journal that somebody planted: what it names is not moved, whatever it is."""

import json
import os
from pathlib import Path

import pytest

from envdoctor.errors import RestoreError
from envdoctor.swap import journal
from envdoctor.swap.store import BackupStore


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    """Make a venv, its store and a home folder that must stay as it is."""
    (tmp_path / "home/docs").mkdir(parents=True)
    (tmp_path / "venv").mkdir()
    made = BackupStore.of(tmp_path / "venv")
    made.builds.mkdir(parents=True)
    made.generations.mkdir()
    return made


def _write(store: BackupStore, **entry: str) -> None:
    store.journal.write_text(json.dumps({"phase": "emptying", "profile": "", "build": "", **entry}))


@pytest.mark.parametrize("phase", ["emptying", "filling", "swapping"])
@pytest.mark.parametrize("place", ["keep", "build"])
@pytest.mark.parametrize("trick", ["link", "parent", "file", "outside"])
def test_what_it_names_must_be_a_folder_of_the_store(store: BackupStore, phase: str, place: str, trick: str) -> None:
    home = store.target.parent / "home"
    named = store.generations / "0001"
    if trick == "link":
        named.symlink_to(home)
    elif trick == "file":
        named.write_text("")
    else:
        named = store.builds / ".." if trick == "parent" else home
    _write(store, **{"phase": phase, "build": str(store.builds / "gone"), place: str(named)})
    with pytest.raises(RestoreError) as refused:
        journal.recover(store)
    assert refused.value.message == (f"{store.journal} names folders outside {store.root}, so it is not envdoctor's")
    assert [path.name for path in home.iterdir()] == ["docs"]
    assert list(store.target.iterdir()) == []


@pytest.mark.parametrize("trick", ["link", "pipe", "nested", "large", "text"])
def test_a_journal_that_is_no_file_of_ours(store: BackupStore, trick: str) -> None:
    if trick == "link":
        (store.root / "elsewhere").write_text("{}")
        store.journal.symlink_to("elsewhere")
    elif trick == "pipe":
        os.mkfifo(store.journal)
    else:
        store.journal.write_text({"nested": "[" * 100_000, "large": " " * (2 << 20), "text": "x"}[trick])
    with pytest.raises(RestoreError, match=r"journal.json cannot be read \(.*\), so it is not known what an earlier"):
        journal.read(store)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_journal_and_a_folder_of_another_user(store: BackupStore) -> None:
    kept = store.generations / "0001"
    kept.mkdir()
    _write(store, keep=str(kept))
    os.chown(kept, 12345, -1)
    with pytest.raises(RestoreError, match="names folders outside"):
        journal.read(store)
    os.chown(kept, 0, -1)
    os.chown(store.journal, 12345, -1)
    with pytest.raises(RestoreError, match="it belongs to user 12345"):
        journal.read(store)


def test_a_link_in_its_place_is_not_written_through(store: BackupStore) -> None:
    victim = store.target.parent / "home/docs/thesis"
    victim.write_text("precious")
    for name in ("journal.new", "journal.json"):
        (store.root / name).symlink_to(victim)
    journal.write(store, journal.JournalEntry(phase="building", profile="", build=str(store.builds / "x")))
    assert victim.read_text() == "precious"
    assert journal.read(store) is not None
