"""Folders deeper than Python's calls may be, and than a path may be long."""

import os
import stat
import sys
from pathlib import Path

import pytest

from envdoctor.facts.folders import remove_folder, walk
from tests.factories.deep import deep

LEVELS = sys.getrecursionlimit() + 100


@pytest.mark.parametrize("name", ["d", "a-name-that-makes-the-path-longer-than-linux-takes"])
def test_a_deep_folder_is_removed(tmp_path: Path, name: str) -> None:
    remove_folder(deep(tmp_path / "top", LEVELS, name))
    assert list(tmp_path.iterdir()) == []


def test_what_lies_beside_stays_and_links_are_not_followed(tmp_path: Path) -> None:
    kept, top = tmp_path / "kept", tmp_path / "top"
    kept.mkdir()
    (kept / "file").write_text("mine")
    (kept / "file").chmod(0o400)
    (top / "closed/inner").mkdir(parents=True)
    (top / "closed/link").symlink_to(kept)
    (top / "closed/inner/name").hardlink_to(kept / "file")
    (top / "closed").chmod(0)
    remove_folder(top)
    assert sorted(tmp_path.iterdir()) == [kept]
    assert (kept / "file").read_text() == "mine"
    assert stat.S_IMODE((kept / "file").stat().st_mode) == 0o400
    (tmp_path / "link").symlink_to(kept)
    with pytest.raises(NotADirectoryError):
        remove_folder(tmp_path / "link")
    assert (kept / "file").exists()


def test_a_walk_is_that_of_python_and_knows_no_depth(tmp_path: Path) -> None:
    for path in ("a/b/c", "a/d", "e"):
        (tmp_path / "top" / path).mkdir(parents=True)
        (tmp_path / "top" / path / "file").write_text("")
    (tmp_path / "top/a/link").symlink_to("b")
    (tmp_path / "top/a/itself").symlink_to("itself")
    told = [
        sorted((at, sorted(inner), sorted(names)) for at, inner, names in of(tmp_path / "top"))
        for of in (walk, os.walk)
    ]
    assert told[0] == told[1]
    assert sum(1 for _ in walk(deep(tmp_path / "deep", LEVELS))) == LEVELS + 1
    remove_folder(tmp_path / "deep")  # pytest's own removal knows depth
