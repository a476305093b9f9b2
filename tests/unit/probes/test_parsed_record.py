"""RECORDs that are parsed while a venv is built count where the finished ones have the same bytes, and nowhere else."""

import os
from pathlib import Path

import pytest

from envdoctor.facts.context import Options, Reading
from envdoctor.facts.target import resolve
from envdoctor.probes.registry import chosen
from envdoctor.probes.venv.parsed_record import RecordsAhead, parse
from envdoctor.probes.venv.records import RecordIndex, index
from tests.factories.make_reading import bare_host
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel

FILES = {"thing/a.py": b"a = 1\n", "thing/bin/tool": b"x", "thing/deep/\u00e9.txt": b"x"}


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    wheel = make_wheel(tmp_path / "w", "thing", "1", files=FILES, scripts={"thing": "thing:main"})
    return make_venv(tmp_path / "venv", wheel)


def _index(venv: Venv, ahead: RecordsAhead | None = None) -> RecordIndex:
    options = Options()
    reading = Reading(
        target=resolve(venv.prefix), host=bare_host(venv.prefix.parent), options=options, probes=chosen(options)
    )
    if ahead is not None:
        reading.shared[RecordsAhead] = ahead
    return index(reading)


def _looked(venv: Venv) -> RecordsAhead:
    ahead = RecordsAhead()
    ahead.look(str(venv.site_packages))
    ahead.look(str(venv.site_packages))
    return ahead


def test_the_index_is_the_one_that_is_made_in_the_end(venv: Venv) -> None:
    record = venv.dist_info("thing") / "RECORD"
    ahead = _looked(venv)
    assert ahead.get(record.parent.name, record.read_bytes()) == parse(record.read_bytes(), record.parent.name)
    assert _index(venv, ahead) == _index(venv)


def test_a_record_that_changed_after_it_was_read_is_read_again(venv: Venv) -> None:
    record = venv.dist_info("thing") / "RECORD"
    before, ahead = record.read_text(), _looked(venv)
    status = record.stat()
    record.write_text(before.replace("thing/a.py", "thing/b.py"))
    assert record.stat().st_size == status.st_size
    assert ahead.get(record.parent.name, record.read_bytes()) is None
    made = _index(venv, ahead)
    assert made == _index(venv)
    assert str(venv.site_packages / "thing/b.py") in made.owners


def test_rows_that_are_none_are_told_as_they_would_be_in_the_end(venv: Venv) -> None:
    record = venv.dist_info("thing") / "RECORD"
    record.write_text(record.read_text() + "no row\n")
    made = _index(venv, _looked(venv))
    assert made == _index(venv)
    assert len(made.malformed) == 1


def test_one_that_grows_is_left_alone_until_it_is_as_it_was(venv: Venv) -> None:
    record = venv.dist_info("thing") / "RECORD"
    whole, folder = record.read_bytes(), record.parent.name
    ahead = RecordsAhead()
    for end in (10, 20, len(whole)):
        record.write_bytes(whole[:end])
        ahead.look(str(venv.site_packages))
        assert ahead.get(folder, whole) is None
    ahead.look(str(venv.site_packages))
    assert ahead.get(folder, whole) == parse(whole, folder)


def test_no_site_folder_no_file_and_a_pipe_are_passed_over(venv: Venv) -> None:
    record = venv.dist_info("thing") / "RECORD"
    ahead = RecordsAhead()
    ahead.look(str(venv.site_packages / "not-there"))
    record.unlink()
    ahead.look(str(venv.site_packages))
    os.mkfifo(record)
    ahead.look(str(venv.site_packages))
    ahead.look(str(venv.site_packages))
    assert ahead.get(record.parent.name, b"") is None
