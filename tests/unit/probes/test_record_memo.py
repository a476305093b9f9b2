"""Rows of RECORDs remembered between runs: what changed is seen, what is damaged or foreign is not believed."""

import os
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.facts.context import Options
from envdoctor.facts.memo_file import memo_path
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.record_memo import load
from envdoctor.probes.venv.records import RecordIndex, index
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import Venv, install, make_venv, rewrite
from tests.factories.make_wheel import make_wheel


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    """Make a venv with a console script (`../../../bin/thing`), subfolders and two owners of one path."""
    thing = make_wheel(tmp_path / "w", "thing", "1", files={"thing/deep/a.txt": b"a"}, scripts={"thing": "thing:main"})
    other = make_wheel(tmp_path / "w", "other", "1", files={"thing/deep/a.txt": b"b", "lone.py": b""})
    made = make_venv(tmp_path / "venv", thing, other)
    # Younger than the clock's tick, nothing is remembered.
    time.sleep(0.15)
    return made


def _memo(venv: Venv) -> Path:
    return memo_path("records", venv.prefix, bare_host(venv.prefix.parent / "home"))


def _index(venv: Venv) -> RecordIndex:
    found = index(read(venv.prefix))
    return replace(found, rows={at: [tuple(row) for row in rows] for at, rows in found.rows.items()})


def test_a_second_reading_knows_every_record_and_says_the_same(venv: Venv) -> None:
    first, facts = _index(venv), read(venv.prefix).fact(InstalledFiles)
    written = _memo(venv).stat()
    assert [len(rows) > 2 for rows in first.rows.values()] == [True, True]
    assert len(first.contested) == 1
    memo = load(read(venv.prefix))
    records = [str(venv.dist_info(name) / "RECORD") for name in ("other", "thing")]
    assert [memo.knows(path, Path(path).stat()) for path in records] == [True, True]
    again = _index(venv)
    assert (again, again.owners, again.shared_objects) == (first, first.owners, first.shared_objects)
    assert read(venv.prefix).fact(InstalledFiles) == facts
    assert _memo(venv).stat() == written


def test_what_two_list_is_found_again_when_one_of_them_changes(venv: Venv) -> None:
    (path,) = _index(venv).contested
    record = venv.dist_info("other") / "RECORD"
    text = record.read_text()
    rewrite(record, text.replace("thing/deep/a.txt", "thing/deep/b.txt"))
    assert _index(venv).contested == {}
    rewrite(record, text)
    time.sleep(0.15)
    for _ in range(2):
        assert list(_index(venv).contested) == [path]
        assert [at for at, _ in _index(venv).contested[path]] == [0, 1]


def test_what_two_list_is_compared_again_when_a_distribution_comes_between_them(venv: Venv, tmp_path: Path) -> None:
    (path,) = _index(venv).contested
    between = make_wheel(tmp_path / "w", "second", "1", files={"thing/deep/a.txt": b"c"})
    install(venv, between)
    assert [at for at, _ in _index(venv).contested[path]] == [0, 1, 2]


