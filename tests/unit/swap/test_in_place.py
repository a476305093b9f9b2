"""The exchange of a venv whose folder cannot be renamed, step by step."""

from pathlib import Path

import pytest

from envdoctor.errors import RestoreError
from envdoctor.swap.in_place import move_all, remove_empty


def make(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_text(name)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_everything_moves_but_the_store_and_again_is_no_matter(tmp_path: Path) -> None:
    source = make(tmp_path / "venv", "lib", ".envdoctor", "bin")
    (source / "python").symlink_to("nowhere")
    for _ in range(2):
        move_all(source, tmp_path / "above/backup")
        assert (names(source), names(tmp_path / "above/backup")) == ([".envdoctor"], ["bin", "lib", "python"])
    move_all(tmp_path / "gone", tmp_path / "unmade")
    assert not (tmp_path / "unmade").exists()


def test_a_name_in_the_way_is_never_written_over(tmp_path: Path) -> None:
    source, destination = make(tmp_path / "venv", "bin", "lib"), make(tmp_path / "backup")
    (destination / "lib").symlink_to("nowhere")
    with pytest.raises(RestoreError) as caught:
        move_all(source, destination)
    assert caught.value.message == (
        f"{destination / 'lib'} was put there while the venv was being exchanged, and is in the way"
    )
    assert (names(source), (destination / "lib").is_symlink()) == (["lib"], True)


def test_only_an_empty_folder_is_removed(tmp_path: Path) -> None:
    remove_empty(make(tmp_path / "empty"))
    remove_empty(tmp_path / "empty")
    with pytest.raises(OSError, match="not empty"):
        remove_empty(make(tmp_path / "full", "mine"))
    assert names(tmp_path) == ["full"]
