"""Venvs that share their files with an earlier one: what is read again, what is not, and what that can miss."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.doctor.examine import read_meanwhile, written_down
from envdoctor.facts.host import Host
from envdoctor.model.codec import encode
from envdoctor.probes.loading.comparison import RecordComparison, comparison
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.loading.loader_memo import LoaderMemo
from envdoctor.probes.venv import verified_contents
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.known_files import known_files
from envdoctor.stack.examination import reading_of_copy
from envdoctor.stack.plan import Extent
from envdoctor.stack.verify import Verified, verify
from envdoctor.stack.verify_copy import known_contents, verify_copy
from envdoctor.standards.lock import LockedPackage
from tests.factories.make_cuda import host_without_cache, make_library, make_linked_torch
from tests.factories.make_reading import bare_host
from tests.factories.make_venv import Venv, edit_in_place, make_venv, rewrite
from tests.factories.make_wheel import make_wheel, record_hash

GOOD, BAD = b"fix = 1\n", b"fix = 2\n"
MODULE = "thing/__init__.py"
OF_WHEEL = 2
"""Files of the wheel that are linked from uv's cache and have a hash: the module and METADATA, WHEEL beside it."""


class Shop:
    """Venvs of one wheel from one uv cache."""

    def __init__(self, folder: Path) -> None:
        """Make the wheel."""
        self.folder = folder
        self.wheel = make_wheel(folder / "wheels", "thing", "1.0", files={MODULE: GOOD, "thing/data.bin": b"x" * 5000})
        self.host = bare_host(folder / "home")
        self.made = 0

    def venv(self) -> Venv:
        """Make one more venv; what has been made is past the moment in which a change would leave no trace."""
        self.made += 1
        venv = make_venv(self.folder / f"venv-{self.made}", self.wheel)
        time.sleep(0.15)
        return venv

    def verify(self, venv: Venv, extent: Extent = "changed", host: Host | None = None) -> Verified:
        """Verify a venv as one that was just built."""
        locked = {"thing": LockedPackage(name="thing", version="1.0", hashes=("0" * 64,))}
        final = self.folder / "final"
        host = host or self.host
        return verify_copy(venv.prefix, final, locked, host, lambda _: None, known_contents(host, extent))[0]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def _module(venv: Venv) -> Path:
    return venv.site_packages / MODULE


def _hashed(venv: Venv) -> int:
    return (venv.dist_info("thing") / "RECORD").read_text().count("sha256=")


def test_what_an_earlier_restore_read_is_not_read_again(shop: Shop) -> None:
    first, second = shop.verify(shop.venv()), shop.verify(venv := shop.venv())
    assert (first.faults, first.remembered, second.faults) == ((), 0, ())
    # What uv writes into each venv anew is read: INSTALLER, REQUESTED and the like.
    shared = [path for path in venv.site_packages.rglob("*") if path.is_file() and path.stat().st_nlink > 1]
    assert second.remembered == len(shared) >= OF_WHEEL
    assert second.remembered_bytes == sum(path.stat().st_size for path in shared)
    assert second.remembered < _hashed(venv)


def test_all_reads_everything(shop: Shop) -> None:
    shop.verify(venv := shop.venv())
    assert shop.verify(venv, "all").remembered == 0


def test_a_change_in_place_is_read(shop: Shop) -> None:
    shop.verify(venv := shop.venv())
    edit_in_place(_module(venv), BAD)
    assert [str(fault) for fault in shop.verify(venv).faults] == [f"thing: {MODULE}: does not have the recorded hash"]


def test_a_change_with_its_time_set_back_is_seen_by_all_alone(shop: Shop) -> None:
    shop.verify(venv := shop.venv())
    status = _module(venv).stat()
    edit_in_place(_module(venv), BAD)
    os.utime(_module(venv), ns=(status.st_atime_ns, status.st_mtime_ns))
    assert shop.verify(venv).faults == ()
    assert [fault.path for fault in shop.verify(venv, "all").faults] == [MODULE]


def _whole_second(module: Path) -> None:
    os.utime(module, (1_700_000_000, 1_700_000_000))


def _in_the_future(module: Path) -> None:
    # As a file server whose clock is ahead would stamp it.
    ahead = time.time_ns() + 3_600_000_000_123
    os.utime(module, ns=(ahead, ahead))


def _just_now(module: Path) -> None:
    os.utime(module)


