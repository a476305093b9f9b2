"""What a clean-up may take, and bringing it back."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from envdoctor.cache import in_use, quarantine
from envdoctor.cache.gc import CleanupPlan, Facts, Wish, plan
from envdoctor.cache.key_parts import KeyPart
from envdoctor.cache.layout import Root, files
from envdoctor.cache.manifest import Manifest
from envdoctor.cache.status import damaged_entries
from envdoctor.errors import CacheError
from envdoctor.facts.host import Host
from tests.factories.make_cache import filled, graph, kernel, manifest_of, shared_object, write
from tests.factories.make_venv import tree_state

NOW = 2_000_000_000
DAY = 86_400


def aged(path: Path, days: float) -> Path:
    paths = [path, *path.rglob("*")] if path.is_dir() else [path]
    for at in paths:
        os.utime(at, (NOW - days * DAY, NOW - days * DAY))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Root:
    found = filled(tmp_path)
    aged(tmp_path, 1)
    aged(kernel(tmp_path, name="OLD"), 30)
    aged(graph(tmp_path, b"old graph", key="fold00000"), 40)
    return found


def facts(root: Root, *manifests: Manifest, **changes: object) -> Facts:
    found = list(files([root]))
    base = Facts(
        files=found,
        damaged=damaged_entries([root], found),
        manifests=manifests,
        key="",
        keep_for=frozenset(),
        used_roots=frozenset(),
        now=NOW,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def going(found: CleanupPlan) -> list[tuple[str, str]]:
    return [
        (removal.entry.split("/")[0] + "/" + removal.entry.rpartition("/")[2][:4], removal.reason)
        for removal in found.removals
    ]


def test_nothing_asked_takes_nothing(root: Root) -> None:
    assert plan(facts(root), Wish()) == CleanupPlan(removals=(), kept={})


def test_old_entries_go_the_oldest_first(root: Root) -> None:
    found = plan(facts(root), Wish(older_than_seconds=14 * DAY))
    assert [(removal.kind, removal.reason) for removal in found.removals] == [
        ("fx graph", "old"),
        ("triton kernel", "old"),
    ]
    assert found.removals[1].files == tuple(
        f"triton/0/OLD/{name}" for name in ("__grp__sum.json", "sum.cubin", "sum.json", "sum.ttir")
    )
    assert found.bytes == sum(removal.bytes for removal in found.removals)


def test_a_profiles_newest_manifest_keeps_its_entries(root: Root) -> None:
    keeping = manifest_of(root, profile="good")
    found = plan(facts(root, keeping, keep_for=frozenset({"good"})), Wish(older_than_seconds=0))
    assert found == CleanupPlan(removals=(), kept={"profile good keeps them": 8})


def test_what_only_an_older_manifest_lists_goes(root: Root) -> None:
    everything = replace(manifest_of(root, profile="good"), made_at="2026-01-01T00:00:00Z")
    newest = replace(
        everything,
        made_at="2026-02-01T00:00:00Z",
        files=tuple(file for file in everything.files if "OLD" not in file.path and "fold" not in file.path),
    )
    found = plan(facts(root, everything, newest, keep_for=frozenset({"good"})), Wish(older_than_seconds=14 * DAY))
    assert [removal.kind for removal in found.removals] == ["fx graph", "triton kernel"]
    assert found.kept == {}


def test_a_manifest_without_a_kept_profile_protects_nothing(root: Root) -> None:
    found = plan(facts(root, manifest_of(root, profile="other")), Wish(older_than_seconds=0))
    assert len(found.removals) == 8


def test_a_used_root_is_left_alone(root: Root) -> None:
    found = plan(facts(root, used_roots=frozenset({"inductor"})), Wish(older_than_seconds=0, damaged=True))
    assert found == CleanupPlan(removals=(), kept={"a live process uses the cache": 8})


def test_a_damaged_entry_goes_even_if_a_profile_keeps_it(root: Root) -> None:
    keeping = manifest_of(root, profile="good")
    (root.path / "triton/0/OLD/sum.ttir").write_bytes(b"")
    found = plan(facts(root, keeping, keep_for=frozenset({"good"})), Wish(damaged=True))
    assert going(found) == [("triton/OLD", "damaged")]


def test_the_size_is_reached_with_the_oldest(root: Root) -> None:
    everything = sum(file.size for file in files([root]))
    oldest = (root.path / "fxgraph/ol/fold00000").stat()
    assert oldest
    assert [removal.kind for removal in plan(facts(root), Wish(maximum_bytes=everything - 1)).removals] == ["fx graph"]
    assert len(plan(facts(root), Wish(maximum_bytes=0)).removals) == 8
    assert plan(facts(root), Wish(maximum_bytes=everything)).removals == ()


def test_protected_entries_do_not_count_as_freed(root: Root) -> None:
    everything = manifest_of(root, profile="good")
    only_old_graph = replace(everything, files=tuple(file for file in everything.files if "fold" in file.path))
    total = sum(file.size for file in files([root]))
    found = plan(facts(root, only_old_graph, keep_for=frozenset({"good"})), Wish(maximum_bytes=total - 1))
    assert [removal.kind for removal in found.removals] == ["triton kernel"]
    assert found.kept == {"profile good keeps them": 1}


def test_what_stays_for_any_reason_does_not_count_as_freed(root: Root, tmp_path: Path) -> None:
    everything = manifest_of(root, profile="good")
    old_graph = replace(everything, files=tuple(file for file in everything.files if "fold" in file.path))
    total = sum(file.size for file in files([root]))
    # Asked for by its age as well, and kept for the profile.
    wish = Wish(older_than_seconds=35 * DAY, maximum_bytes=total - 1)
    found = plan(facts(root, old_graph, keep_for=frozenset({"good"})), wish)
    assert [(removal.kind, removal.reason) for removal in found.removals] == [("triton kernel", "over the size")]
    # The oldest are in a cache that a process uses: another's go.
    other = Root(kind="triton", path=tmp_path / "other", found_via="TRITON_CACHE_DIR")
    write(other.path / "K/a.cubin", b"kernel")
    both = list(files([root, other]))
    wish = Wish(maximum_bytes=sum(file.size for file in both) - 1)
    found = plan(facts(root, files=both, used_roots=frozenset({root.kind})), wish)
    assert [(removal.root, removal.reason) for removal in found.removals] == [("triton", "over the size")]


def test_a_file_that_a_job_writes_meanwhile_is_not_replaced(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = next(root.path.rglob("*.cubin"))
    taken = quarantine.take(root, [str(kernel.relative_to(root.path))], "old", datetime(2026, 11, 29, tzinfo=UTC))
    assert taken is not None
    made = Path.mkdir

    def written_by_a_job(folder: Path, *args: int, **options: bool) -> None:
        made(folder, *args, **options)
        if folder == kernel.parent:
            kernel.write_bytes(b"the job's")

    monkeypatch.setattr(Path, "mkdir", written_by_a_job)
    assert quarantine.put_back(taken) == (0, 1)
    assert kernel.read_bytes() == b"the job's"
    assert (taken.folder / "files" / taken.files[0]).is_file()


def test_entries_of_another_key(root: Root) -> None:
    mine = manifest_of(root)
    foreign = replace(mine, key=(KeyPart(name="torch.version", value="2.9.0"),))
    shared = replace(mine, files=tuple(file for file in mine.files if "OLD" not in file.path))
    found = plan(facts(root, foreign, shared, key=mine.key_digest), Wish(other_keys=True))
    assert going(found) == [("triton/OLD", "of another key")]
    # A cache that no manifest describes belongs to nobody else as far as anybody knows.
    assert plan(facts(root, key=mine.key_digest), Wish(other_keys=True)).removals == ()


def state(root: Root) -> dict[str, str]:
    return {path: told for path, told in tree_state(root.path).items() if not path.startswith(".envdoctor")}


def test_what_is_taken_comes_back_as_it_was(root: Root) -> None:
    before = state(root)
    paths = [file.path for file in files([root])]
    taken = quarantine.take(root, paths, "old", datetime(2026, 11, 29, 10, 15, tzinfo=UTC))
    assert taken is not None
    assert taken.stamp == f"20261129T101500Z-{os.getpid()}"
    assert [path for path, told in state(root).items() if told.startswith("file")] == ["locks/cxyz0.lock"]
    # Folders that are empty now are gone: torch would look for an entry of that key in vain.
    assert not (root.path / "fxgraph").exists()
    (listed,) = quarantine.listed([root])
    assert (listed.files, listed.bytes, listed.reason) == (tuple(paths), taken.bytes, "old")
    assert quarantine.put_back(listed) == (len(paths), 0)
    assert state(root) == before
    assert quarantine.listed([root]) == ()


def test_an_entry_that_was_made_again_stays(root: Root) -> None:
    path = "xy/csome.best_config"
    taken = quarantine.take(root, [path], "old", datetime.now(UTC))
    assert taken is not None
    write(root.path / path, b'{"XBLOCK": 512}')
    assert quarantine.put_back(taken) == (0, 1)
    assert (root.path / path).read_bytes() == b'{"XBLOCK": 512}'


def test_purging_frees_the_space_for_good(root: Root) -> None:
    taken = quarantine.take(root, ["xy/csome.best_config"], "old", datetime.now(UTC))
    assert taken is not None
    quarantine.purge(taken)
    assert not taken.folder.exists()
    assert not (root.path / "xy/csome.best_config").exists()


def test_a_clean_up_killed_in_the_middle_can_be_undone(root: Root) -> None:
    before = state(root)
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from datetime import datetime, UTC\n"
        "from envdoctor.cache import quarantine\n"
        "from envdoctor.cache.layout import Root, files\n"
        "root = Root(kind='inductor', path=Path(sys.argv[2]), found_via='x')\n"
        "moves, move = [], quarantine._move\n"
        "def dying(source, target):\n"
        "    moves.append(source)\n"
        "    if len(moves) == 4: os.kill(os.getpid(), 9)\n"
        "    return move(source, target)\n"
        "quarantine._move = dying\n"
        "quarantine.take(root, [file.path for file in files([root])], 'old', datetime.now(UTC))\n"
    )
    package = str(Path(quarantine.__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code, package, str(root.path)], check=False)
    assert done.returncode == -9
    assert state(root) != before
    (left,) = quarantine.listed([root])
    assert quarantine.put_back(left) == (3, 0)
    assert state(root) == before


def test_a_record_that_leads_out_of_the_cache_is_not_believed(root: Root) -> None:
    folder = root.path / ".envdoctor/quarantine/20261129T101500Z-1"
    write(folder / "record.json", b'{"reason": "x", "files": ["../../evil"]}')
    with pytest.raises(CacheError) as caught:
        quarantine.listed([root])
    assert caught.value.message == f"{folder}/record.json: it names files outside the cache"


@pytest.mark.parametrize("place", ["out", "files/out"])
def test_nothing_is_put_back_through_a_link(root: Root, tmp_path: Path, place: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    folder = root.path / ".envdoctor/quarantine/20261129T101500Z-1"
    write(folder / "record.json", b'{"reason": "x", "files": ["plain", "out/authorized_keys"]}')
    write(folder / "files/plain", b"x")
    if place == "out":
        write(folder / "files/out/authorized_keys", b"evil")
        (root.path / "out").symlink_to(victim)
    else:
        write(victim / "authorized_keys", b"mine")
        (folder / "files/out").symlink_to(victim)
    before = tree_state(victim)
    (listed,) = quarantine.listed([root])
    with pytest.raises(CacheError, match="a link, and nothing is written through one"):
        quarantine.put_back(listed)
    assert tree_state(victim) == before
    assert (folder / "files/plain").exists()


@pytest.mark.parametrize("place", [".envdoctor", ".envdoctor/quarantine", ".envdoctor/quarantine/20261129T101500Z-1"])
def test_a_quarantine_that_is_elsewhere_is_not_taken_for_ours(root: Root, tmp_path: Path, place: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    inner = ".envdoctor/quarantine/20261129T101500Z-1".removeprefix(place).lstrip("/")
    write(elsewhere / inner / "record.json", b'{"reason": "x", "files": ["a"]}')
    (root.path / place).parent.mkdir(parents=True, exist_ok=True)
    (root.path / place).symlink_to(elsewhere)
    if place.endswith("-1"):
        assert quarantine.listed([root]) == ()
        return
    with pytest.raises(CacheError, match="is not a real folder|is a link"):
        quarantine.listed([root])


def test_a_process_that_maps_a_kernel_uses_the_cache(tmp_path: Path) -> None:
    root = Root(kind="inductor", path=tmp_path / "cache", found_via="TORCHINDUCTOR_CACHE_DIR")
    mapped = write(root.path / "xy/cx.main.so", shared_object())
    assert in_use.users([root], Host.current(), os.getpid()) == ()
    code = "import ctypes, sys, time; ctypes.CDLL(sys.argv[1]); print('loaded', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code, mapped], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"loaded\n"
        (user,) = in_use.users([root], Host.current(), os.getpid())
        assert (user.pid, user.root) == (process.pid, "inductor")
        assert user.command.startswith(sys.executable)
        assert in_use.users([root], Host.current(), process.pid) == ()
    finally:
        process.kill()
        process.communicate()


def test_a_process_with_torch_and_the_folder_in_its_environment_uses_it(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    root = Root(kind="inductor", path=tmp_path / "cache", found_via="TORCHINDUCTOR_CACHE_DIR")
    root.path.mkdir()
    named = f"A=1\0TORCHINDUCTOR_CACHE_DIR={root.path}\0"
    for pid, maps, environ in (
        ("7", "00-01 r-xp 0 0 0 /venv/lib/torch/lib/libtorch_cpu.so\n", named),
        ("8", "00-01 r-xp 0 0 0 /bin/bash\n", named),
        ("9", "00-01 r-xp 0 0 0 /venv/lib/torch/lib/libtorch_cpu.so\n", f"TORCHINDUCTOR_CACHE_DIR={root.path}2\0"),
    ):
        write(proc / pid / "maps", maps.encode())
        write(proc / pid / "environ", environ.encode())
        write(proc / pid / "cmdline", b"python\0train.py\0")
        (proc / pid / "fd").mkdir()
        (proc / pid / "cwd").symlink_to(tmp_path)
    host = replace(Host.current(), proc=proc)
    assert [(user.pid, user.command) for user in in_use.users([root], host, 1)] == [(7, "python train.py")]
    # The same folder, written in other ways.
    (tmp_path / "link").symlink_to(root.path)
    for spelt in (f"{root.path}/", "cache", "./cache/", f"{tmp_path}/link", f"{tmp_path}/link/../cache"):
        write(proc / "9/environ", f"TORCHINDUCTOR_CACHE_DIR={spelt}\0".encode())
        assert [user.pid for user in in_use.users([root], host, 1)] == [7, 9]
    # Where the folder is the default, a process that names none means it.
    host = replace(host, environ={"TMPDIR": "/scratch"})
    default = replace(root, found_via="default")
    for environ, pids in ((b"A=1\0TMPDIR=/scratch\0", [7, 9]), (b"TMPDIR=/elsewhere\0", [7])):
        write(proc / "9/environ", environ)
        assert [user.pid for user in in_use.users([default], host, 1)] == pids
    assert [user.pid for user in in_use.users([default], replace(host, uid=host.uid + 1), 1)] == [7]


_NOT_SEEN = """
import sys
from dataclasses import replace
from pathlib import Path
from envdoctor.cache.in_use import not_seen
from envdoctor.cache.layout import Root
from envdoctor.facts.host import Host
folder = Path(sys.argv[1])
host = replace(Host.current(), proc=folder / "proc")
for name in ("shared", "private", "gone"):
    print(not_seen([Root(kind="triton", path=folder / name, found_via="TRITON_CACHE_DIR")], host))
