"""A lock that leaves out what its packages require: said in the plan, as soon as uv's cache has their metadata."""

import os
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envdoctor.analysis.unmet import unmet_among
from envdoctor.documents import profile_store
from envdoctor.probes.venv.distributions import distribution_in
from envdoctor.standards.need import linux_markers
from tests.factories.make_stack import ROOT, Stack, make_stack, profile_text
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


@pytest.mark.torch_stack
def test_each_entry_of_the_shipped_lock_left_out_is_named_where_another_one_requires_it() -> None:
    python = "{}.{}".format(*sys.version_info)
    markers = {**linux_markers(python, os.uname().machine), "extra": ""}
    locked = profile_store.find("cpu-smoke", ROOT).lock.select(markers)
    site = sysconfig.get_path("purelib")
    folders = sorted(path.name for path in Path(site).glob("*.dist-info"))
    found = [item for one in folders if (item := distribution_in(site, one)) and item.name in locked]
    # What the tests themselves need may be there in a newer version.
    items = {item.name: item for item in found if item.version == locked[item.name].version}
    assert len(items) > 0.8 * len(locked)
    # By packaging alone, which follows no extras: what somebody requires whatever was asked for.
    plain: dict[str, set[str]] = {name: set() for name in locked}
    for name in items:
        for line in distribution(name).requires or ():
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({**markers, "extra": ""}):
                plain.setdefault(canonicalize_name(wanted.name), set()).add(name)
    assert {item.name for item in unmet_among(items, markers)} <= locked.keys() - items.keys()
    for left_out in locked:
        rest = {name: item for name, item in items.items() if name != left_out}
        named = {item.requirer.name for item in unmet_among(rest, markers) if item.name == left_out}
        by_extra = {item.requirer.name for item in unmet_among(rest, markers) if item.name == left_out and item.extra}
        assert (left_out, named - by_extra) == (left_out, plain[left_out])
