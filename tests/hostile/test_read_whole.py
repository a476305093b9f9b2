"""Files that uv and pip would read whole, or wait at: nothing is started on them, and they are named."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.errors import RestoreError
from envdoctor.model.plan import BaseInterpreter
from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels import preview, wheel_origins
from envdoctor.wheels.index_config import IndexAccess, IndexConfig
from envdoctor.wheels.preview import Preview
from envdoctor.wheels.read_whole import refuse_unbounded
from envdoctor.wheels.urls import Access
from envdoctor.wheels.uv import Uv, UvError, UvNotStartedError
from envdoctor.wheels.wheel_search import WheelSearch
from tests.factories.make_incident import make_incident, sources_of
from tests.factories.run_envdoctor import run_envdoctor
from tests.hostile.special_files import _sparse

NOT_STARTED = (
    "error: [TMP]/{path} {what}, and an installer would read all of it; nothing was started\n\n"
    "hint: look at what it is and move it away\n"
)
KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "sparse": (_sparse, "has 1.1 TB"),
    "pipe": (os.mkfifo, "is not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
}
TRY = ("try", "--discard", "--venv", ".venv", "--", "uv", "pip", "uninstall", "torch")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["pyproject.toml", "uv.toml", "RECORD"])
def test_try_starts_no_installer_on_it(tmp_path: Path, kind: str, name: str) -> None:
    incident = make_incident(tmp_path)
    folder = tmp_path
    if name == "RECORD":
        folder = next(incident.venv.site_packages.glob("nvidia_cudnn_cu12-*.dist-info"))
    (folder / name).unlink(missing_ok=True)
    make, what = KINDS[kind]
    make(folder / name)
    done = run_envdoctor(*TRY, folder=tmp_path, extra=sources_of(tmp_path))
    path = (folder / name).relative_to(tmp_path)
    assert (done.code, done.err.endswith(NOT_STARTED.format(path=path, what=what))) == (4, True), done.err
    assert sorted(path.name for path in tmp_path.glob(".envdoctor/.venv/*") if "try" in path.name) == []


def test_our_own_uv_is_not_started_on_it_and_a_repair_goes_without(tmp_path: Path) -> None:
    incident = make_incident(tmp_path)
    record = next(incident.venv.site_packages.glob("torch-*.dist-info")) / "RECORD"
    record.unlink()
    _sparse(record)
    extra = sources_of(tmp_path)
    tried = run_envdoctor("impact", "install", "nvidia-cudnn-cu13", "--venv", ".venv", folder=tmp_path, extra=extra)
    assert (tried.code, "RECORD has 1.1 TB, and an installer would read all of it" in tried.err) == (3, True), tried
    repaired = run_envdoctor(
        "repair", "-y", "--offline", "-p", "small", "--venv", ".venv", folder=tmp_path, extra=extra
    )
    assert (repaired.code, record.stat().st_size < 1000) == (0, True), repaired.err


OLD = ("old.egg-info", "old.egg-info/installed-files.txt", "old.egg-info/top_level.txt", "old.egg-info/requires.txt")
NEW = ("old.egg-info/SOURCES.txt", "new.dist-info/uv_cache.json")


@pytest.mark.parametrize("name", [*OLD, *NEW])
def test_whatever_an_installer_reads_of_a_distribution_is_looked_at(tmp_path: Path, name: str) -> None:
    (tmp_path / "pyvenv.cfg").touch()
    path = tmp_path / "lib/python3.11/site-packages" / name
    path.parent.mkdir(parents=True)
    path.touch()
    refuse_unbounded(venv=tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RestoreError, match=f"{re.escape(str(path))} is not a regular file"):
        refuse_unbounded(venv=tmp_path)


NAMED = (("--python", "V"), ("--python=V",), ("-p", "V"), ("-pV",), ("-p=V",))


@pytest.mark.parametrize("words", NAMED)
@pytest.mark.parametrize("what", ["V", "V/bin/python"])
@pytest.mark.parametrize("absolute", [True, False])
def test_uv_is_not_started_on_the_venv_that_its_words_name(
    tmp_path: Path, words: tuple[str, ...], what: str, *, absolute: bool
) -> None:
    (tmp_path / "V/bin").mkdir(parents=True)
    (tmp_path / "V/pyvenv.cfg").touch()
    pth = tmp_path / "V/lib/python3.11/site-packages/a.pth"
    pth.parent.mkdir(parents=True)
    os.mkfifo(pth)
    named = [word.replace("V", str(tmp_path / what) if absolute else what) for word in words]
    with pytest.raises(UvError) as raised:
        Uv(binary="/no/uv", environment={}, cwd=tmp_path).run(("pip", "list", *named))
    told = "is not a regular file, and an installer would read all of it; nothing was started"
    assert raised.value.message == f"{pth} {told}"


def test_a_search_for_wheels_ends_with_it_and_says_no_other_reason(tmp_path: Path) -> None:
    """Another source changes nothing: that a package is in none of them would not be the truth."""
    (tmp_path / "V").mkdir()
    (tmp_path / "V/pyvenv.cfg").touch()
    pth = tmp_path / "V/lib/python3.11/site-packages/a.pth"
    pth.parent.mkdir(parents=True)
    os.mkfifo(pth)
    uv = Uv(binary="/no/uv", environment={}, cwd=tmp_path)
    python = BaseInterpreter(
        path=str(tmp_path / "V/bin/python"), version="3.11.1", found_via="", markers={}, tag="cp311"
    )
    access = Access(environment={}, home=tmp_path)
    sources = IndexConfig(
        indexes=(), find_links=(), everywhere=IndexAccess(variables={}), access=access, cache=tmp_path / "cache"
    )
    search = WheelSearch(package=LockedPackage(name="thing", version="1", hashes=("0" * 64,)), order={})
    told = f"^{re.escape(str(pth))} is not a regular file, and an installer would read all of it; nothing was started$"
    with pytest.raises(UvNotStartedError, match=told):
        wheel_origins._through_uv(uv, [search], python, sources)
    with pytest.raises(UvNotStartedError, match=told):
        wheel_origins._from_backend(uv, [search.package], python, sources, "cpu", offline=False)


def test_a_file_that_comes_between_two_questions_ends_the_preview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first finds no index page in the cache; asked online, uv is not started."""
    answers = [UvError("", "", "No solution found: Because thing was not found in the cache and you require thing==1")]
    answers.append(UvNotStartedError("told", "", ""))

    def asked(*_: object, **__: object) -> Preview:
        if answers:
            raise answers.pop(0)
        return Preview()

    monkeypatch.setattr(preview, "_asked", asked)
    uv = Uv(binary="/no/uv", environment={}, cwd=tmp_path)
    python = BaseInterpreter(path="/usr/bin/python3", version="3.11.1", found_via="", markers={}, tag="cp311")
    package = LockedPackage(name="thing", version="1", hashes=("0" * 64,))
    with pytest.raises(UvNotStartedError, match="^told$"):
        preview.cached(uv, [package], python, IndexAccess(variables={}), offline=False)


