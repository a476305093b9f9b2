"""Finding and reading profiles: where they are looked for, and what is said of a wrong one."""

import os
from pathlib import Path

import pytest

from envdoctor.documents import profile_store
from envdoctor.errors import LockError, ProfileError

GOOD = """\
schema = 1
name = "mine"
summary = "a stack"

[python]
versions = ["3.12"]

[torch]
version = "2.13.0+cpu"

[lock]
file = "mine.txt"
"""
LOCK = "torch==2.13.0+cpu --hash=sha256:" + "a" * 64 + "\n"


def _project(folder: Path, text: str = GOOD, name: str = "mine") -> Path:
    (folder / "profiles").mkdir(parents=True)
    (folder / "lockfiles").mkdir()
    (folder / "lockfiles" / "mine.txt").write_text(LOCK)
    path = folder / "profiles" / f"{name}.toml"
    path.write_text(text)
    return path


def test_a_name_is_found_in_a_parent_folder(tmp_path: Path) -> None:
    path = _project(tmp_path)
    start = tmp_path / "a" / "b"
    start.mkdir(parents=True)
    found = profile_store.find("mine", start)
    assert (found.path, found.lock_path, found.profile.name) == (path, tmp_path / "lockfiles" / "mine.txt", "mine")
    assert [package.name for package in found.lock.packages] == ["torch"]


def test_the_nearer_of_two_with_one_name_is_meant(tmp_path: Path) -> None:
    _project(tmp_path)
    near = _project(tmp_path / "inner", GOOD.replace("a stack", "the nearer one"))
    assert profile_store.find("mine", tmp_path / "inner").profile.summary == "the nearer one"
    assert profile_store.names(tmp_path / "inner")["mine"] == near


def test_a_path_is_read_as_it_is_and_its_lock_may_lie_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    (tmp_path / "mine.txt").write_text(LOCK)
    assert profile_store.find("mine.toml", tmp_path).lock_path == tmp_path / "mine.txt"
    assert profile_store.find(str(path), Path("/")).path == path


def test_the_shipped_profiles_are_found_from_anywhere(tmp_path: Path) -> None:
    assert list(profile_store.names(tmp_path)) == ["21k-toks", "cpu-smoke", "pypi-cu128"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD.replace("schema = 1", "schema = 2"), "schema: expected 1, got 2"),
        (GOOD.replace('name = "mine"', 'name = "other"'), "name: `other` is not the file's name"),
        (GOOD + "[gpu]\ncount = -1\n", "gpu.count: -1 is not a number of GPUs"),
        (GOOD + '[driver]\nminimum = "new"\n', "driver.minimum: `new` is not a driver version"),
        (GOOD + '[[waivers]]\ncode = "ED403"\nreason = " "\n', "waivers[0].reason: empty"),
        (GOOD.replace("mine.txt", "../mine.txt"), "lock.file: `../mine.txt` is not a plain file name"),
        (GOOD.replace('versions = ["3.12"]', "versions = [3.12]"), "python.versions[0]: expected str, got 3.12"),
        (GOOD + "colour = 1\n", "lock.colour: unknown key; known here: digest, file, resolved, torch_backend"),
        (GOOD.replace('[torch]\nversion = "2.13.0+cpu"\n', ""), "torch: missing"),
        ("schema = ", "not TOML: Invalid value (at end of document)"),
    ],
)
def test_a_wrong_profile_is_refused_with_file_and_key(tmp_path: Path, text: str, problem: str) -> None:
    path = _project(tmp_path, text)
    with pytest.raises(ProfileError) as caught:
        profile_store.find("mine", tmp_path)
    assert caught.value.message == f"{path}: {problem}"


def test_an_unknown_name_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as caught:
        profile_store.find("nothing", tmp_path)
    assert caught.value.message == "no profile is called `nothing`"
    assert caught.value.hint == (
        f"known here: 21k-toks, cpu-smoke, pypi-cu128; looked in {tmp_path}/profiles and in those of the folders above "
        f"it, up to {tmp_path.parents[-1]}; a profile's path works anywhere"
    )
    (tmp_path / ".git").mkdir()
    with pytest.raises(ProfileError) as caught:
        profile_store.find("nothing", tmp_path)
    assert caught.value.hint == (
        f"known here: 21k-toks, cpu-smoke, pypi-cu128; looked in {tmp_path}/profiles; a profile's path works anywhere"
    )


