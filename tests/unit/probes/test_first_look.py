"""The first look at all files: what another process sees is what this one would."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.doctor.examine import take_reading
from envdoctor.facts.context import Options
from envdoctor.facts.target import resolve
from envdoctor.probes.venv.first_look import first_look, looking_beside
from envdoctor.probes.venv.installed_files import InstalledFiles
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import Venv, make_venv, rewrite
from tests.factories.make_wheel import make_wheel

FILES = {
    "thing/a.py": b"a = 1\n",
    "thing/bin/tool": b"\x7fELF",
    "thing/data.bin": b"12345",
    "thing/deep/\u00e9.txt": b"x",
}


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return make_venv(
        tmp_path / "venv", make_wheel(tmp_path / "w", "thing", "1", files=FILES, scripts={"thing": "thing:main"})
    )


@pytest.fixture
def _by_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envdoctor.probes.venv.first_look._WORTH_A_PROCESS", 0)
    monkeypatch.setattr("envdoctor.facts.second_process._others", lambda: False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})


def _folder_in_place(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "whole": lambda _: None,
    "missing": lambda path: path.unlink(),
    "longer": lambda path: rewrite(path, path.read_bytes() + b"6"),
    "a folder": _folder_in_place,
    "closed": lambda path: path.chmod(0),
    "a link to nowhere": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.usefixtures("_by_a_child")
@pytest.mark.parametrize("file", ["data.bin", "bin/tool", "deep/\u00e9.txt"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_child_and_this_process_find_the_same_as_a_look_at_every_row(venv: Venv, damage: str, file: str) -> None:
    read(venv.prefix).fact(InstalledFiles)  # RECORDs are remembered as columns from here on
    DAMAGE[damage](venv.site_packages / "thing" / file)
    by_child = read(venv.prefix)
    with looking_beside(by_child):
        facts = by_child.fact(InstalledFiles)
    every_row = read(venv.prefix, options=Options(deep=True)).fact(InstalledFiles)
    assert facts == read(venv.prefix).fact(InstalledFiles) == every_row
    assert bool(facts.faults) is (damage != "whole" and not (damage == "closed" and os.geteuid() == 0))


@pytest.mark.usefixtures("_by_a_child")
def test_an_examination_asks_the_child_once_and_leaves_none(venv: Venv, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    fork = os.fork

    def counted() -> int:
        begun.append(fork())
        return begun[-1]

    monkeypatch.setattr("os.fork", counted)
    _, facts = take_reading(resolve(venv.prefix), bare_host(venv.prefix.parent / "home"), Options(ask_nvml=False))
    assert len(begun) == 1
    with pytest.raises(ChildProcessError):
        os.waitpid(begun[0], os.WNOHANG)
    found = facts.get(InstalledFiles)
    assert found is not None
    assert found == read(venv.prefix).fact(InstalledFiles)


def test_a_small_environment_is_not_worth_a_process(venv: Venv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fork", lambda: pytest.fail("a process for eight files"))
    reading = read(venv.prefix)
    with looking_beside(reading):
        ((at, looked),) = first_look(reading).items()
    assert (at, [row[0].rpartition("/")[2] for row in looked.odd]) == (0, ["thing", "tool"])
    sizes = sum(int(row[2]) for row in _rows(venv) if row[2] and "/bin/" not in row[0])
    assert looked.plain_bytes == sizes + (venv.dist_info("thing") / "RECORD").stat().st_size


def _rows(venv: Venv) -> list[list[str]]:
    return [line.split(",") for line in (venv.dist_info("thing") / "RECORD").read_text().splitlines()]


@pytest.mark.usefixtures("_by_a_child")
def test_a_site_folder_that_is_gone_is_the_same_fault(venv: Venv, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(venv.prefix)
    with looking_beside(reading):
        real = os.open

        def refused(path: object, *rest: int, **more: int) -> int:
            if str(path) == str(venv.site_packages):
                raise PermissionError(13, "refused", str(path))
            return real(path, *rest, **more)  # type: ignore[arg-type]

        monkeypatch.setattr("os.open", refused)
        assert first_look(reading)  # the child had looked before
    with pytest.raises(PermissionError, match="refused"):
        first_look(read(venv.prefix))
