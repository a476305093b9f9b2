"""Choosing a base interpreter: what runs is taken, what fails is passed over, the target venv is never run."""

import os
import sys
from pathlib import Path

import pytest

from envdoctor.errors import RestoreError, UsageError
from envdoctor.stack.interpreters import InterpreterRequest, choose
from tests.factories.make_venv import make_venv

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
BASE = os.path.realpath(sys.executable)
OTHER = "3.9"


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def _pretends(path: Path, version: str) -> Path:
    """Make an interpreter that runs the real one and changes the version in its answer."""
    return _script(path, f'exec {BASE} "$@" | sed \'s/{HERE}\\.[0-9]*/{version}/g; s/"{HERE}"/"{OTHER}"/g\'')


def test_the_running_interpreters_base_is_taken_when_it_fits(tmp_path: Path) -> None:
    found = choose(InterpreterRequest(versions=(HERE,)), {"PATH": ""}, tmp_path)
    assert os.path.realpath(found.path) == BASE
    assert found.found_via == "the interpreter envdoctor runs on"
    assert found.markers["python_version"] == HERE
    assert found.tag.startswith("cp3")


def test_a_shim_that_fails_is_passed_over(tmp_path: Path) -> None:
    _script(tmp_path / "shims" / f"python{OTHER}", "echo 'pyenv: command not found' >&2; exit 127")
    good = _pretends(tmp_path / ".pyenv/versions/3.9.18/bin" / f"python{OTHER}", "3.9.18")
    found = choose(InterpreterRequest(versions=(OTHER,)), {"PATH": f"{tmp_path}/shims:/usr/bin:/bin"}, tmp_path)
    assert (found.version, found.found_via) == ("3.9.18", "pyenv")
    assert good.exists()


def test_the_newest_patch_release_is_taken(tmp_path: Path) -> None:
    for version in ("3.9.2", "3.9.18", "3.9.7"):
        _pretends(tmp_path / "managed" / f"cpython-{version}-linux" / "bin" / f"python{OTHER}", version)
    wanted = InterpreterRequest(versions=(OTHER,), managed=lambda: tmp_path / "managed")
    found = choose(wanted, {"PATH": "/usr/bin:/bin"}, tmp_path)
    assert (found.version, found.found_via) == ("3.9.18", "uv's own interpreters")


def test_the_old_venvs_base_comes_first_and_its_own_python_is_not_run(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    trap = tmp_path / "was-run"
    for name in ("python", "python3", f"python{HERE}"):
        (venv.prefix / "bin" / name).unlink(missing_ok=True)
        _script(venv.prefix / "bin" / name, f"touch {trap}; exit 1")
    found = choose(InterpreterRequest(versions=(HERE,), target=venv.prefix), {"PATH": f"{venv.prefix}/bin"}, tmp_path)
    assert found.found_via == "the old venv's base"
    assert os.path.realpath(found.path) == BASE
    assert not trap.exists()


def test_a_named_interpreter_of_a_venv_stands_for_its_base(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    found = choose(InterpreterRequest(versions=(HERE,), named=str(venv.python)), {"PATH": ""}, tmp_path)
    assert os.path.realpath(found.path) == BASE


@pytest.mark.parametrize("named", ["py", "./py"])
def test_a_named_interpreter_is_relative_to_the_current_folder(tmp_path: Path, named: str) -> None:
    """Without a slash, PATH would be looked into for it."""
    (tmp_path / "py").symlink_to(BASE)
    found = choose(InterpreterRequest(versions=(HERE,), named=named, cwd=tmp_path), {"PATH": ""}, tmp_path)
    assert found.path == str(tmp_path / "py")


@pytest.mark.parametrize(
    ("versions", "named", "message"),
    [
        ((HERE,), "3.99", f"--python 3.99 is CPython 3.99; the profile's lock is for {HERE}"),
        (("3.98", "3.99"), BASE, f"--python {BASE} is CPython {{full}}; the profile's lock is for 3.98 or 3.99"),
        ((HERE,), "/no/such/python", "--python /no/such/python: there is no such file"),
        ((HERE,), "/bin/false", "--python /bin/false does not run (exit 1)"),
    ],
)
def test_a_named_interpreter_that_does_not_fit_is_refused(
    tmp_path: Path, versions: tuple[str, ...], named: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        choose(InterpreterRequest(versions=versions, named=named), {"PATH": ""}, tmp_path)
    assert caught.value.message == message.format(full=".".join(map(str, sys.version_info[:3])))


def test_when_none_is_found_every_attempt_is_told(tmp_path: Path) -> None:
    broken = _script(tmp_path / "bin" / "python3.99", "exit 3")
    with pytest.raises(RestoreError) as caught:
        choose(InterpreterRequest(versions=("3.99",)), {"PATH": str(broken.parent)}, tmp_path)
    base = getattr(sys, "_base_executable", sys.executable)
    full = ".".join(map(str, sys.version_info[:3]))
    assert caught.value.message == (f"no CPython 3.99 was found ({base} is {full}; {broken} does not run (exit 3))")
    assert caught.value.hint == "install one (`uv python install 3.99`), or name it: `--python PATH`"


def test_a_base_inside_the_venv_is_a_file_of_it_and_is_not_run(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    trap, hidden = tmp_path / "was-run", venv.prefix / "lib/hid/bin"
    for name in ("python3", f"python{HERE}"):
        _script(hidden / name, f'touch {trap}; exec {BASE} "$@"')
    (venv.prefix / "pyvenv.cfg").write_text(f"home = {hidden}\n")
    environ = {"PATH": f"{hidden}:{venv.prefix}/bin"}
    found = choose(InterpreterRequest(versions=(HERE,), target=venv.prefix), environ, tmp_path)
    assert (os.path.realpath(found.path), trap.exists()) == (BASE, False)