def test_a_record_that_changed_is_read_again_whatever_its_times_say(venv: Venv) -> None:
    before = _index(venv)
    record = venv.dist_info("thing") / "RECORD"
    status, text = record.stat(), record.read_text()
    rewrite(record, text.replace("deep/a.txt", "deep/b.txt"))
    os.utime(record, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert record.stat().st_size == status.st_size
    after = _index(venv)
    assert {path.rpartition("/")[2] for path in after.owners} - {path.rpartition("/")[2] for path in before.owners} == {
        "b.txt"
    }
    assert after.contested == {}


def test_what_has_just_been_written_is_not_remembered(venv: Venv) -> None:
    record = venv.dist_info("thing") / "RECORD"
    rewrite(record, record.read_text())
    _index(venv)
    memo = load(read(venv.prefix))
    assert sorted(Path(path).parent.name for path in memo.known) == ["other-1.dist-info"]
    time.sleep(0.15)
    _index(venv)
    assert len(load(read(venv.prefix)).known) == 2


def test_a_folder_that_became_a_link_out_is_seen_behind_remembered_rows(venv: Venv, tmp_path: Path) -> None:
    _index(venv)
    deep = venv.site_packages / "thing/deep"
    deep.rename(tmp_path / "elsewhere")
    deep.symlink_to(tmp_path / "elsewhere")
    assert [path for _, path in _index(venv).outside] == ["thing/deep/a.txt", "thing/deep/a.txt"]


def test_rows_that_need_a_judgement_are_not_remembered(venv: Venv) -> None:
    record = venv.dist_info("thing") / "RECORD"
    rewrite(record, record.read_text() + '"thing/c,d.txt",,\nnot a row\n')
    time.sleep(0.15)
    first = _index(venv)
    assert len(first.malformed) == 1
    assert _index(venv) == first
    assert len(load(read(venv.prefix)).known) == 1


def test_the_gate_takes_it_and_writes_nothing(venv: Venv) -> None:
    gate = read(venv.prefix, options=Options(only_remembered=True))
    index(gate)
    assert not _memo(venv).exists()
    _index(venv)
    assert len(load(gate).known) == 2


def _forged(data: bytes) -> bytes:
    """Return a memo whose checksum fits and whose rows are not the RECORDs'."""
    start = data.index(b"\n") + 1
    body = data[start + 8 :].replace(b"deep/a.txt", b"deep/x.txt")
    return data[:start] + b"%08x" % zlib.crc32(body) + body


def _with_checksum(data: bytes, body: bytes) -> bytes:
    start = data.index(b"\n") + 1
    return data[:start] + b"%08x" % zlib.crc32(body) + body


def test_a_memo_that_others_can_write_is_not_believed(venv: Venv) -> None:
    true = _index(venv)
    memo = _memo(venv)
    rewrite(memo, _forged(memo.read_bytes()))
    memo.chmod(0o600)
    assert any(path.endswith("deep/x.txt") for path in _index(venv).owners)
    for mode in (0o620, 0o602, 0o666):
        memo.chmod(mode)
        assert _index(venv) == true
        memo.unlink()
        _index(venv)
        rewrite(memo, _forged(memo.read_bytes()))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:0],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data.replace(b"records 4", b"records 3"),
        lambda data: data.replace(b"a.txt", b"x.txt"),
        lambda data: _with_checksum(data, b"null\n"),
        lambda data: _with_checksum(data, b"[[],null]\nx"),
        lambda data: _with_checksum(data, b'[[["p",[],0,"",[],2,0,[1,1,1,0,0]]],null]\nx\nx\nx\n\n'),
        lambda data: _with_checksum(data, b'[[],[[[0,"p"]],{"x":[[1,["x","",1]]]}]]'),
        lambda data: _with_checksum(data, b'[[["p",[],0,"",[],0,0,[0,0]]],null]\n\n'),
        lambda data: _with_checksum(data, b'[[["p",[],0,"",[],0,0,[0,0,0,0,-4]]],null]\n\n\n\n\n'),
        lambda data: _with_checksum(data, b"[" * 100_000),
        lambda data: _with_checksum(data, data[data.index(b"\n") + 9 :].replace(b'", [', b'", [999, ')),
    ],
    ids=[
        "empty",
        "cut",
        "longer",
        "version",
        "flipped",
        "null",
        "lengths",
        "row",
        "owner",
        "columns",
        "negative",
        "deep",
        "odd-rows",
    ],
)
def test_a_damaged_memo_is_none_and_is_written_again(venv: Venv, damage: object) -> None:
    true = _index(venv)
    memo = _memo(venv)
    good = memo.read_bytes()
    memo.unlink()
    memo.write_bytes(damage(good))  # type: ignore[operator]
    memo.chmod(0o600)
    assert load(read(venv.prefix)).known == {}
    assert _index(venv) == true
    assert memo.read_bytes() == good
