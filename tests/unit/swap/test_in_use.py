"""Which processes use a venv: real ones, started in every way a person starts them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from envdoctor.model.plan import VenvUser
from envdoctor.swap.in_use import users, users_of
from tests.factories.make_venv import make_venv

PROC = Path("/proc")
BASE = os.path.realpath(sys.executable)
NOBODY = -1
"""The tests start the users themselves: none is to be left out as theirs."""
WAIT = "print('up', flush=True); input()"


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A space and a line feed: both are what a path may hold, and /proc writes the second one in its own way.
    made = tmp_path_factory.mktemp("in use").resolve() / "ve\nnv"
    make_venv(made, cache=made.parent / "cache")
    made.with_name("link").symlink_to(made)
    return made


@contextmanager
def running(*command: str | Path, cwd: Path, **environ: str) -> Iterator[int]:
    """Start a program that prints a line once it is up; end it with the block."""
    with subprocess.Popen(
        command, cwd=cwd, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == "up\n"
            yield process.pid
        finally:
            process.kill()


def test_where_there_is_no_venv_no_process_is_looked_at(tmp_path: Path) -> None:
    assert users(tmp_path / "venv", tmp_path / "no-proc") == ()
    with running(sys.executable, "-c", WAIT, cwd=tmp_path) as pid:
        assert users(tmp_path / "venv", PROC, own=NOBODY) == ()
        assert [user.pid for user in users(tmp_path, PROC, own=NOBODY)] == [pid]


def _of(pid: int, venv: Path) -> list[tuple[str, int]]:
    return [(user.how, user.mapped) for user in users(venv, PROC, own=NOBODY) if user.pid == pid]


def test_every_way_to_start_its_interpreter_is_seen(venv: Path) -> None:
    beside = venv.parent
    path = f"{beside / 'nothing'}:{venv / 'bin'}:/usr/bin:/bin"
    moved = f"import os; os.chdir('/'); {WAIT}"
    script = venv / "bin" / "tool"
    script.write_text(f'#!/bin/sh\nexec "$(dirname "$0")/python" -c "{WAIT}"\n')
    script.chmod(0o755)
    cases: dict[str, tuple[tuple[str | Path, ...], Path, dict[str, str]]] = {
        "absolute": ((venv / "bin/python", "-c", WAIT), beside, {}),
        "relative": ((f"{venv.name}/bin/python", "-c", WAIT), beside, {}),
        "from inside": (("./python", "-c", WAIT), venv / "bin", {}),
        "moved since": ((f"{venv.name}/bin/python", "-c", moved), beside, {"PWD": str(beside)}),
        "activated": (("/usr/bin/env", "python", "-c", WAIT), beside, {"PATH": path, "VIRTUAL_ENV": str(venv)}),
        "through a link": (("link/bin/python3", "-c", WAIT), beside, {}),
        "a script": ((f"{venv.name}/bin/tool",), beside, {"PATH": path}),
    }
    for name, (command, cwd, environ) in cases.items():
        with running(*command, cwd=cwd, **environ) as pid:
            assert _of(pid, venv) == [("runs", 0)], name


def test_one_that_maps_a_file_is_seen_whatever_it_is_called(venv: Path) -> None:
    library = venv / "lib" / "lib x.so"
    library.write_bytes(b"x" * 4096)
    code = f"import mmap; f = open({str(library)!r}, 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); {WAIT}"
    with running(BASE, "-c", code, cwd=venv.parent) as pid:
        (user,) = (user for user in users(venv, PROC, own=NOBODY) if user.pid == pid)
        library.unlink()
        assert _of(pid, venv) == [("runs", 1)], "deleted since, and still mapped"
    command = f"{BASE} -c {code}"
    shown = command if len(command) <= 120 else f"{command[:117]}..."
    assert user == VenvUser(pid=pid, command=shown, how="runs", mapped=1)
    assert str(user).endswith("(maps 1 of its files)")


def test_one_that_works_inside_is_told_apart(venv: Path) -> None:
    with running(BASE, "-c", WAIT, cwd=venv / "lib") as pid:
        assert _of(pid, venv) == [("works inside", 0)]


def test_what_only_names_it_is_not_counted(venv: Path) -> None:
    beside = venv.parent
    # An activated shell, or a program that it starts, sees whichever venv is there.
    environ = {"VIRTUAL_ENV": str(venv), "PATH": f"{venv / 'bin'}:/usr/bin:/bin"}
    with (
        running(BASE, "-c", WAIT, str(venv / "bin/python"), cwd=beside, **environ) as named,
        running("sh", "-c", "echo up; read line", cwd=beside, **environ) as shell,
        running(BASE, "-c", WAIT, cwd=beside, PATH=str(venv.with_name("venv2") / "bin")) as other,
    ):
        found = {user.pid for user in users(venv, PROC, own=NOBODY)}
    assert not {named, shell, other} & found


def test_this_process_is_left_out(venv: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; "
        "from envdoctor.swap.in_use import users; "
        "print([user.how for user in users(Path(sys.argv[2]), Path('/proc'))])"
    )
    root = str(Path(__file__).parents[3])
    done = subprocess.run([venv / "bin/python", "-c", code, root, venv], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_what_this_process_started_is_left_out(venv: Path) -> None:
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WAIT!r}])"
    with running(venv / "bin/python", "-c", inner, cwd=venv.parent) as pid:
        child, grandchild = users(venv, PROC, own=NOBODY)
        assert child.pid == pid
        assert users(venv, PROC) == ()
        assert users(venv, PROC, own=grandchild.pid) == (child,)


def test_of_several_venvs_each_has_its_own(venv: Path, tmp_path: Path) -> None:
    with (
        running(venv / "bin/python", "-c", WAIT, cwd=venv.parent) as one,
        running(BASE, "-c", WAIT, cwd=tmp_path) as other,
    ):
        found = users_of([venv, tmp_path, tmp_path / "none"], PROC, own=NOBODY)
    assert {path: [user.pid for user in using] for path, using in found.items()} == {
        venv: [one],
        tmp_path: [other],
        tmp_path / "none": [],
    }
