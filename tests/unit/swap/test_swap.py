"""The swap, its journal, and the way back from every point at which it can be cut off."""

import errno
import fcntl
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.app.interrupts import Account
from envdoctor.errors import RestoreError
from envdoctor.swap import durable, journal, swap
from envdoctor.swap.journal import JournalEntry
from envdoctor.swap.shown import AnotherVenvError, ShownVenv
from envdoctor.swap.store import BackupStore, locked, remove_tree

SIGNED = f"{os.getpid()} {Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.uname().nodename}\n"


def _store(folder: Path, *, old: bool = True) -> tuple[BackupStore, JournalEntry]:
    """Make a store with a finished copy, and the venv it is to replace."""
    store = BackupStore.of(folder / "venv")
    build = store.builds / "1"
    build.mkdir(parents=True)
    (build / "mark").write_text("new")
    if old:
        store.target.mkdir()
        (store.target / "mark").write_text("old")
    entry = JournalEntry(phase="building", profile="p", build=str(build))
    journal.write(store, entry)
    return store, entry


def _mark(path: Path) -> str | None:
    return (path / "mark").read_text() if path.exists() else None


def _no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand for a file system without RENAME_EXCHANGE: the kernel's answer is EINVAL."""
    real = swap._rename

    def rename(source: Path, destination: Path, flags: int) -> None:
        if flags == swap._RENAME_EXCHANGE:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(source, destination, flags)

    monkeypatch.setattr(swap, "_rename", rename)


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two steps"])
def test_the_new_venv_takes_the_old_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exchange: bool
) -> None:
    if not exchange:
        _no_exchange(monkeypatch)
    store, entry = _store(tmp_path)
    kept = swap.put_in_place(store, entry)
    assert kept == store.generations / "0001"
    assert (_mark(store.target), _mark(kept), journal.read(store)) == ("new", "old", None)
    assert list(store.builds.iterdir()) == []


def test_where_there_was_nothing_nothing_is_kept(tmp_path: Path) -> None:
    store, entry = _store(tmp_path, old=False)
    assert swap.put_in_place(store, entry) is None
    assert (_mark(store.target), store.numbers()) == ("new", [])


def test_a_venv_that_appears_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, entry = _store(tmp_path, old=False)
    monkeypatch.setattr(swap.os.path, "lexists", lambda _: False)
    store.target.mkdir()
    (store.target / "mark").write_text("somebody else's")
    with pytest.raises(RestoreError) as caught:
        swap.put_in_place(store, entry)
    assert caught.value.message == f"the swap failed: File exists ({store.target})"
    assert _mark(store.target) == "somebody else's"


def test_generations_count_on(tmp_path: Path) -> None:
    store, entry = _store(tmp_path)
    (store.generations / "0007").mkdir(parents=True)
    (store.generations / "not a number").mkdir()
    assert swap.put_in_place(store, entry) == store.generations / "0008"
    assert store.numbers() == [7, 8]


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two steps"])
def test_when_the_old_venv_cannot_be_put_away_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exchange: bool
) -> None:
    if not exchange:
        _no_exchange(monkeypatch)
    store, entry = _store(tmp_path)
    keep = store.next_generation()
    keep.mkdir(parents=True)
    (keep / "in the way").touch()
    monkeypatch.setattr(BackupStore, "next_generation", lambda _: keep)
    with pytest.raises(RestoreError) as caught:
        swap.put_in_place(store, entry)
    assert caught.value.message == f"the swap failed: Directory not empty ({store.target})"
    assert (_mark(store.target), _mark(Path(entry.build))) == ("old", "new")


def _swapping(store: BackupStore, entry: JournalEntry) -> JournalEntry:
    """Write the journal's entry of a swap that is about to happen."""
    made = replace(
        entry,
        phase="swapping",
        keep=str(store.next_generation()) if store.target.exists() else "",
        new_inode=durable.inode(Path(entry.build)) or 0,
        old_inode=durable.inode(store.target) or 0,
    )
    journal.write(store, made)
    return made


