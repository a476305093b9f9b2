"""A rollout whose engine or disk fails on the way loses nothing of what nodes have told."""

import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from envdoctor.app.fleet import FleetOptions
from envdoctor.app.rollout import _Change
from envdoctor.app.rollout_work import ChangeOptions, Work
from envdoctor.errors import ProbeError
from envdoctor.fleet.carried import Errand
from envdoctor.fleet.ray import visit_ray
from envdoctor.rollout.progress import Progress
from envdoctor.rollout.said import TaskSaid, VisitSaid, said_in
from envdoctor.rollout.view import FleetChange

# In place of an interpreter that has Ray: a driver that says some of it, and ends.
DRIVER = """\
#!/bin/sh
cat >/dev/null
{said}
echo "the head node is gone" >&2
exit 1
"""


class Nodes:
    """Nodes that do what they are told, until the engine fails."""

    names = ("n1", "n2", "n3")
    down: Mapping[str, str] = {}

    def __init__(self, visits: int) -> None:
        """Answer so many visits."""
        self._visits = visits
        self.wishes = FleetOptions(engine="ray", where="address", at_once=1)
        self.venvs = dict.fromkeys(self.names, "/venv")
        self.reached, self.scratch = ("ray", "address"), "/tmp"

    def paths(self, name: str) -> dict[str, str]:
        """Return none: nothing was given with a name in it."""
        del name
        return {}

    def visit(self, tasks: Mapping[str, Sequence[Any]], load: memoryview, here: Mapping[str, str]) -> list[VisitSaid]:
        """Do it, or fail as an engine does."""
        del load, here
        self._visits -= 1
        if self._visits < 0:
            raise ProbeError("the Ray cluster was not asked: it is gone", "look at it")
        return [
            VisitSaid(node=name, tasks=tuple(TaskSaid(code=0, digest="d", text="ok\n") for _ in given))
            for name, given in tasks.items()
        ]


class Noted:
    """A dialog that keeps what it is told."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)

    def waiting(self, text: str) -> Any:
        """Say nothing."""
        del text
        return nullcontext()

    stage = waiting


def changed(visits: int, progress: Progress, dialog: Noted) -> FleetChange:
    def run(how: ChangeOptions) -> FleetChange:
        work = Work(files={}, here={}, change={"do": "restore"}, check={"do": "check"}, told=())
        nodes: Any = Nodes(visits)
        one: Any = dialog
        data = _Change(nodes, work, memoryview(b""), progress, one).run("restore", how, {}).data
        assert isinstance(data, FleetChange)
        return data

    return run(ChangeOptions(plan=run(ChangeOptions(dry_run=True)).digest))


def test_an_engine_that_fails_on_the_way_leaves_what_was_told(tmp_path: Path) -> None:
    view = changed(2, Progress(path=tmp_path / "j"), Noted())
    assert [(node.name, node.step, node.problem) for node in view.nodes] == [
        ("n1", "done", ""),
        ("n2", "not begun", "the Ray cluster was not asked: it is gone"),
        ("n3", "not begun", ""),
    ]
    assert view.exit_code == 4
    assert Progress(path=tmp_path / "j").done() == {"n1": "done"}


def test_a_full_disk_loses_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(progress: Progress, node: str, state: str) -> None:
        if node:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Progress, "note", full)
    dialog = Noted()
    view = changed(4, Progress(path=tmp_path / "j"), dialog)
    assert [node.step for node in view.nodes] == ["done", "done", "done"]
    assert dialog.notes[0] == (
        f"warning: {tmp_path}/j cannot be written: No space left on device\n\n"
        "hint: `--resume` will plan again for nodes that are done"
    )


def driver(folder: Path, *said: str) -> str:
    path = folder / "python"
    path.write_text(DRIVER.format(said="\n".join(f"echo '{line}'" for line in said)))
    path.chmod(0o755)
    return str(path)


ERRANDS = [Errand(node=name, venv="", python="", mark="m", request="{}", version=(3, 12)) for name in ("n1", "n2")]
BEGUN = '{"node": "", "code": 0, "out": "", "err": ""}'


def test_a_driver_that_ends_on_the_way_loses_no_answer(tmp_path: Path) -> None:
    told = '{"node": "n1", "code": 0, "out": "", "err": ""}'
    first, second = visit_ray("a", driver(tmp_path, BEGUN, told), ERRANDS, b"", 30)
    assert (first.problem, first.begun) == ("", True)
    assert said_in(second, "m") == VisitSaid(node="n2", problem="Ray's driver ended: the head node is gone", begun=True)


def test_a_driver_that_never_began_asked_nobody(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="the Ray cluster at a was not asked: the head node is gone"):
        visit_ray("a", driver(tmp_path), ERRANDS, b"", 30)


def test_a_node_without_the_python_that_is_needed_was_not_changed(tmp_path: Path) -> None:
    none = '{"node": "n1", "code": 86, "out": "", "err": "python3 Python 3.9.2"}'
    said = visit_ray("a", driver(tmp_path, BEGUN, none), ERRANDS, b"", 30)[0]
    assert said.problem == (
        "no Python 3.12, for which what travels is compiled, is there (python3 Python 3.9.2); name one: `--python PATH`"
    )
    assert not said.begun
