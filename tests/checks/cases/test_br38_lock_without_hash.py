"""The index has no sha256 for the wheel in the lock, or a wrong one (pytorch issue 181056, vision issue 9470)."""

from pathlib import Path

import pytest

from envdoctor.errors import LockError
from envdoctor.standards.lock import parse
from tests.factories.make_stack import make_stack
from tests.factories.make_venv import Venv, tree_state, uninstall
from tests.factories.make_wheel import sha256


def test_br38_a_pin_without_a_hash_is_refused_by_name() -> None:
    text = f"plain==3.0 \\\n    --hash=sha256:{'0' * 64}\ntorch==2.11.0+cu128\n"
    with pytest.raises(LockError) as told:
        parse(text, "small.txt")
    assert told.value.message == "small.txt: `torch==2.11.0+cu128` carries no usable sha256"
    assert told.value.hint == "lock it again, or add `--hash=sha256:…`"


def test_br38_a_wrong_hash_stops_the_restore_before_the_venv_is_touched(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    assert stack.restore().code == 0
    uninstall(Venv(prefix=stack.venv), "plain", cache=stack.cache)
    before = tree_state(stack.venv)
    stack.lock(*stack.wheels, hashes={"plain": "7" * 64})
    answer = stack.restore()
    assert answer.code == 4
    wheel = tmp_path / "wheels/plain-3.0-py3-none-any.whl"
    errors = [line for line in answer.err.splitlines() if line.startswith("error: ")]
    assert set(errors) == {
        f"error: plain 3.0 was not found: FOLDER/wheels has {wheel.name}, but with sha256 {sha256(wheel)}"
    }
    assert tree_state(stack.venv) == before
    # A folder of wheels with the lock's own hashes needs no index at all.
    stack.lock(*stack.wheels)
    assert stack.restore().code == 0
    assert stack.run("check", "venv", "--profile", "small").code == 0