def _of_somebody_else(module: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(module, 12345, 12345)


@pytest.mark.parametrize("stamp", [_whole_second, _in_the_future, _just_now, _of_somebody_else])
def test_a_file_whose_time_proves_nothing_is_read_each_time(shop: Shop, stamp: Callable[[Path], None]) -> None:
    first = shop.venv()
    stamp(_module(first))
    shop.verify(first)
    known = verified_contents.load(shop.host)
    status = _module(first).stat()
    assert not any(int.from_bytes(key[8:16], "little") == status.st_ino for key in known)
    # Another file at the same inode, of the same size and the same time, is seen.
    edit_in_place(_module(first), BAD)
    os.utime(_module(first), ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [fault.path for fault in shop.verify(first).faults] == [MODULE]


def test_a_faulty_venv_leaves_nothing_behind(shop: Shop) -> None:
    venv = shop.venv()
    edit_in_place(_module(venv), BAD)
    assert shop.verify(venv).faults
    assert verified_contents.load(shop.host) == {}


def _memo(shop: Shop) -> Path:
    (memo,) = (shop.folder / "home/.cache/envdoctor/verified").iterdir()
    return memo


def _flip(memo: Path) -> None:
    data = bytearray(memo.read_bytes())
    data[-1] ^= 1
    memo.write_bytes(data)


def _cut(memo: Path) -> None:
    memo.write_bytes(memo.read_bytes()[:-7])


def _open_to_others(memo: Path) -> None:
    memo.chmod(0o666)


@pytest.mark.parametrize("spoil", [_flip, _cut, _open_to_others, lambda memo: memo.write_bytes(b"")])
def test_a_memo_that_cannot_be_trusted_says_nothing(shop: Shop, spoil: Callable[[Path], object]) -> None:
    shop.verify(venv := shop.venv())
    spoil(_memo(shop))
    assert shop.verify(venv).remembered == 0
    assert shop.verify(venv).remembered >= OF_WHEEL


def test_a_host_that_remembers_nothing_reads_everything(shop: Shop) -> None:
    shop.verify(venv := shop.venv(), host=replace(shop.host, remembers=False))
    assert not (shop.folder / "home/.cache").exists()
    assert shop.verify(venv).remembered == 0


def test_the_longest_known_gives_way(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.verify(shop.venv())
    before = verified_contents.load(shop.host)
    assert len(before) > OF_WHEEL
    monkeypatch.setattr(verified_contents, "_MAXIMUM_ENTRIES", 2)
    read = verified_contents.Read(key=next(iter(before)) + bytes(8), sha256=b"a" * 43, path=str(shop.wheel))
    verified_contents.save(before, [read], time.time_ns() + 10**9, shop.host)
    assert list(verified_contents.load(shop.host).items()) == [list(before.items())[-1], (read.key[:-8], b"a" * 43)]


def test_facts_of_a_second_copy_are_those_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels, host = tmp_path / "wheels", host_without_cache(tmp_path / "home")
    cudnn = make_library(wheels, "nvidia-cudnn-cu12", "9.10.2.21", "nvidia/cudnn/lib/libcudnn.so.9", exports=["a"])
    torch = make_linked_torch(wheels, "2.11.0", "12.8", needs={"libcudnn.so.9": ("a",), "libgone.so.1": ()})
    time.sleep(0.15)

    def facts(name: str, host: Host) -> dict[type, object]:
        """Return what is found in a copy, every path of it without its folder."""
        venv = make_venv(tmp_path / name, cudnn, torch)
        reading = reading_of_copy(venv.prefix, host, lambda _: None, tmp_path / "final", {}, fresh=True)
        written_down(reading)
        return {
            kind: repr(encode(section)).replace(str(venv.prefix), "VENV")
            for kind, section in reading.read.items()
            if kind.__name__ in {"Libraries", "Symbols", "PackageImports", "GeneratedCode"}
        }

    first = facts("one", host)
    loaded: list[bool] = []
    load = LoaderMemo.load

    def counted(self: LoaderMemo, kind: type) -> object:
        found = load(self, kind)
        loaded.append(found is not None)
        return found

    monkeypatch.setattr(LoaderMemo, "load", counted)
    second = facts("two", host)
    assert loaded == [True, True]
    assert second == first == facts("three", replace(host, remembers=False))
    assert "libgone.so.1" in str(first[Libraries])


def _record(change: Callable[[list[str]], list[str]]) -> Callable[[Venv], None]:
    """Return what changes the lines of RECORD."""

    def deed(venv: Venv) -> None:
        record = venv.dist_info("thing") / "RECORD"
        rewrite(record, "\n".join(change(record.read_text().splitlines())) + "\n")

    return deed


def _row(path: str, old: str, new: str) -> Callable[[Venv], None]:
    """Return what changes the row of a file."""
    return _record(lambda lines: [line.replace(old, new) if line.startswith(path) else line for line in lines])


def _link(venv: Venv) -> None:
    _module(venv).rename(venv.site_packages / "elsewhere.py")
    _module(venv).symlink_to("../elsewhere.py")


def _folder(venv: Venv) -> None:
    _module(venv).unlink()
    _module(venv).mkdir()


def _bytecode(venv: Venv) -> None:
    compiled = venv.site_packages / "thing/old.pyc"
    compiled.write_bytes(b"x")
    _record(lambda lines: [*lines, "thing/old.pyc,sha256=AAAA,1", "thing/gone.pyc,sha256=AAAA,1", "thing/bare.pyc,,"])(
        venv
    )


def _contested(venv: Venv) -> None:
    """Have another distribution record the same file, with another hash."""
    folder = venv.site_packages / "other-2.0.dist-info"
    folder.mkdir()
    texts = {"METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 2.0\n", "INSTALLER": "uv"}
    rows = [f"{MODULE},sha256={'A' * 43},{len(GOOD)}", f"{folder.name}/RECORD,,"]
    for name, text in texts.items():
        (folder / name).write_text(text)
        rows.append(f"{folder.name}/{name},{record_hash(text.encode())},{len(text)}")
    (folder / "RECORD").write_text("\n".join(rows) + "\n")


def _link_out(venv: Venv) -> None:
    package = _module(venv).parent
    package.rename(venv.prefix.parent / f"{venv.prefix.name}-package")
    package.symlink_to(venv.prefix.parent / f"{venv.prefix.name}-package")


def _closed(venv: Venv) -> None:
    _module(venv).parent.chmod(0o000)


def _program(venv: Venv) -> None:
    tool = venv.prefix / "bin/thing-tool"
    tool.write_bytes(b"#!/bin/sh\n")
    tool.chmod(0o755)
    row = f"../../../bin/thing-tool,{record_hash(tool.read_bytes())},{tool.stat().st_size}"
    inner = venv.site_packages / "thing/bin/tool"
    inner.parent.mkdir()
    inner.write_bytes(GOOD)
    _record(lambda lines: [*lines, row, f"thing/bin/tool,{record_hash(GOOD)},{len(GOOD)}"])(venv)


_STATES: dict[str, Callable[[Venv], None]] = {
    "as it was built": lambda _: None,
    "missing": lambda venv: _module(venv).unlink(),
    "changed at equal size": lambda venv: rewrite(_module(venv), BAD),
    "longer": lambda venv: rewrite(_module(venv), GOOD * 2),
    "not readable by all": lambda venv: _module(venv).chmod(0o600),
    "a link": _link,
    "a folder": _folder,
    "bytecode": _bytecode,
    "no size": _row(MODULE, f",{len(GOOD)}", ","),
    "another size": _row(MODULE, f",{len(GOOD)}", ",7"),
    "size with zeros": _row(MODULE, f",{len(GOOD)}", f",0{len(GOOD)}"),
    "no hash": _row(MODULE, "sha256=", ""),
    "padded hash": _row(MODULE, f",{len(GOOD)}", f"=,{len(GOOD)}"),
    "another algorithm": _row(MODULE, "sha256=", "sha512="),
    "another hash": _row(MODULE, "sha256=", "sha256=A"),
    "twice": _record(lambda lines: [*lines, next(line for line in lines if line.startswith(MODULE))]),
    "out of the venv": _record(lambda lines: [*lines, "../../../../../etc/hostname,sha256=AAAA,1"]),
    "a missing program": _record(lambda lines: [*lines, "thing/bin/tool,sha256=AAAA,1"]),
    "programs": _program,
    "a contested path": _contested,
    "a link that leads out": _link_out,
    "a closed folder": _closed,
}


@pytest.mark.parametrize("state", _STATES)
def test_counting_known_files_at_once_gives_what_a_look_at_each_gives(
    shop: Shop, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.verify(shop.venv())
    known = known_contents(shop.host, "changed")
    assert known
    venv = shop.venv()
    _STATES[state](venv)

    def look(*, by_others: bool = False) -> list[object]:
        reading = reading_of_copy(venv.prefix, shop.host, lambda _: None, shop.folder / "final", known, fresh=True)
        verified = verify(
            reading,
            {"thing": LockedPackage(name="thing", version="1.0", hashes=("0" * 64,))},
            threads_are_ours=by_others,
            meanwhile=read_meanwhile if by_others else None,
        )
        compared = comparison(reading)
        counts = [compared.files, compared.file_bytes, compared.read, compared.read_bytes, compared.without_hash]
        faults = [compared.bytecode, compared.altered, compared.unverified]
        return [verified, reading.fact(InstalledFiles), reading.fact(DeepFiles), *counts, *faults]

    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    at_once, by_others = look(), look(by_others=True)
    monkeypatch.setattr(RecordComparison, "by_contents_alone", False)
    assert at_once == look()
    assert by_others == at_once
    _module(venv).parent.chmod(0o755)


def test_a_known_file_is_counted_and_not_taken_apart(shop: Shop) -> None:
    shop.verify(shop.venv())
    venv = shop.venv()
    known = known_contents(shop.host, "changed")
    rows = [line.rsplit(",", 2) for line in (venv.dist_info("thing") / "RECORD").read_text().splitlines()]
    seen = known_files(str(venv.site_packages), rows, known)
    linked = [row for row in rows if (venv.site_packages / row[0]).stat().st_nlink > 1]
    assert [row for row in rows if row not in seen.others] == linked
    assert (seen.files, seen.total) == (len(linked), sum(int(row[2]) for row in linked))
    assert MODULE in [row[0] for row in linked]
    assert known_files(str(venv.site_packages), rows, {}).others == rows