def test_a_crash_while_building_leaves_the_old_venv(tmp_path: Path) -> None:
    store, _ = _store(tmp_path)
    assert journal.recover(store) == (
        "an earlier restore (p) was stopped while it built its copy; nothing had been changed",
    )
    assert (_mark(store.target), list(store.builds.iterdir()), journal.read(store)) == ("old", [], None)


def test_a_crash_before_the_exchange_leaves_the_old_venv(tmp_path: Path) -> None:
    store, entry = _store(tmp_path)
    _swapping(store, entry)
    assert journal.recover(store) == (
        "an earlier restore (p) was stopped just before its swap; the old venv is as it was",
    )
    assert (_mark(store.target), list(store.builds.iterdir()), store.numbers()) == ("old", [], [])


def test_a_crash_after_the_exchange_puts_the_old_venv_away(tmp_path: Path) -> None:
    store, entry = _store(tmp_path)
    _swapping(store, entry)
    assert swap._exchange(Path(entry.build), store.target)
    keep = store.generations / "0001"
    assert journal.recover(store) == (
        "an earlier restore (p) was stopped just after its swap; the new venv is in place "
        f"and the old one is kept at {keep}",
    )
    assert (_mark(store.target), _mark(keep), list(store.builds.iterdir())) == ("new", "old", [])


def test_a_crash_after_everything_but_the_journal_changes_nothing_more(tmp_path: Path) -> None:
    store, entry = _store(tmp_path)
    made = _swapping(store, entry)
    swap._exchange(Path(entry.build), store.target)
    durable.move(Path(entry.build), Path(made.keep))
    journal.recover(store)
    assert (_mark(store.target), _mark(Path(made.keep)), journal.read(store)) == ("new", "old", None)
    assert journal.recover(store) == ()


def test_a_crash_between_the_two_renames_is_carried_forward(tmp_path: Path) -> None:
    store, entry = _store(tmp_path)
    made = _swapping(store, entry)
    durable.move(store.target, Path(made.keep))
    assert journal.recover(store) == ("an earlier restore (p) was stopped inside its swap; the swap was completed",)
    assert (_mark(store.target), _mark(Path(made.keep))) == ("new", "old")


def test_a_crash_before_the_first_venv_was_moved_in(tmp_path: Path) -> None:
    store, entry = _store(tmp_path, old=False)
    _swapping(store, entry)
    assert journal.recover(store) == ("an earlier restore (p) was stopped inside its swap; the swap was completed",)
    assert (_mark(store.target), store.numbers()) == ("new", [])


def test_a_build_without_a_journal_is_removed(tmp_path: Path) -> None:
    store, _ = _store(tmp_path)
    store.journal.unlink()
    assert journal.recover(store) == ("a copy that an earlier command left unfinished was removed",)
    assert (_mark(store.target), list(store.builds.iterdir())) == ("old", [])


@pytest.mark.parametrize("text", ["", "{", '{"phase": "dancing", "profile": "p", "build": "b"}', "[]"])
def test_a_journal_that_cannot_be_read_stops_everything(tmp_path: Path, text: str) -> None:
    store, _ = _store(tmp_path)
    store.journal.write_text(text)
    with pytest.raises(RestoreError, match="so it is not known what an earlier restore left"):
        journal.recover(store)
    assert (_mark(store.target), [path.name for path in store.builds.iterdir()]) == ("old", ["1"])


def test_the_store_of_a_symlinked_venv_lies_beside_the_real_one(tmp_path: Path) -> None:
    (tmp_path / "real" / "venv").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/venv")
    assert BackupStore.of(tmp_path / "link").root == tmp_path / "real" / ".envdoctor" / "venv"
    (tmp_path / "folder").symlink_to("real")
    assert BackupStore.of(tmp_path / "folder" / "venv").root == tmp_path / "real" / ".envdoctor" / "venv"


def test_the_lock_is_held_by_one(tmp_path: Path) -> None:
    store, _ = _store(tmp_path)
    with locked(store, print), pytest.raises(RestoreError) as caught, locked(store, print):
        pass
    assert caught.value.message == f"another envdoctor (process {os.getpid()}) is changing {store.target}"
    with locked(store, print):
        assert (store.root / "lock").read_text() == SIGNED


