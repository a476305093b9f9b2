"""The bytes of every file against RECORD, over real venvs that uv made."""

import base64
import hashlib
import os
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.doctor.examine import take_fingerprint
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.probes.venv import digest_memo
from envdoctor.probes.venv.deep_files import AlteredFile, DeepFiles, Unverified
from envdoctor.probes.venv.installed_files import InstalledFiles
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import Venv, edit_in_place, install, make_venv, rewrite
from tests.factories.make_wheel import make_wheel, record_hash

DEEP = Options(deep=True)


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    """One distribution with a module, a library and a launcher, linked from the test's own cache."""
    files = {"thing/__init__.py": "x = 1\n", "thing/lib/libthing.so": b"\x7fELF" + bytes(1 << 20)}
    wheel = make_wheel(tmp_path / "wheels", "thing", "1.0", files=files, scripts={"thing": "thing:main"})
    return make_venv(tmp_path / "venv", wheel)


def _host(venv: Venv, **environ: str) -> Host:
    return bare_host(venv.prefix.parent / "home", UV_CACHE_DIR=str(venv.prefix.parent / ".uv-cache"), **environ)


def _deep(venv: Venv, host: Host | None = None) -> DeepFiles:
    return read(venv.prefix, host or _host(venv), DEEP).fact(DeepFiles)


def _shown(venv: Venv, path: Path) -> str:
    return str(path.relative_to(venv.prefix))


def _settle() -> None:
    # What changed within a tick of being hashed is not remembered.
    time.sleep(0.15)


def test_a_fresh_venv_holds_the_recorded_bytes(venv: Venv) -> None:
    found = _deep(venv)
    assert (found.altered, found.unverified, found.notes) == ((), (), ())
    record = (venv.dist_info("thing") / "RECORD").read_text().splitlines()
    assert found.files == sum("sha256=" in row for row in record)
    assert found.without_hash == 1


def test_there_is_no_such_section_unless_it_is_asked_for(venv: Venv) -> None:
    fast = take_fingerprint(resolve(venv.prefix), _host(venv))
    assert fast.get(DeepFiles) is None
    assert [gap.section for gap in fast.unread if gap.section == "DeepFiles"] == []
    assert take_fingerprint(resolve(venv.prefix), _host(venv), DEEP).get(DeepFiles) is not None


@pytest.mark.parametrize("remembered", [False, True])
def test_an_edit_in_place_of_equal_size_is_found_and_where_the_cache_has_it(venv: Venv, *, remembered: bool) -> None:
    at = venv.site_packages / "thing/__init__.py"
    if remembered:
        _settle()
        assert _deep(venv).altered == ()
    edit_in_place(at, b"x = 2\n")
    (altered,) = _deep(venv).altered
    (twin,) = (venv.prefix.parent / ".uv-cache").glob("archive-v*/*/thing/__init__.py")
    assert altered == AlteredFile(
        path=_shown(venv, at),
        owner="thing",
        recorded=record_hash(b"x = 1\n"),
        found=record_hash(b"x = 2\n"),
        links=2,
        cached_at=str(twin),
    )
    assert _deep(venv).altered == (altered,), "remembered as altered"


