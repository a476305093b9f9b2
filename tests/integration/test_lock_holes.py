"""A lock that leaves out what its packages require: said in the plan, as soon as uv's cache has their metadata."""

from pathlib import Path

import pytest

from tests.factories.make_stack import Stack, make_stack, profile_text
from tests.factories.make_wheel import make_wheel

WAIVER = '\n[[waivers]]\ncode = "ED406"\nsubject = "more-1"\nreason = "never imported"\n'
WARNED = (
    "warning: the lock does not have more-1: needy 1.0 requires more-1>=1; needy[fast] 1.0 requires more-1. "
    "The finished copy fails ED406 unless another package has its modules: lock it again, or say in a waiver of the "
    "profile why the stack does without it"
)


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Make a stack whose lock lacks `more-1`, which `needy` wants, as does the extra that `asking` asks for."""
    wheels = tmp_path / "wheels"
    lines = ["more-1>=1", 'more-1; extra == "fast"', 'other; python_version < "3"', 'unasked; extra == "slow"']
    needy = make_wheel(wheels, "needy", "1.0", requires=lines, metadata_lines=["Provides-Extra: fast"])
    asking = make_wheel(wheels, "asking", "1.0", requires=["needy[fast]"])
    make_wheel(wheels, "more-1", "1.5")
    return make_stack(tmp_path, needy, asking)


def _warnings(stack: Stack) -> list[str]:
    return [line for line in stack.restore("--dry-run").out.splitlines() if line.startswith("warning: ")]


def test_a_hole_is_named_in_the_plan_once_the_wheels_are_unpacked(stack: Stack) -> None:
    failed = stack.restore()
    assert failed.code == 4
    assert "the rebuilt venv fails these checks: ED406 more-1 is not installed" in failed.err
    assert not stack.venv.exists()
    assert _warnings(stack) == [WARNED]
    # It is not taken for whole by having been looked at.
    assert _warnings(stack) == [WARNED]


def test_a_waived_hole_and_a_whole_lock_are_silent(stack: Stack) -> None:
    (stack.folder / "profiles" / "small.toml").write_text(profile_text(more=WAIVER))
    assert stack.restore().code == 0
    assert _warnings(stack) == []
    (stack.folder / "profiles" / "small.toml").write_text(profile_text())
    assert _warnings(stack) == [WARNED]
    stack.lock(*stack.wheels, stack.folder / "wheels" / "more_1-1.5-py3-none-any.whl")
    assert (stack.restore("--force").code, _warnings(stack)) == (0, [])
    assert next((stack.folder / "home/.cache/envdoctor/whole-locks").glob("*.memo")).read_text().count("\n") == 0
    # Another lock is another question.
    stack.lock(*stack.wheels)
    assert _warnings(stack) == [WARNED]
