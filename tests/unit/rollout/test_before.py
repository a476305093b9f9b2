"""What nodes had before a change: noted before it, and found again for the nodes that a rollback names."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from envdoctor.app.fleet import FleetOptions
from envdoctor.app.fleet_visits import Fleet
from envdoctor.app.rollout import _Change
from envdoctor.app.rollout_work import ChangeOptions, Work, going_back
from envdoctor.errors import UsageError
from envdoctor.facts.host import Host
from envdoctor.model.frozen import replace
from envdoctor.rollout import before
from envdoctor.rollout.before import Before, NodeBefore
from envdoctor.rollout.progress import Progress, folder_of
from envdoctor.rollout.view import ChangedNode, FleetChange, Kind

FLEET = ("hosts", "")
RESTORED = Before(
    kind="restore",
    profile="good",
    begun="2026-12-01T08:00:00.000001+00:00",
    fleet=FLEET,
    nodes={"n1": NodeBefore(venv="/v", made="1"), "n2": NodeBefore(venv="/v", made="")},
)
LATER = replace(
    RESTORED,
    kind="repair",
    profile="",
    begun="2026-12-01T09:00:00.000001+00:00",
    nodes={"n2": NodeBefore(venv="/v", made="2")},
)


def fleet_of(root: Path, *names: str, venv: str = "/v", engine: str = "hosts") -> Fleet:
    host = replace(Host.current(), environ={"XDG_DATA_HOME": str(root)})
    folder_of(host).mkdir(parents=True, exist_ok=True)
    venvs = dict.fromkeys(names, venv)
    return Fleet(
        host=host,
        wishes=FleetOptions(engine=engine),  # type: ignore[arg-type]
        names=names,
        venvs=venvs,
        given=venvs,
        down={},
        version=None,
        scratch="/tmp",
    )


def back_work() -> Work:
    return Work(files={}, here={}, change={"do": "rollback"}, check={"do": "check"}, told=())


def back(fleet: Fleet) -> Work:
    return going_back(back_work(), fleet)


def write(root: Path, name: str, noted: Before, *, resumed: bool = False) -> Path:
    journal = folder_of(fleet_of(root).host) / f"{name}.jsonl"
    before.write(journal, noted, resumed=resumed)
    return journal.with_suffix(".before.json")


def test_the_last_change_of_any_of_the_nodes_is_what_is_gone_back_before(tmp_path: Path) -> None:
    path = write(tmp_path, "a", RESTORED)
    write(tmp_path, "b", LATER)
    write(tmp_path, "c", replace(LATER, begun="2026-12-01T10", fleet=("slurm", "")))
    assert path.stat().st_mode & 0o777 == 0o600
    both = back(fleet_of(tmp_path, "n1", "n2"))
    change = "the fleet repair that was begun at 2026-12-01 09:00:00 UTC"
    assert both.back == change
    assert both.planned("n2") == [{"do": "rollback", "before": "2", "change": change}]
    problem = f"{change} had nothing to do there"
    assert both.known == {"n1": ChangedNode(name="n1", step="nothing to do", problem=problem)}
    first = back(fleet_of(tmp_path, "n1"))
    assert first.back == "the fleet restore of good that was begun at 2026-12-01 08:00:00 UTC"


def test_a_node_without_a_venv_of_before_has_none_to_go_back_to(tmp_path: Path) -> None:
    write(tmp_path, "a", RESTORED)
    work = back(fleet_of(tmp_path, "n1", "n2"))
    assert list(work.of_node) == ["n1"]
    assert (work.known["n2"].step, work.known["n2"].problem) == (
        "could not plan",
        f"there was no venv before {work.back}, so there is none to go back to",
    )


@pytest.mark.parametrize(("venv", "engine"), [("/other", "hosts"), ("/v", "slurm")])
def test_another_venv_or_other_nodes_of_that_name_have_nothing_noted(tmp_path: Path, venv: str, engine: str) -> None:
    write(tmp_path, "a", RESTORED)
    with pytest.raises(UsageError) as caught:
        back(fleet_of(tmp_path, "n1", venv=venv, engine=engine))
    assert caught.value.message == "no fleet restore or repair of these nodes and venvs was begun here"


def test_after_a_resume_it_is_what_was_there_before_all_of_it(tmp_path: Path) -> None:
    write(tmp_path, "a", RESTORED)
    nodes = {"n1": NodeBefore(venv="/v", made="7"), "n3": NodeBefore(venv="/v", made="8")}
    write(tmp_path, "a", replace(RESTORED, begun="2026-12-02", nodes=nodes), resumed=True)
    work = back(fleet_of(tmp_path, "n1", "n3"))
    assert {name: told["before"] for name, told in work.of_node.items()} == {"n1": "1", "n3": "8"}
    assert work.back.endswith("2026-12-01 08:00:00 UTC")


def became(path: Path, venvs: dict[str, str]) -> None:
    before.became(path.with_name("a.jsonl"), venvs)


def noted(path: Path) -> dict[str, str]:
    nodes = json.loads(path.read_text())["nodes"]
    return {name: one["made"] for name, one in nodes.items()}


def now(**made: str) -> dict[str, NodeBefore]:
    return {name: NodeBefore(venv="/v", made=one) for name, one in made.items()}


@pytest.mark.parametrize("died", [False, True])
def test_a_node_that_shares_a_changed_venv_and_comes_with_a_resume_had_what_the_first_one_had(
    tmp_path: Path,
    died: bool,  # noqa: FBT001 - of parametrize
) -> None:
    path = write(tmp_path, "a", replace(RESTORED, nodes=now(n1="old")))
    became(path, {"n1": "" if died else "new"})
    write(
        tmp_path, "a", replace(RESTORED, nodes=now(n2="new", n3="own", **({"n1": "new"} if died else {}))), resumed=True
    )
    assert noted(path) == {"n1": "old", "n2": "old", "n3": "own"}


def test_the_same_change_once_more_keeps_what_was_noted_of_nodes_that_it_leaves_as_they_are(tmp_path: Path) -> None:
    write(tmp_path, "a", replace(RESTORED, nodes=now(n1="old", n2="old", n3="old")))
    path = write(tmp_path, "a", replace(RESTORED, nodes=now(n1="old", n2="old", n3="old")))
    became(path, {"n1": "new-1", "n2": "new-2", "n3": "new-3"})
    again = replace(RESTORED, begun="2026-12-01T10", nodes=now(n1="new-1", n2="new-2", n3="others"))
    write(tmp_path, "a", again)
    assert noted(path) == {"n1": "new-1", "n2": "new-2", "n3": "others"}
    became(path, {"n1": "new-1", "n2": "newest", "n3": "new"})
    assert noted(path) == {"n1": "old", "n2": "new-2", "n3": "others"}
    # And a third time.
    write(tmp_path, "a", replace(again, nodes=now(n1="new-1", n2="newest", n3="new")))
    became(path, {"n1": "new-1", "n2": "newest", "n3": "new"})
    assert noted(path) == {"n1": "old", "n2": "new-2", "n3": "others"}


def test_the_last_change_is_the_one_that_went_on_last(tmp_path: Path) -> None:
    write(tmp_path, "a", replace(RESTORED, nodes=now(n1="old")))
    write(tmp_path, "b", replace(LATER, nodes=now(n1="new")))
    assert back(fleet_of(tmp_path, "n1")).of_node["n1"]["before"] == "new"
    write(tmp_path, "a", replace(RESTORED, begun="2026-12-01T10", nodes=now(n1="newest")), resumed=True)
    work = back(fleet_of(tmp_path, "n1"))
    assert (work.of_node["n1"]["before"], work.back[-27:]) == ("old", "begun at 2026-12-01 08:00:00 UTC"[-27:])


class _Planned(_Change):
    """A change whose node has planned."""

    def _plan(self, kind: Kind, done: Mapping[str, str]) -> FleetChange:
        del done
        return FleetChange(kind=kind, engine="hosts", nodes=(ChangedNode(name="n1", step="planned", digest="d"),))


def test_where_it_cannot_be_noted_nothing_is_left_to_resume_of_an_earlier_run(tmp_path: Path) -> None:
    """Else a resume would find nodes done that an earlier run did, and what they had before that."""
    path = write(tmp_path, "a", RESTORED)
    progress = Progress(path=path.with_name("a.jsonl"))
    progress.begin()
    progress.note("n1", "done")
    path.write_text("{")
    fleet = fleet_of(tmp_path, "n1")
    change = _Planned(fleet, back_work(), memoryview(b""), progress, None)  # type: ignore[arg-type]
    view = change._plan("restore", {})
    with pytest.raises(UsageError) as caught:
        change.run("restore", ChangeOptions(plan=view.digest), {})
    assert caught.value.message.startswith(f"{path} is not read")
    with pytest.raises(UsageError) as caught:
        progress.done()
    assert caught.value.message == "nothing was stopped here that this could go on with"


def test_what_was_noted_and_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    tmp_path /= "it's a home"
    tmp_path.mkdir()
    write(tmp_path, "a", RESTORED)
    path = write(tmp_path, "b", LATER)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(UsageError) as caught:
        back(fleet_of(tmp_path, "n1"))
    assert caught.value.message.startswith(f"{path} is not read, which says what nodes had before a change: ")
    assert caught.value.hint == (
        f"`rm {shlex.quote(str(path))}` forgets that change; `rollback` on a node goes back there"
    )