def test_a_missing_lock_is_named_only_when_it_is_needed(tmp_path: Path) -> None:
    _project(tmp_path)
    (tmp_path / "lockfiles" / "mine.txt").unlink()
    found = profile_store.find("mine", tmp_path)
    with pytest.raises(LockError) as caught:
        _ = found.lock
    assert caught.value.message == f"{found.lock_path}: the lock of profile mine is missing"


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_profile_that_everybody_may_write_is_not_taken_by_its_name(tmp_path: Path, place: str) -> None:
    path = _project(tmp_path)
    (path if place == "file" else path.parent).chmod(0o777)
    where = "" if place == "file" else "is in a folder that "
    with pytest.raises(ProfileError) as refused:
        profile_store.find("mine", tmp_path)
    assert (refused.value.message, refused.value.hint) == (
        f"{path} {where}can be written by everybody, so it is not taken by its name",
        f"look at it; to use it all the same, name its path: `--profile {path}`",
    )
    assert "mine" not in profile_store.names(tmp_path)
    assert profile_store.find(str(path), tmp_path).name == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_profile_of_another_user_is_not_taken_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _project(tmp_path)
    os.chown(path, 12345, -1)
    with pytest.raises(ProfileError, match="belongs to user 12345, so it is not taken by its name"):
        profile_store.find("mine", tmp_path)
    monkeypatch.setenv("SUDO_UID", "12345")
    assert profile_store.find("mine", tmp_path).path == path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_lock_of_another_user_keeps_its_profile_from_being_taken_by_its_name(tmp_path: Path) -> None:
    path, shared = _project(tmp_path / "own"), tmp_path / "shared"
    (shared / "lockfiles").mkdir(parents=True)
    lock = shared / "lockfiles" / "mine.txt"
    lock.write_text(LOCK.replace("torch", "other"))
    (shared / "profiles").symlink_to(path.parent)
    for planted in (lock.parent, lock):
        os.chown(planted, 12345, -1)
    with pytest.raises(ProfileError) as refused:
        profile_store.find("mine", shared)
    asked = shared / "profiles" / "mine.toml"
    assert (refused.value.message, refused.value.hint) == (
        f"{lock}, the lock of profile mine, belongs to user 12345, so the profile is not taken by its name",
        f"look at the lock; to use it all the same, name the profile's path: `--profile {asked}`",
    )
    assert [one.name for one in profile_store.find(str(asked), shared).lock.packages] == ["other"]
    os.chown(shared / "profiles", 12345, -1, follow_symlinks=False)
    with pytest.raises(ProfileError) as refused:
        profile_store.find("mine", shared)
    assert refused.value.message == (
        f"{asked} is in a folder that is a link that belongs to user 12345, so it is not taken by its name"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_the_owner_of_this_package_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "installed" / "envdoctor"
    path = _project(package / "_data")
    for shipped in (package, path.parent, path):
        os.chown(shipped, 12345, -1)
    monkeypatch.setattr(profile_store, "_PACKAGE", package)
    assert profile_store.find("mine", tmp_path).path == path


def test_the_search_ends_at_the_top_of_the_repository_and_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _project(tmp_path)
    inside = tmp_path / "repository" / "src"
    inside.mkdir(parents=True)
    assert profile_store.find("mine", inside).name == "mine"
    (tmp_path / "repository" / ".git").mkdir()
    with pytest.raises(ProfileError, match="no profile is called `mine`"):
        profile_store.find("mine", inside)
    (tmp_path / "repository" / ".git").rmdir()
    monkeypatch.setenv("HOME", str(tmp_path / "repository"))
    with pytest.raises(ProfileError, match="no profile is called `mine`"):
        profile_store.find("mine", inside)


def test_where_a_profile_lies_is_told_unless_it_is_the_usual_place(tmp_path: Path) -> None:
    path = _project(tmp_path)
    (tmp_path / "a").mkdir()
    assert profile_store.find("mine", tmp_path / "a").found_above(tmp_path / "a") == str(path)
    assert profile_store.find("mine", tmp_path).found_above(tmp_path) == ""
    assert profile_store.find(str(path), tmp_path / "a").found_above(tmp_path / "a") == ""
    assert profile_store.find("cpu-smoke", tmp_path).found_above(tmp_path) == ""
