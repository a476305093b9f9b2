"""A PEP 751 lock read as ours, and what in one is refused."""

from typing import Any

import pytest

from envdoctor.errors import LockError
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.standards.pylock import is_pylock, parse

A, B = "a" * 64, "b" * 64


def _wheel(digest: str = A, tag: str = "py3-none-any") -> dict[str, Any]:
    return {"name": f"thing-1.0-{tag}.whl", "url": f"https://host/thing-1.0-{tag}.whl", "hashes": {"sha256": digest}}


def _document(**changes: Any) -> dict[str, Any]:
    package = {"name": "thing", "version": "1.0", "wheels": [_wheel()], **changes}
    return {"lock-version": "1.0", "created-by": "x", "packages": [package]}


def test_names_versions_markers_and_hashes_are_taken() -> None:
    wheels = [_wheel(), _wheel(B, "cp312-cp312-linux_x86_64"), _wheel()]
    document = _document(name="thing", marker="python_version < '3.13'", wheels=wheels)
    assert parse(document, "x") == Lock(
        name="x",
        packages=(
            LockedPackage(
                name="thing",
                version="1.0",
                hashes=(A, B),
                marker='python_version < "3.13"',
                tags=("py3-none-any", "cp312-cp312-linux_x86_64"),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "x: Missing required value in 'lock-version'"),
        (
            {"lock-version": "1.0", "created-by": "x", "packages": []},
            "x: the lock pins nothing",
        ),
        (
            _document(wheels=[{"name": "thing-1.0-py3-none-any.whl", "hashes": {"sha256": A}}]),
            "x: path or url must be provided in 'packages[0].wheels[0]'",
        ),
        (
            {**_document(), "packages": [{"name": "thing", "vcs": {"type": "git", "url": "u", "commit-id": "c"}}]},
            "x: thing is locked without a wheel",
        ),
        (
            _document(wheels=[{**_wheel(), "hashes": {"md5": "0" * 32}}]),
            "x: thing 1.0 has a wheel without a sha256",
        ),
        (
            _document(marker="'dev' in extras"),
            'x: thing is locked for an extra or a dependency group ("dev" in extras)',
        ),
    ],
    ids=["not a lock", "empty", "nowhere", "repository", "md5", "extra"],
)
def test_what_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(LockError) as caught:
        parse(document, "x")
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("name", "expected"),
    [("pylock.toml", True), ("pylock.x.toml", True), ("x.txt", False), ("lock.toml", False), ("pylock.x.txt", False)],
)
def test_file_names(name: str, *, expected: bool) -> None:
    assert is_pylock(name) is expected