def test_setting_the_times_back_does_not_hide_an_edit(venv: Venv) -> None:
    at = venv.site_packages / "thing/__init__.py"
    _settle()
    before = at.stat()
    assert _deep(venv).altered == ()
    edit_in_place(at, b"x = 2\n")
    os.utime(at, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [item.path for item in _deep(venv).altered] == [_shown(venv, at)]


def test_a_replaced_file_is_no_edit_of_the_cache(venv: Venv) -> None:
    at = venv.site_packages / "thing/__init__.py"
    rewrite(at, "x = 2\n")
    (altered,) = _deep(venv).altered
    assert (altered.links, altered.cached_at) == (1, "")


def test_a_file_linked_from_elsewhere_is_not_said_to_be_the_caches(venv: Venv, tmp_path: Path) -> None:
    at = venv.site_packages / "thing/__init__.py"
    rewrite(at, "x = 2\n")
    (tmp_path / "elsewhere.py").hardlink_to(at)
    (altered,) = _deep(venv).altered
    assert (altered.links, altered.cached_at) == (2, "")


def test_a_venv_of_symlinks_is_hashed_and_its_cache_recognised(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "thing", "1.0", files={"thing/__init__.py": "x = 1\n"})
    venv = make_venv(tmp_path / "venv")
    install(venv, wheel, link_mode="symlink")
    at = venv.site_packages / "thing/__init__.py"
    assert at.is_symlink()
    assert _deep(venv).unverified == ()
    edit_in_place(at, b"x = 2\n")
    (altered,) = _deep(venv).altered
    assert altered.cached_at == str(at.readlink())


def test_another_size_is_told_without_hashing_and_the_cache_recognised(venv: Venv) -> None:
    at = venv.site_packages / "thing/__init__.py"
    with at.open("ab") as file:
        file.write(b"y = 2\n")
    reading = read(venv.prefix, _host(venv))
    (fault,) = reading.fact(InstalledFiles).faults
    assert fault.kind == "resized"
    assert Path(fault.cached_at).read_text() == "x = 1\ny = 2\n"
    assert _deep(venv).altered == ()


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512", "sha3_256", "blake2b", "md5"])
def test_every_algorithm_of_hashlib_is_compared(venv: Venv, algorithm: str) -> None:
    at = venv.site_packages / "thing/__init__.py"
    digest = hashlib.new(algorithm, b"x = 1\n", usedforsecurity=False).digest()
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    _say_of(venv, "thing/__init__.py", f"{algorithm}={text}")
    first = _deep(venv)
    assert (first.altered, first.unverified) == ((), ())
    assert _deep(venv) == first
    rewrite(at, "x = 2\n")
    (altered,) = _deep(venv).altered
    assert altered.found.startswith(f"{algorithm}=")


@pytest.mark.parametrize("stated", ["sha256=tooshort", "whirlpool=AAAA", "shake_128=AAAA", "no equals sign"])
def test_a_hash_that_is_none_is_said(venv: Venv, stated: str) -> None:
    _say_of(venv, "thing/__init__.py", stated)
    path = _shown(venv, venv.site_packages / "thing/__init__.py")
    reason = "RECORD states no hash that a file can be compared with"
    assert _deep(venv).unverified == (Unverified(path=path, owner="thing", reason=reason),)


def test_rows_without_a_hash_and_bytecode_are_counted(venv: Venv) -> None:
    (venv.site_packages / "thing/__pycache__").mkdir()
    (venv.site_packages / "thing/__pycache__/__init__.cpython-311.pyc").write_bytes(b"abc")
    record = venv.dist_info("thing") / "RECORD"
    rewrite(record, record.read_text() + f"thing/__pycache__/__init__.cpython-311.pyc,{record_hash(b'other')},3\n")
    found = _deep(venv)
    assert (found.altered, found.without_hash, found.bytecode) == ((), 1, 1)


@pytest.mark.parametrize("kind", ["missing", "fifo", "folder"])
def test_what_is_no_file_is_the_fast_paths_to_tell(venv: Venv, kind: str) -> None:
    at = venv.site_packages / "thing/__init__.py"
    at.unlink()
    if kind == "fifo":
        os.mkfifo(at)
    elif kind == "folder":
        at.mkdir()
    reading = read(venv.prefix, _host(venv), DEEP)
    assert len(reading.fact(InstalledFiles).faults) == 1
    assert (reading.fact(DeepFiles).altered, reading.fact(DeepFiles).unverified) == ((), ())


def test_a_link_out_of_the_environment_is_not_followed(venv: Venv, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("x = 1\n")
    at = venv.site_packages / "thing/__init__.py"
    at.unlink()
    at.symlink_to(outside)
    reason = f"a link out of the environment, to {outside}; not followed"
    found = _deep(venv)
    assert found.unverified == (Unverified(path=_shown(venv, at), owner="thing", reason=reason),)
    assert found.altered == ()


def test_a_link_within_the_environment_is_followed(venv: Venv) -> None:
    at = venv.site_packages / "thing/__init__.py"
    at.rename(venv.prefix / "moved.py")
    at.symlink_to(venv.prefix / "moved.py")
    assert (_deep(venv).altered, _deep(venv).unverified) == ((), ())


@pytest.mark.parametrize(("there", "owner"), [(b"a" * 100, "one"), (b"b" * 100, "two"), (b"c" * 100, None)])
def test_whose_bytes_lie_on_a_path_of_equal_sizes(tmp_path: Path, there: bytes, owner: str | None) -> None:
    one = make_wheel(tmp_path / "wheels", "one", "1", files={"shared/x.h": b"a" * 100})
    two = make_wheel(tmp_path / "wheels", "two", "2", files={"shared/x.h": b"b" * 100})
    venv = make_venv(tmp_path / "venv", one)
    install(venv, two)
    rewrite(venv.site_packages / "shared/x.h", there)
    reading = read(venv.prefix, _host(venv), DEEP)
    (contested,) = reading.fact(InstalledFiles).contested
    assert (contested.on_disk, contested.told_by) == ((owner,) if owner else (), "hash")
    altered = [item.path for item in reading.fact(DeepFiles).altered]
    assert bool(altered) is (owner is None)


def test_size_alone_no_longer_tells_once_all_is_hashed(tmp_path: Path) -> None:
    one = make_wheel(tmp_path / "wheels", "one", "1", files={"shared/x.h": b"a" * 100})
    two = make_wheel(tmp_path / "wheels", "two", "2", files={"shared/x.h": b"b" * 200})
    venv = make_venv(tmp_path / "venv", one)
    install(venv, two)
    rewrite(venv.site_packages / "shared/x.h", b"z" * 100)
    (fast,) = read(venv.prefix, _host(venv)).fact(InstalledFiles).contested
    (deep,) = read(venv.prefix, _host(venv), DEEP).fact(InstalledFiles).contested
    assert (fast.on_disk, fast.told_by, deep.on_disk, deep.told_by) == (("one",), "size", (), "hash")


def test_shared_equal_bytes_that_are_altered_are_told_once(tmp_path: Path) -> None:
    wheels = [make_wheel(tmp_path / "wheels", name, "1", files={"shared/x.h": b"same"}) for name in ("one", "two")]
    venv = make_venv(tmp_path / "venv", wheels[0])
    install(venv, wheels[1])
    rewrite(venv.site_packages / "shared/x.h", b"else")
    assert [item.owner for item in _deep(venv).altered] == ["one"]


def test_progress_ends_at_the_total_and_is_told_by_the_calling_thread(venv: Venv) -> None:
    told: list[tuple[int, int, int]] = []
    options = replace(DEEP, progress=lambda done, total: told.append((done, total, threading.get_ident())))
    read(venv.prefix, _host(venv), options).fact(DeepFiles)
    done, total, _ = told[-1]
    assert done == total > 1 << 20
    assert {thread for _, _, thread in told} == {threading.get_ident()}


def test_an_interrupt_leaves_nothing_behind(venv: Venv) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read(venv.prefix, _host(venv), replace(DEEP, progress=interrupt)).fact(DeepFiles)
    # The rows of RECORDs may be remembered by then; no digest is.
    assert [path.parent.name for path in (venv.prefix.parent / "home").rglob("*.memo")] in ([], ["records"])


def test_a_file_that_changes_while_it_is_read_is_not_compared(venv: Venv) -> None:
    at = venv.site_packages / "thing/lib/libthing.so"
    reading = read(venv.prefix, _host(venv), DEEP)
    original = os.readv

    def touched(descriptor: int, buffers: list[memoryview]) -> int:
        if os.fstat(descriptor).st_size > 1 << 20:
            os.utime(at, ns=(0, time.time_ns()))
        return original(descriptor, buffers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "readv", touched)
        found = reading.fact(DeepFiles)
    assert [(item.path, item.reason) for item in found.unverified] == [
        (_shown(venv, at), "it changed while it was read")
    ]


def test_a_file_that_gets_a_new_link_while_it_is_read_is_compared(venv: Venv, tmp_path: Path) -> None:
    # uv links the same file into another venv: only the inode's time moves.
    at = venv.site_packages / "thing/lib/libthing.so"
    reading = read(venv.prefix, _host(venv), DEEP)
    original = os.readv
    links: list[Path] = []

    def linked(descriptor: int, buffers: list[memoryview]) -> int:
        if os.fstat(descriptor).st_size > 1 << 20 and not links:
            links.append(tmp_path / "link")
            links[0].hardlink_to(at)
        return original(descriptor, buffers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "readv", linked)
        found = reading.fact(DeepFiles)
    assert links
    assert (found.unverified, found.altered) == ((), ())


def test_a_file_that_is_linked_again_each_time_it_is_read_is_compared_and_not_remembered(
    venv: Venv, tmp_path: Path
) -> None:
    # Several venvs are built from one cache while it is read.
    at = venv.site_packages / "thing/lib/libthing.so"
    _settle()
    original, links = os.readv, iter(range(10_000))

    def linked(descriptor: int, buffers: list[memoryview]) -> int:
        if os.fstat(descriptor).st_size > 1 << 20:
            (tmp_path / f"link-{next(links)}").hardlink_to(at)
        return original(descriptor, buffers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "readv", linked)
        found = _deep(venv)
    assert (found.unverified, found.altered) == ((), ())
    edit_in_place(at, b"X", 100)
    assert [item.path for item in _deep(venv).altered] == [_shown(venv, at)]


def _say_of(venv: Venv, path: str, stated: str) -> None:
    record = venv.dist_info("thing") / "RECORD"
    rows = [row.rsplit(",", 2) for row in record.read_text().splitlines()]
    rewrite(record, "".join(f"{name},{stated if name == path else old},{size}\n" for name, old, size in rows))


def _memo(venv: Venv) -> Path:
    (memo,) = (venv.prefix.parent / "home/.cache/envdoctor/digests").glob("*.memo")
    return memo


def test_a_second_run_opens_no_file(venv: Venv) -> None:
    _settle()
    first = _deep(venv)
    for path in venv.site_packages.rglob("*"):
        if path.is_file() and path.name not in ("RECORD", "METADATA", "WHEEL", "INSTALLER"):
            path.chmod(0o644)
    assert first == _deep(venv), "chmod changes the inode's time: hashed again, to the same end"
    opened: list[str] = []
    original = os.open

    def noted(path: str, flags: int, *rest: int, **named: int) -> int:
        opened.append(str(path))
        return original(path, flags, *rest, **named)

    _settle()
    _deep(venv)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", noted)
        assert _deep(venv) == first
    assert [path for path in opened if path.endswith((".py", ".so"))] == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:0],
        lambda data: data[: len(data) // 2],
        lambda data: b"another kind of file\n" + data,
        lambda data: data.replace(b"sha256", b"sha512", 1),
        lambda data: data[:-40] + bytes(40),
        lambda data: data.replace(b"[[", b"[{", 1),
        lambda data: data[:20],
        lambda _: _resealed(b'[["sha256", -3, 7]]\n'),
        lambda data: _resealed(b'[["sha256", 43, 1000000000000]]\n' + data[-83:]),
        lambda _: _resealed(b'[["sha256", 99999999999999999999, 1]]\n'),
        lambda data: _resealed(b"[[[], 43, 1]]\n" + data[-83:]),
        lambda _: _resealed(b"[" * 100_000 + b"\n"),
        lambda _: _resealed(b'{"a": 1}\n'),
    ],
)
def test_a_damaged_memo_is_made_anew_and_said(venv: Venv, damage: Callable[[bytes], bytes]) -> None:
    _settle()
    first = _deep(venv)
    memo = _memo(venv)
    memo.write_bytes(damage(memo.read_bytes()))
    second = _deep(venv)
    assert [note.partition(": ")[0] for note in second.notes] == [
        "the digests of earlier runs were damaged and are made again"
    ]
    assert replace(second, notes=()) == first == _deep(venv)


