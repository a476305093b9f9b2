"""Which rows of a RECORD are the distribution's own, and which its installer's."""

import pytest

from envdoctor.standards.recorded import generated_scripts, hash_field, lasting, without_interpreter

INFO = "thing-1.0.dist-info"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("thing/__init__.py", True),
        (f"{INFO}/METADATA", True),
        (f"{INFO}/entry_points.txt", True),
        (f"{INFO}/licenses/RECORD", True),
        ("other-1.0.dist-info/INSTALLER", True),
        ("../../../bin/thing", True),
        (f"{INFO}/RECORD", False),
        (f"{INFO}/RECORD.jws", False),
        (f"{INFO}/INSTALLER", False),
        (f"{INFO}/REQUESTED", False),
        (f"{INFO}/direct_url.json", False),
        (f"{INFO}/uv_cache.json", False),
        ("thing/__pycache__/__init__.cpython-312.pyc", False),
    ],
)
def test_what_lasts(path: str, *, expected: bool) -> None:
    assert lasting(path, INFO) is expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set()),
        ("[console_scripts]\na = m:f\nb-c=m:g [extra]\n", {"a", "b-c"}),
        ("[other]\nx = m:f\n[gui_scripts]\n# y = m:f\n\nz = m:f\n", {"z"}),
        ("[ console_scripts ]\na = m:f\n", set()),
        ("a = m:f\n[console_scripts]\nno equals sign\n", set()),
    ],
)
def test_generated_scripts(text: str, names: set[str]) -> None:
    assert generated_scripts(text) == names


BODY = b"import sys\nprint(sys.argv)\n"


@pytest.mark.parametrize(
    "head",
    [
        b"#!python\n",
        b"#!/srv/venv/bin/python\n",
        b"#!/srv/venv/bin/python3.12\n",
        b"#!/usr/bin/env python3\n",
        b"#!/srv/venv/bin/pythonw -E\n",
        b"#!/bin/sh\n'''exec' '/a path/bin/python' \"$0\" \"$@\"\n' '''\n",
        b"#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_every_way_to_name_a_python_is_one(head: bytes) -> None:
    assert without_interpreter(head + BODY) == b"#!python\n" + BODY


@pytest.mark.parametrize(
    "script", [b"", b"#!/bin/sh\necho python\n", b"#!/usr/bin/perl\n", b"import python\n", b"#!python"]
)
def test_other_scripts_stay_as_they_are(script: bytes) -> None:
    assert without_interpreter(script) == script


def test_the_hash_field_is_a_records() -> None:
    assert hash_field(b"\xff" * 32) == "sha256=" + "_" * 42 + "8"
