"""Constraints that contradict a lock are named; the others are not."""

from pathlib import Path

import pytest

from envdoctor.standards.lock import LockedPackage
from envdoctor.wheels.constraints import contradictions

MARKERS = {"python_version": "3.12", "sys_platform": "linux"}
LOCKED = {
    name: LockedPackage(name=name, version=version, hashes=("a" * 64,))
    for name, version in (("torch", "2.11.0+cu128"), ("numpy", "2.4.4"), ("rich", "15.0.0rc1"))
}


@pytest.mark.parametrize(
    "text",
    [
        "torch<=2.14.1\n",
        "torch==2.11.0\n",
        "Torch == 2.11.*  # any build\n",
        "numpy<2 ; sys_platform == 'win32'\n",
        "rich>=15.0.0rc1\n",
        "scipy<1\n# numpy<2\n\n--hash=x\n",
    ],
)
def test_a_constraint_the_lock_meets_is_not_mentioned(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.txt").write_text(text)
    assert contradictions(("c.txt",), LOCKED, MARKERS, tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "line", "name", "version"),
    [
        ("torch<2.11\n", "torch<2.11", "torch", "2.11.0+cu128"),
        ("torch==2.11.0+cu130\n", "torch==2.11.0+cu130", "torch", "2.11.0+cu128"),
        ("NumPy \\\n  <2\n", "NumPy    <2", "numpy", "2.4.4"),
        ("numpy<2 ; python_version >= '3.12'\n", "numpy<2 ; python_version >= '3.12'", "numpy", "2.4.4"),
    ],
)
def test_a_contradiction_is_named(tmp_path: Path, text: str, line: str, name: str, version: str) -> None:
    (tmp_path / "c.txt").write_text(text)
    assert contradictions(("c.txt",), LOCKED, MARKERS, tmp_path) == (
        f"the constraint `{line}` ({tmp_path / 'c.txt'}) contradicts the lock, which has {name} {version}; "
        "the lock is followed, the constraint is not",
    )


def test_nested_files_are_followed_from_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "c.txt").write_text("-c sub/d.txt\n")
    (tmp_path / "sub" / "d.txt").write_text("-r e.txt\n-c d.txt\n")
    (tmp_path / "sub" / "e.txt").write_text("torch<2\n")
    found = contradictions((f"file://{tmp_path}/c.txt",), LOCKED, MARKERS, Path("/"))
    assert {text.split(" contradicts")[0] for text in found} == {
        f"the constraint `torch<2` ({tmp_path / 'sub' / 'e.txt'})"
    }


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("what is this?\n")
    assert contradictions(("c.txt", "absent.txt", "http://host/c.txt"), LOCKED, MARKERS, tmp_path) == (
        f"{tmp_path / 'c.txt'}: `what is this?` could not be understood",
        f"the constraints in {tmp_path / 'absent.txt'} could not be read: "
        f"[Errno 2] No such file or directory: '{tmp_path / 'absent.txt'}'",
        "the constraints at http://host/c.txt were not read (only local files are)",
    )
