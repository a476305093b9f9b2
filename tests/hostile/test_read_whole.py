"""Files that uv and pip would read whole, or wait at: nothing is started on them, and they are named."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

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
    assert (tried.code, "RECORD has 1.1 TB, and an installer would read all of it" in tried.err) == (4, True), tried
    repaired = run_envdoctor(
        "repair", "-y", "--offline", "-p", "small", "--venv", ".venv", folder=tmp_path, extra=extra
    )
    assert (repaired.code, record.stat().st_size < 1000) == (0, True), repaired.err


def test_a_wheel_in_a_wheelhouse_that_is_no_archive_is_not_hashed(tmp_path: Path) -> None:
    make_incident(tmp_path)
    extra = sources_of(tmp_path)
    fetched = ("fetch", "-p", "small", "--wheelhouse", "fetched")
    assert run_envdoctor(*fetched, folder=tmp_path, extra=extra).code == 0
    wheel = next((tmp_path / "fetched").glob("torch-*.whl"))
    wheel.unlink()
    _sparse(wheel)
    done = run_envdoctor(*fetched, folder=tmp_path, extra=extra)
    assert (done.code, "has sha256 none, which the lock does not allow" in done.err) == (4, True), done.err