def test_a_version_names_no_venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where envdoctor is started in a venv's folder, `--python 3.12` is not that venv's interpreter."""
    (tmp_path / "pyvenv.cfg").touch()
    pth = tmp_path / "lib/python3.11/site-packages/a.pth"
    pth.parent.mkdir(parents=True)
    os.mkfifo(pth)
    monkeypatch.chdir(tmp_path)
    uv = Uv(binary="/bin/true", environment={}, cwd=tmp_path)
    for words in (("--python", "3.12"), ("--python=3.12",), ("--python",)):
        assert uv.run(("venv", *words)).stdout == ""


def test_a_wheel_in_a_wheelhouse_that_is_no_archive_is_not_hashed(tmp_path: Path) -> None:
    make_incident(tmp_path)
    extra = sources_of(tmp_path)
    fetched = ("fetch", "-p", "small", "--wheelhouse", "fetched")
    assert run_envdoctor(*fetched, folder=tmp_path, extra=extra).code == 0
    wheel = next((tmp_path / "fetched").glob("torch-*.whl"))
    wheel.unlink()
    _sparse(wheel)
    done = run_envdoctor(*fetched, folder=tmp_path, extra=extra)
    told = f"{wheel.name} is not a readable zip archive of up to 16 GiB"
    assert (done.code, told in done.err) == (4, True), done.err
