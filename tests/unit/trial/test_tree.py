"""Scripts of a copy: whatever Python they name, the copy's starts them; and nothing else of a text is changed."""

import pytest

from envdoctor.trial.renamed import moved, moved_pth, started_by

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
    ],
)
def test_the_line_that_starts_a_script(script: bytes, made: bytes) -> None:
    assert started_by(script, "/new/bin") == made


def test_a_path_that_is_too_long_for_a_first_line() -> None:
    made = started_by(b"#!/old/bin/python\nbody\n", f"{LONG}/bin")
    assert made == f"#!/bin/sh\n'''exec' {LONG}/bin/python \"$0\" \"$@\"\n' '''\nbody\n".encode()
    assert started_by(made, "/new/bin") == b"#!/new/bin/python\nbody\n"


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