"""


def test_what_is_not_known_of_a_shared_cache_is_said(tmp_path: Path) -> None:
    for name, mode in {"shared": 0o1777, "private": 0o755}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    for pid, command in {"2": b"", "40": b"python\0train.py\0", "41": b"sshd\0"}.items():
        write(tmp_path / "proc" / pid / "cmdline", command)
        write(tmp_path / "proc" / pid / "environ", b"A=1\0").chmod(0)
    write(tmp_path / "proc/self/mountinfo", f"1 0 0:1 / {tmp_path}/shared rw - nfs4 server:/cache rw\n".encode())
    unprivileged = Path(__file__).parents[2] / "factories/unprivileged.py"
    done = subprocess.run(
        [sys.executable, unprivileged, "-c", _NOT_SEEN, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        str(
            (
                "triton: others may write to it, and 2 processes could not be looked into, first 40 (python train.py)",
                "triton: it is on nfs4, and processes of other hosts could not be looked into",
            )
        ),
        "()",
        "()",
    ], done.stderr


def test_files_that_a_process_closes_meanwhile_hide_none_that_it_keeps(tmp_path: Path) -> None:
    root = Root(kind="triton", path=tmp_path / "cache", found_via="TRITON_CACHE_DIR")
    kept = write(root.path / "K/a.cubin", b"kernel")
    code = (
        "import os, sys\nkept = open(sys.argv[1])\nprint('open', flush=True)\n"
        "while True:\n for number in range(20): os.close(os.dup(0))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, kept], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        seen = [[user.pid for user in in_use.users([root], Host.current(), 1)] for _ in range(20)]
    finally:
        process.kill()
        process.communicate()
    assert seen == [[process.pid]] * 20
