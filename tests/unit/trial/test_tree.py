"""Scripts of a copy: those of the venv are started by the copy's Python, others are left; and so is all other text."""

import hashlib
import os
import sys
from pathlib import Path

import pytest

from envdoctor.standards.recorded import hash_field
from envdoctor.trial.relocation import relocate
from envdoctor.trial.renamed import moved, moved_pth, started_by, without_python
from envdoctor.trial.tree import VenvTree, differing

LONG = "/" + "x" * 130
RELOCATABLE = b"#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\nbody\n"


@pytest.mark.parametrize(
    ("script", "made"),
    [
        (b"#!/old/bin/python\nbody\n", b"#!/new/bin/python\nbody\n"),
        (b"#!/old/bin/python3.11\nbody\n", b"#!/new/bin/python3.11\nbody\n"),
        (b"#!/bin/sh\n'''exec' '/o ld/bin/python' \"$0\" \"$@\"\n' '''\nbody\n", b"#!/new/bin/python\nbody\n"),
        (b"#!/bin/sh\n'''exec' /old/bin/python3 \"$0\" \"$@\"\n' '''\nbody\n", b"#!/new/bin/python3\nbody\n"),
        (RELOCATABLE, RELOCATABLE),
        (b"#!/usr/bin/env python\nbody\n", b"#!/usr/bin/env python\nbody\n"),
        (b"#!/bin/bash\nbody\n", b"#!/bin/bash\nbody\n"),
        (b"\x7fELF\x00", b"\x7fELF\x00"),
        (b"#!/o\0ld/python\nbody\n", b"#!/o\0ld/python\nbody\n"),
    ],
)
def test_the_line_that_starts_a_script(script: bytes, made: bytes) -> None:
    assert started_by(script, "/new/bin", ("/old", "/o ld")) == made


def test_a_path_that_is_too_long_for_a_first_line() -> None:
    made = started_by(b"#!/old/bin/python\nbody\n", f"{LONG}/bin", ("/old",))
    assert made == f"#!/bin/sh\n'''exec' {LONG}/bin/python \"$0\" \"$@\"\n' '''\nbody\n".encode()
    assert started_by(made, "/new/bin", (LONG,)) == b"#!/new/bin/python\nbody\n"


def test_only_the_whole_name_of_a_folder_is_another() -> None:
    text = b"VIRTUAL_ENV=/a/venv\n/a/venv/bin:/a/venv2/bin:/a/venv-old /link/x /a/venv+1 /a/venv@x"
    wanted = b"VIRTUAL_ENV=/b\n/b/bin:/a/venv2/bin:/a/venv-old /b/x /a/venv+1 /a/venv@x"
    assert moved(text, ("/a/venv", "/link"), "/b") == wanted
    longer = b"/home/a/venv/bin '/a/venv' \"/a/venv\" cd /x/a/venv -I/a/venv/include file:///a/venv/x"
    wanted = b"/home/a/venv/bin '/b' \"/b\" cd /x/a/venv -I/b/include file:///b/x"
    assert moved(longer, ("/a/venv",), "/b") == wanted
    assert moved(b"/a/venv/bin", ("/a", "/a/venv"), "/a/venv/copy") == b"/a/venv/copy/bin", "each place once"


def test_a_line_of_a_pth_file_is_one_path_with_its_blanks() -> None:
    lines = b"/a/venv\n/a/venv/src\n/a/venv copy/src\nimport sys; sys.path.append('/a/venv/x')\n# /a/venv\n"
    wanted = b"/b\n/b/src\n/a/venv copy/src\nimport sys; sys.path.append('/b/x')\n# /b\n"
    assert moved_pth(lines, ("/a/venv",), "/b") == wanted


def _script(python: Path | str) -> bytes:
    return os.fsencode(f"#!{python}\nbody\n")


def test_a_python_of_another_place_goes_on_starting_its_script(tmp_path: Path) -> None:
    for name in ("good", "bad", "other"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin/python").symlink_to(sys.executable)
    (tmp_path / "link").symlink_to("bad")
    names = (f"{tmp_path}/good", f"{tmp_path}/bad")
    scripts = {name: _script(f"{tmp_path}/{name}/bin/python") for name in ("good", "bad", "link", "gone", "other")}
    new, plain = _script("/new/bin/python"), _script("python")
    assert {name: started_by(script, "/new/bin", names) for name, script in scripts.items()} == {
        "good": new,
        "bad": new,
        "link": new,
        "gone": new,
        "other": scripts["other"],
    }
    assert {name: without_python(script, names) for name, script in scripts.items()} == {
        "good": plain,
        "bad": plain,
        "link": plain,
        "gone": plain,
        "other": scripts["other"],
    }


def test_a_script_that_another_python_starts_is_a_difference(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    for venv in (good, bad):
        (venv / "bin").mkdir(parents=True)
        (venv / "bin/python").symlink_to(sys.executable)
        (venv / "bin/own").write_bytes(_script(venv / "bin/python"))
        (venv / "bin/copied").write_bytes(_script(good / "bin/python"))
    (good / "bin/mine").write_bytes(_script(os.path.realpath(sys.executable)))
    (bad / "bin/mine").write_bytes(_script(bad / "bin/python"))
    one, other = VenvTree(good), VenvTree(bad)
    one.kin, other.kin = other.names, one.names
    assert differing(one, other, lambda _: None) == ["bin/mine"]


def test_a_row_of_a_script_that_somebody_edited_still_does_not_fit(tmp_path: Path) -> None:
    venv, record = tmp_path / "venv", "lib/python3.11/site-packages/tool-1.0.dist-info/RECORD"
    (venv / record).parent.mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    script = _script(venv / "bin/python")
    (venv / "bin/whole").write_bytes(script)
    (venv / "bin/edited").write_bytes(script + b"# mine\n")

    def row(name: str, content: bytes) -> str:
        return f"../../../bin/{name},{hash_field(hashlib.sha256(content).digest())},{len(content)}\n"

    (venv / record).write_text(row("whole", script) + row("edited", script))
    relocate(venv, (str(venv),), Path("/new"))
    new = _script("/new/bin/python")
    assert (venv / "bin/edited").read_bytes() == new + b"# mine\n"
    assert (venv / record).read_text() == row("whole", new) + row("edited", script)
