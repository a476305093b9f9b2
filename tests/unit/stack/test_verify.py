"""Whatever differs from the RECORDs or the lock is a fault, and names its owner."""

from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.errors import RestoreError
from envdoctor.facts.context import Options, Reading
from envdoctor.probes.loading.comparison import compare_with
from envdoctor.stack.verify import Discrepancy, Verified, refuse, verify
from envdoctor.standards.lock import LockedPackage
from tests.factories.make_reading import read
from tests.factories.make_venv import Venv, make_venv
from tests.factories.make_wheel import make_wheel

LOCKED = {
    name: LockedPackage(name=name, version="1.0", hashes=("a" * 64,)) for name in ("first-one", "second", "with-script")
}


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    wheels = [
        make_wheel(tmp_path / "w", "First_One", "1.0"),
        make_wheel(tmp_path / "w", "second", "1.0", files={"second/a.py": "a\n", "second/big.bin": b"x" * 300_000}),
        make_wheel(tmp_path / "w", "with-script", "1.0", scripts={"tool": "with_script:main"}),
    ]
    return make_venv(tmp_path / "venv", *wheels)


def _break(path: Path, content: bytes) -> None:
    # A new file: writing into the old one would change uv's cache, to which it is hardlinked.
    path.unlink()
    path.write_bytes(content)


def test_a_venv_as_uv_makes_it_is_clean(venv: Venv) -> None:
    events: list[tuple[int, int]] = []
    options = Options(deep=True, fresh=True, progress=lambda done, total: events.append((done, total)))
    verified = verify(_reading(venv, options), LOCKED)
    assert (verified.distributions, verified.faults) == (3, ())
    in_site = [path for path in venv.site_packages.rglob("*") if path.is_file() and "_virtualenv" not in path.name]
    assert verified.files == len(in_site) + len(["bin/tool"])
    assert all(done <= total for done, total in events)


def _reading(venv: Venv, options: Options | None = None) -> Reading:
    """Return a reading as a restore takes it of what it has just built."""
    made = read(venv.prefix, options=options or Options(deep=True, fresh=True))
    compare_with(made, {})
    return made


Change = Callable[[Venv], None]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            lambda v: _break(v.site_packages / "second/big.bin", b"y" * 300_000),
            "second: second/big.bin: does not have the recorded hash",
        ),
        (lambda v: (v.site_packages / "second/a.py").unlink(), "second: second/a.py: is missing"),
        (lambda v: (v.prefix / "bin/tool").unlink(), "with-script: ../../../bin/tool: is missing"),
        (
            lambda v: (v.site_packages / "second/extra.py").write_text(""),
            "second/extra.py: is in no RECORD",
        ),
        (
            lambda v: (v.site_packages / "second" / "dangling.py").symlink_to("nowhere"),
            "second/dangling.py: is in no RECORD",
        ),
    ],
    ids=["changed", "removed", "script removed", "added", "link added"],
)
def test_a_difference_on_disk_is_named(venv: Venv, change: Change, fault: str) -> None:
    change(venv)
    assert [str(found) for found in verify(_reading(venv), LOCKED).faults] == [fault]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("second/a.py,,2\n", "second: second/a.py: has no hash in RECORD"),
        ("second/a.py,md5=abc,2\n", "second: second/a.py: is recorded with md5, not sha256"),
        ("../../../../outside,sha256=abc,2\n", "second: ../../../../outside: leads out of the venv"),
        ("/etc/passwd,sha256=abc,2\n", "second: /etc/passwd: leads out of the venv"),
    ],
)
def test_a_record_that_proves_nothing_is_a_fault(venv: Venv, row: str, problem: str) -> None:
    record = venv.dist_info("second") / "RECORD"
    rows = [line for line in record.read_text().splitlines(keepends=True) if not line.startswith("second/a.py")]
    _break(record, "".join([*rows, row]).encode())
    faults = [str(found) for found in verify(_reading(venv), LOCKED, strict=False).faults]
    assert faults == [problem]


def test_a_record_that_is_missing_or_no_text_is_a_fault(venv: Venv) -> None:
    record = venv.dist_info("second") / "RECORD"
    _break(record, b"\xff\xfe")
    faults = [str(found) for found in verify(_reading(venv), LOCKED, strict=False).faults]
    assert faults == ["second: second-1.0.dist-info/RECORD: cannot be read (line 1: not a RECORD row)"]


def test_the_lock_is_compared_both_ways(venv: Venv) -> None:
    locked = {
        "first-one": LockedPackage(name="first-one", version="1.1", hashes=("a" * 64,)),
        "second": LockedPackage(name="second", version="1.0.0", hashes=("a" * 64,)),
        "third": LockedPackage(name="third", version="2", hashes=("a" * 64,)),
    }
    assert [str(found) for found in verify(_reading(venv), locked).faults] == [
        "first-one: is 1.0, the lock has 1.1",
        "third: 2 is not installed",
        "with-script: 1.0 is not in the lock",
    ]


def test_two_owners_with_different_bytes_are_never_clean(tmp_path: Path) -> None:
    wheels = [
        make_wheel(tmp_path / "w", name, "1.0", files={"shared/lib.so": name[:6], f"{name}.py": ""})
        for name in ("second", "with-script")
    ]
    venv = make_venv(tmp_path / "venv", *wheels)
    locked = {name: LOCKED[name] for name in ("second", "with-script")}
    (fault,) = verify(_reading(venv), locked).faults
    assert (fault.path, fault.problem) == ("shared/lib.so", "does not have the recorded hash")


def test_the_message_names_what_to_do(venv: Venv) -> None:
    for name in ("second/a.py", "second/big.bin"):
        (venv.site_packages / name).unlink()
    with pytest.raises(RestoreError) as caught:
        refuse(verify(_reading(venv), LOCKED), "the new venv")
    assert caught.value.message == (
        "the new venv is not what the lock says: second: second/a.py: is missing; second: second/big.bin: is missing"
    )
    assert caught.value.hint == "uv's cache may hold changed files: `uv cache clean second`, then run it again"


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        (Discrepancy(owner="a", path="", problem="1 is not installed"), "lock the stack again"),
        (Discrepancy(owner="", path="x.py", problem="is in no RECORD"), "lock the stack again"),
        (
            Discrepancy(owner="a", path="a.py", problem="is recorded with md5, not sha256"),
            "the wheel of a is at fault: lock another version or build of it",
        ),
    ],
)
def test_the_cache_is_blamed_for_what_it_can_cause_alone(fault: Discrepancy, hint: str) -> None:
    with pytest.raises(RestoreError) as caught:
        refuse(Verified(distributions=1, files=1, bytes=1, faults=(fault,)), "the new venv")
    assert (caught.value.message, caught.value.hint) == (f"the new venv is not what the lock says: {fault}", hint)
