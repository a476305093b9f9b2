"""Launchers: what a typed command would start, read from shebangs and PATH."""

import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.probes.venv.launchers import Launchers
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import Venv, make_venv, run_uv
from tests.factories.make_wheel import make_wheel


def _tool(root: Path) -> Path:
    text = "import sys\ndef main():\n    print(sys.executable)\n"
    return make_wheel(root / "wheels", "tool", "1", files={"tool.py": text}, scripts={"tool": "tool:main"})


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return make_venv(tmp_path / "venv", _tool(tmp_path))


def test_the_scripts_of_a_fresh_venv_are_its_own(venv: Venv) -> None:
    found = read(venv.prefix).fact(Launchers)
    assert (found.scripts, found.stray, found.on_path) == (1, (), False)
    done = subprocess.run([venv.prefix / "bin/tool"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{venv.python}\n"


def test_a_relocatable_venv_may_be_moved(tmp_path: Path) -> None:
    prefix = tmp_path / "venv"
    run_uv("venv", "-q", "--relocatable", "--python", Path(sys.executable).resolve(), prefix, cache=tmp_path / "c")
    run_uv("pip", "install", "-q", "--python", prefix / "bin/python", _tool(tmp_path), cache=tmp_path / "c")
    moved = prefix.rename(tmp_path / "moved")
    assert read(moved).fact(Launchers).stray == ()
    done = subprocess.run([moved / "bin/tool"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(moved))


def test_a_moved_venvs_scripts_are_stray_and_their_owner_is_known(venv: Venv, tmp_path: Path) -> None:
    moved = venv.prefix.rename(tmp_path / "moved")
    (stray,) = read(moved).fact(Launchers).stray
    assert (stray.name, stray.interpreter, stray.exists, stray.owner) == (
        "tool",
        f"{venv.prefix}/bin/python",
        False,
        "tool",
    )


def test_a_link_to_the_venv_is_the_venv(venv: Venv, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(venv.prefix)
    assert read(link).fact(Launchers).stray == ()


@pytest.mark.parametrize(
    ("text", "stray"),
    [
        ("#!/usr/bin/env python3\n", 0),
        ("#!/bin/sh\necho hello\n", 0),
        ("#!/usr/bin/perl\n", 0),
        ("no shebang", 0),
        ("#!/gone/python3.12 -I\n", 1),
        ("#!/gone/python3.12\t-I\n", 1),
        ("#!/bin/sh\t-e\n", 0),
        ("#!/bin/sh\n'''exec' '/a b/python3' \"$0\" \"$@\"\n' '''\n", 1),
        ("#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\n", 0),
        ("#!", 0),
        ("", 0),
    ],
)
def test_only_an_absolute_foreign_python_is_stray(venv: Venv, text: str, stray: int) -> None:
    (venv.prefix / "bin/other").write_text(text)
    assert len(read(venv.prefix).fact(Launchers).stray) == stray


def test_what_is_no_script_is_left_alone(venv: Venv) -> None:
    folder = venv.prefix / "bin"
    (folder / "binary").write_bytes(b"\x7fELF" + bytes(range(256)))
    (folder / "link").symlink_to("/gone/tool")
    subprocess.run(["mkfifo", folder / "fifo"], check=True)
    assert read(venv.prefix).fact(Launchers).stray == ()


def test_path_is_looked_at_only_where_it_leads_here(venv: Venv, tmp_path: Path) -> None:
    ours, home = f"{venv.prefix}/bin", tmp_path / "home"
    for path, named, on_path in (
        (f"{ours}:/usr/bin", "", True),
        (f"{ours}/:/usr/bin", str(venv.prefix), True),
        (f"/usr/bin:{ours}", str(tmp_path / "another"), False),
        ("/usr/bin", str(venv.prefix), False),
        ("", "", False),
    ):
        environ = {"PATH": path} | ({"VIRTUAL_ENV": named} if named else {})
        found = read(venv.prefix, bare_host(home, **environ)).fact(Launchers)
        assert found.on_path is on_path
        assert bool(found.commands) is on_path


def test_the_first_command_on_path_is_the_one(venv: Venv, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "torchrun").write_text("#!/opt/python3.12\n")
    (other / "torchrun").chmod(0o755)
    host = bare_host(tmp_path / "home", PATH=f"{other}:{venv.prefix}/bin")
    told = {launcher.command: launcher for launcher in read(venv.prefix, host).fact(Launchers).commands}
    assert (told["python"].inside, told["python"].path) == (True, str(venv.python))
    assert (told["torchrun"].inside, told["torchrun"].interpreter) == (False, "/opt/python3.12")


def test_a_shebang_with_a_zero_byte_starts_nothing_and_ends_nothing(venv: Venv) -> None:
    (venv.prefix / "bin/odd").write_bytes(b"#!/nowhere/x\0y/python\n")
    assert read(venv.prefix).fact(Launchers).stray == ()
