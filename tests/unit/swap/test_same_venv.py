"""Which venv is in a folder: the same words from every host that sees it, others for every other."""

import shutil
from pathlib import Path

from envdoctor.facts.host import Host
from envdoctor.model.frozen import replace
from envdoctor.swap.same_venv import OF_A_NETWORK, made, place_of
from envdoctor.swap.store import BackupStore


def venv(path: Path) -> Path:
    path.mkdir()
    (path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    return path


def mounted(root: Path, kind: str) -> Host:
    """Return this host with one mount of that type, and another boot."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(f"1 0 0:1 / / rw - {kind} server:/home rw\n")
    boot = root / "proc/sys/kernel/random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text(f"{root.name}\n")
    return replace(Host.current(), proc=root / "proc")


def test_a_venv_is_the_same_where_it_is_moved_to_and_its_copy_is_not(tmp_path: Path) -> None:
    first = venv(tmp_path / "first")
    name = made(first)
    shutil.copytree(first, tmp_path / "copy")
    first.rename(tmp_path / "moved")
    assert made(tmp_path / "moved") == name != ""
    assert made(tmp_path / "copy") not in ("", name)
    assert made(tmp_path / "first") == ""


def test_two_hosts_see_one_place_on_a_network_and_places_of_their_own_on_local_disks(tmp_path: Path) -> None:
    store = BackupStore.of(venv(tmp_path / ".venv"))
    for kind, alike in (("nfs4", True), ("fuse.any", True), ("ext4", False)):
        n1, n2 = (place_of(store, mounted(tmp_path / f"{kind}-{name}", kind)) for name in ("n1", "n2"))
        assert n1.place == n2.place == n1.venv
        assert (n1.seen_from == n2.seen_from == OF_A_NETWORK) is alike
        assert (n1.seen_from == n2.seen_from) is alike


def test_a_place_without_a_venv_is_told_by_the_folder_above(tmp_path: Path) -> None:
    host = Host.current()
    a, b = (place_of(BackupStore.of(tmp_path / name / ".venv"), host) for name in ("a", "b"))
    assert a.venv == b.venv == ""
    assert a.place != b.place
    assert a == place_of(BackupStore.of(tmp_path / "a/.venv"), host)
    # The roots of two file systems may have one inode, and changed at other times.
    tmp_path.chmod(0o700)
    later = place_of(BackupStore.of(tmp_path / "a/.venv"), host)
    assert later.place.split()[::2] == a.place.split()[::2]
    assert later.place != a.place


def test_a_host_that_cannot_say_where_it_sees_it_from_is_like_no_other(tmp_path: Path) -> None:
    host = replace(Host.current(), proc=tmp_path / "none")
    assert place_of(BackupStore.of(venv(tmp_path / ".venv")), host).seen_from == ""
