"""Which nodes are asked, by what Slurm says of them."""

import os
from pathlib import Path

import pytest

from envdoctor.fleet.slurm import down_among, nodes_of


def test_what_slurm_says_is_up_is_asked() -> None:
    up = {"a": "idle-", "b": "mix-", "c": "idle~", "d": "alloc!", "e": "mix^", "f": "plnd"}
    states = {**up, "g": "idle*", "h": "drng"}
    said = {name: f"Slurm says that it is {states[name]}" for name in "gh"}
    assert down_among((*states, "z"), states) == {**said, "z": "Slurm says that it is not one of its nodes"}


def test_a_node_of_the_own_allocation_is_asked_in_any_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (("sinfo", "n1 drng\\nn2 idle\\nn3 drng\\n"), ("scontrol", "n1\\nn2\\n")):
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '{said}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert nodes_of({"SLURM_JOB_NODELIST": "n[1-2]"}, "") == (("n1", "n2"), {})
    assert nodes_of({}, "") == (("n2",), dict.fromkeys(("n1", "n3"), "Slurm says that it is drng"))