@pytest.mark.parametrize("boot", ["another-boot", Path("/proc/sys/kernel/random/boot_id").read_text().strip()])
def test_a_lock_that_another_host_holds_is_not_taken_for_an_orphan(tmp_path: Path, boot: str) -> None:
    """On a network file system, or in a container of this machine, its number says nothing here."""
    store, _ = _store(tmp_path)
    (store.root / "lock").write_text(f"1 {boot} n7\n")
    with (store.root / "lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(RestoreError) as caught, locked(store, print):
            pass
    assert caught.value.message == f"another envdoctor (process 1 on n7) is changing {store.target}"


def test_a_lock_with_a_second_name_gives_way_to_a_new_one(tmp_path: Path) -> None:
    """As after `cp -al project copy`: the copy's lock is not written to, and one that is held counts."""
    store, _ = _store(tmp_path)
    lock, second = store.root / "lock", tmp_path / "second"
    lock.write_text("as it was")
    second.hardlink_to(lock)
    with second.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(RestoreError) as caught, locked(store, print):
            pass
    assert caught.value.message == f"{lock} is held by another process, here or where its second name is (a hard link)"
    with locked(store, print):
        with pytest.raises(RestoreError) as caught, locked(store, print):
            pass
        assert caught.value.message == f"another envdoctor (process {os.getpid()}) is changing {store.target}"
        assert (lock.read_text(), lock.stat().st_nlink) == (SIGNED, 1)
    assert (second.read_text(), second.stat().st_nlink) == ("as it was", 1)
    assert sorted(path.name for path in store.root.iterdir()) == ["builds", "journal.json", "lock"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".envdoctor").write_text("a file in the way")
    with pytest.raises(RestoreError) as caught, locked(BackupStore.of(tmp_path / "venv"), print):
        pass
    assert caught.value.message == f"{tmp_path}/.envdoctor is not a real folder, so nothing in it is touched"


def test_a_tree_with_read_only_folders_is_removed_and_its_files_modes_stay(tmp_path: Path) -> None:
    outside = tmp_path / "cache-file"
    outside.write_text("x")
    outside.chmod(0o444)
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    os.link(outside, tree / "a" / "b" / "file")
    (tree / "a" / "link").symlink_to(tmp_path)
    (tree / "a" / "b").chmod(0o555)
    (tree / "a").chmod(0o500)
    remove_tree(tree)
    remove_tree(tree)
    assert not tree.exists()
    assert (outside.stat().st_mode & 0o777, outside.stat().st_nlink) == (0o444, 1)


def test_a_reader_never_sees_the_venv_missing(tmp_path: Path) -> None:
    store, _ = _store(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mark").write_text("new")
    seen: set[str | None] = set()
    stop = threading.Event()

    def look() -> None:
        path = os.fsencode(store.target / "mark")
        while not stop.is_set():
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                seen.add(None)
            else:
                seen.add(os.read(descriptor, 8).decode())
                os.close(descriptor)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(3000):
        assert swap._exchange(other, store.target)
    stop.set()
    thread.join()
    assert seen == {"old", "new"}


def test_what_else_has_a_number_is_neither_a_backup_nor_replaced(tmp_path: Path) -> None:
    store = BackupStore.of(tmp_path / "venv")
    for name in ("0001", "00000002"):
        (store.generations / name).mkdir(parents=True)
    (store.generations / "0003").write_text("notes")
    (store.generations / "0004").symlink_to(tmp_path)
    assert store.numbers() == [1]
    assert store.next_generation() == store.generations / "0005"


def test_a_venv_that_somebody_else_put_there_is_not_called_this_commands(tmp_path: Path) -> None:
    store = BackupStore.of(tmp_path / "venv")
    shown, account = ShownVenv.of(store), Account(store, "the restored stack")
    store.target.mkdir()
    with pytest.raises(AnotherVenvError) as caught, account.told_with_errors():
        shown.refuse_another(store)
    assert caught.value.message == (
        f"{store.target} has appeared since the plan was made, and nothing else is changed than what was shown\n"
        "nothing was swapped"
    )
    with pytest.raises(RestoreError) as late, account.told_with_errors():
        raise RestoreError("too late", "")
    assert late.value.message == f"too late\n{store.target} holds the restored stack"
