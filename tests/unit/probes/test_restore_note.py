"""What the note of a restore says of wheels, believed where the file name is one of that distribution."""

import json
from pathlib import Path

import pytest

from envdoctor.probes.venv.restore_note import AS_BUILT, NOTE, built_from

RENAMED = "twin_a-1.0+cu128-cp312-cp312-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize(
    ("wheel", "believed"),
    [
        (RENAMED, True),
        (RENAMED.replace("+", "%2B"), True),
        (RENAMED.replace("twin_a", "twin.A"), True),
        (RENAMED.replace("1.0+cu128", "1.0+cu128-1"), True),
        (RENAMED.replace("twin_a", "other"), False),
        (RENAMED.replace("1.0+cu128", "2.0"), False),
        (RENAMED.removesuffix(".whl"), False),
        ("twin_a-1.0+cu128.whl", False),
        ("twin_a-1.0+cu128---.whl", False),
        ("../..whl", False),
        ("", False),
    ],
)
def test_the_wheel_that_a_note_names(tmp_path: Path, wheel: str, *, believed: bool) -> None:
    told = {"version": "1.0+cu128", "tags": ["py3-none-any"], "wheel": wheel}
    (tmp_path / NOTE).write_text(json.dumps({AS_BUILT: {"twin-a": told}}))
    assert {name: one.wheel for name, one in built_from(tmp_path).items()} == ({"twin-a": wheel} if believed else {})