def _resealed(body: bytes) -> bytes:
    return b"envdoctor digests 1\n%08x" % zlib.crc32(body) + body


def test_a_memo_that_others_can_write_is_not_believed(venv: Venv) -> None:
    _settle()
    first = _deep(venv)
    memo = _memo(venv)
    memo.chmod(0o622)
    told = f"the digests of earlier runs cannot be read: {memo}: another user may have written it"
    assert _deep(venv) == replace(first, notes=(told,))
    assert _deep(venv) == first


def test_a_lying_memo_accuses_no_file(venv: Venv) -> None:
    _settle()
    first = _deep(venv)
    memo = digest_memo.load(venv.prefix, _host(venv))
    digest_memo.save(memo, {"sha256": dict.fromkeys(memo.known["sha256"], b"A" * 43)})
    assert _deep(venv) == first


@pytest.mark.parametrize("cache", ["/proc/self/no/such/folder", "/dev/null"])
def test_a_memo_that_cannot_be_written_is_said_and_not_fatal(venv: Venv, cache: str) -> None:
    found = _deep(venv, _host(venv, XDG_CACHE_HOME=cache))
    assert (found.altered, found.unverified) == ((), ())
    assert [note.partition(": ")[0] for note in found.notes][-1] == "the digests cannot be remembered"


