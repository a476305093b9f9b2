"""From uv's resolution to a lock: hashes of the wheels that fit, markers only where they decide something."""

from typing import Any

import pytest

from envdoctor.errors import LockError
from envdoctor.standards import lock as lock_model
from envdoctor.wheels.locking import LockPlatform, attested, best_hashes, lock_of, text_of

ONE = (LockPlatform(python="3.12", machine="x86_64"),)
FOUR = tuple(LockPlatform(python=p, machine=m) for p in ("3.11", "3.12") for m in ("x86_64", "aarch64"))


def _entry(name: str, version: str, *wheels: str, marker: str = "") -> dict[str, Any]:
    listed = [
        {"url": f"http://host/{name}-{version}-{tag}.whl", "hashes": {"sha256": f"{number}" * 64}}
        for number, tag in enumerate(wheels, 1)
    ]
    return {"name": name, "version": version, "wheels": listed, **({"marker": marker} if marker else {})}


def _lines(entries: list[dict[str, Any]], platforms: tuple[LockPlatform, ...] = ONE) -> list[str]:
    lock = lock_of({"packages": entries}, platforms, "x", ())
    return [f"{p.name}=={p.version}|{p.marker}|{','.join(digest[0] for digest in p.hashes)}" for p in lock.packages]


@pytest.mark.parametrize(
    ("entry", "platforms", "line"),
    [
        (_entry("a", "1", "py3-none-any"), ONE, "a==1||1"),
        (_entry("a", "1", "cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64"), ONE, "a==1||2"),
        (
            _entry("a", "1", "cp311-cp311-manylinux_2_28_aarch64", "cp312-cp312-manylinux_2_28_x86_64"),
            FOUR,
            "a==1||1,2",
        ),
        (
            _entry("a", "1", "cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64", "cp312-cp312-win_amd64"),
            ONE,
            "a==1||1",
        ),
        (_entry("a", "1", "py3-none-any", marker="sys_platform == 'linux'"), FOUR, "a==1||1"),
        (
            _entry("a", "1", "py3-none-any", marker="python_version < '3.12'"),
            FOUR,
            "a==1|python_version < '3.12'|1",
        ),
        (
            _entry("a", "1", "cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64", marker="python_version < '3.12'"),
            FOUR,
            "a==1|python_version < '3.12'|1",
        ),
    ],
)
def test_what_is_kept(entry: dict[str, Any], platforms: tuple[LockPlatform, ...], line: str) -> None:
    assert _lines([entry], platforms) == [line]


def test_the_text_says_which_wheel_each_hash_is() -> None:
    entries = [
        _entry("a", "1", "py3-none-any"),
        _entry("b", "1", "cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64"),
    ]
    hashes = f"--hash=sha256:{'8' * 64} --hash=sha256:{'9' * 64}"
    known = attested(f"b==1 {hashes}\n    # {'8' * 12}: cp314-cp314-x\n", "x.in")
    assert text_of(lock_of({"packages": entries}, FOUR, "x", known), "").splitlines() == [
        "a==1 \\",
        f"    --hash=sha256:{'1' * 64}",
        f"    # {'1' * 12}: py3-none-any",
        "b==1 \\",
        f"    --hash=sha256:{'1' * 64} \\",
        f"    --hash=sha256:{'2' * 64} \\",
        f"    --hash=sha256:{'8' * 64} \\",
        f"    --hash=sha256:{'9' * 64}",
        f"    # {'1' * 12}: cp311-cp311-linux_x86_64",
        f"    # {'2' * 12}: cp312-cp312-linux_x86_64",
        f"    # {'8' * 12}: cp314-cp314-x",
    ]


def test_packages_of_other_systems_are_left_out() -> None:
    entries = [_entry("b", "1", "py3-none-any", marker="sys_platform == 'win32'"), _entry("a", "1", "py3-none-any")]
    assert _lines(entries) == ["a==1||1"]


def test_a_package_without_a_fitting_wheel_is_refused() -> None:
    with pytest.raises(LockError) as caught:
        _lines([_entry("a", "1", "cp312-cp312-win_amd64"), _entry("b", "1", "py3-none-any")])
    assert caught.value.message == "x: no wheel fits for a"


def test_attested_hashes_join_those_that_were_seen() -> None:
    text = "# torch==1 --hash=sha256:" + "0" * 64 + "\nplain==1\ntorch==1+cpu \\\n  --hash=sha256:" + "9" * 64 + "\n"
    lock = lock_of({"packages": [_entry("torch", "1+cpu", "py3-none-any")]}, ONE, "x", attested(text, "x.in"))
    assert lock.packages[0].hashes == ("1" * 64, "9" * 64)
    assert attested("plain==1\n", "x.in") == ()


def test_the_text_reads_back_as_the_same_lock() -> None:
    entries = [
        _entry("b", "2.0+cu128", "py3-none-any", "cp312-cp312-linux_x86_64"),
        _entry("a", "1", "py3-none-any", marker="python_version < '3.12'"),
    ]
    lock = lock_of({"packages": entries}, FOUR, "x", ())
    text = text_of(lock, "First line.\n\nSecond.")
    assert text == (
        "# First line.\n#\n# Second.\n"
        f"a==1 ; python_version < '3.12' \\\n    --hash=sha256:{'1' * 64}\n    # {'1' * 12}: py3-none-any\n"
        f"b==2.0+cu128 \\\n    --hash=sha256:{'1' * 64} \\\n    --hash=sha256:{'2' * 64}\n"
        f"    # {'1' * 12}: py3-none-any\n    # {'2' * 12}: cp312-cp312-linux_x86_64\n"
    )
    assert lock_model.parse(text, "x") == lock


def test_of_equal_tags_the_highest_build_is_kept() -> None:
    files = [
        ("torch-2.10.0-cp312-cp312-manylinux_2_28_x86_64.whl", "1"),
        ("torch-2.10.0-3-cp312-cp312-manylinux_2_28_x86_64.whl", "2"),
        ("torch-2.10.0-10-cp312-cp312-manylinux_2_17_x86_64.whl", "3"),
        ("torch-2.10.0-2-cp312-cp312-manylinux_2_28_x86_64.whl", "4"),
    ]
    assert best_hashes(files, [LockPlatform(python="3.12", machine="x86_64").tags()]) == ["2", "3"]