def test_xdg_cache_home_moves_the_memo_and_a_relative_one_is_ignored(venv: Venv, tmp_path: Path) -> None:
    _deep(venv, _host(venv, XDG_CACHE_HOME=str(tmp_path / "xdg")))
    assert len(list((tmp_path / "xdg/envdoctor/digests").glob("*.memo"))) == 1
    _deep(venv, _host(venv, XDG_CACHE_HOME="relative"))
    assert _memo(venv).is_file()


def test_the_memo_forgets_files_that_are_gone_and_environments_not_seen_for_long(venv: Venv) -> None:
    _settle()
    _deep(venv)
    size = _memo(venv).stat().st_size
    mine = _memo(venv)
    for number in range(70):
        old = mine.with_name(f"{number:032}.memo")
        old.write_bytes(b"old")
        os.utime(old, (number + 1, number + 1))
    (venv.site_packages / "thing/lib/libthing.so").unlink()
    (venv.site_packages / "thing/__init__.py").chmod(0o600)
    _settle()
    _deep(venv)
    kept = sorted(path.name for path in mine.parent.glob("*.memo") if path != mine)
    assert kept == [f"{number:032}.memo" for number in range(7, 70)]
    assert mine.stat().st_size < size


def test_two_at_once_leave_a_whole_memo(venv: Venv) -> None:
    _settle()
    first = _deep(venv)
    _memo(venv).unlink()
    found: list[DeepFiles] = []
    threads = [threading.Thread(target=lambda: found.append(_deep(venv))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [first] * 4
    assert _deep(venv) == first
    assert [path.name for path in _memo(venv).parent.iterdir()] == [_memo(venv).name]
