"""What is said of a change on a fleet, whatever its nodes answer."""

import json
from pathlib import Path

import pytest

from envdoctor.app.fleet import FleetOptions
from envdoctor.app.fleet_visits import Fleet
from envdoctor.app.result import Result
from envdoctor.cli.leaving import leaving
from envdoctor.facts.host import Host
from envdoctor.fleet.gather import Said
from envdoctor.model.frozen import replace
from envdoctor.report.commands import fleet_change
from envdoctor.report.rendering import as_json
from envdoctor.report.style import Style
from envdoctor.rollout.progress import Progress
from envdoctor.rollout.said import TaskSaid, VisitSaid, as_here, said_in
from envdoctor.rollout.view import ChangedNode, FleetChange, carried_out, done_before, planned
from tests.unit.fleet.test_fleet import EVIL, RAW, sent

DONE = TaskSaid(code=0, status="restored", text="restored /v\nmore\n")


def driver(*more: str) -> TaskSaid:
    """Return a check that finds what no repair is for."""
    return TaskSaid(code=1, text="errors\n", errors=("ED401 driver", *more))


PLANNED = ChangedNode(name="n1", step="planned", digest="d1", plan="restore /srv/n1/.venv python3.11\n")


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        (b"", "it answered something else: nothing"),
        (sent("{"), "its answer has another form: Expecting property name"),
        (sent("[]"), "its answer has another form: expected a table"),
        (sent('{"tasks": [{"code": "0"}]}'), "its answer has another form: tasks[0].code: "),
        (sent("{}"), "its answer names no task"),
        (sent('{"problem": "this node is full"}'), "this node is full"),
    ],
)
def test_what_is_no_answer_is_named(out: bytes, problem: str) -> None:
    said = said_in(Said(name="n1", out=out), "m")
    assert said.tasks == ()
    assert said.problem.startswith(problem)


@pytest.mark.parametrize(
    ("kind", "said", "step", "problem"),
    [
        ("restore", (DONE, TaskSaid(code=0)), "done", ""),
        (
            "restore",
            (DONE, TaskSaid(code=1, text="2 errors\n")),
            "failed",
            "it was changed, and its check says: 2 errors",
        ),
        (
            "restore",
            (DONE, TaskSaid(code=1, text="error[ED1]: a\n  b\n\n1 error\n")),
            "failed",
            "it was changed, and its check says: 1 error\nerror[ED1]: a\n  b\n\n1 error",
        ),
        (
            "restore",
            (TaskSaid(code=-9, problem="it ended with -9", died=True),),
            "failed",
            "it ended with -9; whether it was changed is not known",
        ),
        (
            "restore",
            (DONE, TaskSaid(code=-9, problem="it ended with -9", died=True)),
            "failed",
            "it was changed, and its check says: it ended with -9",
        ),
        ("repair", (TaskSaid(code=0), DONE, TaskSaid(code=0)), "done", ""),
        ("repair", (driver(), DONE, TaskSaid(code=0)), "done", ""),
        (
            "repair",
            (driver("ED201 x"), DONE, driver()),
            "errors left",
            "its check finds what it found before: ED401 driver",
        ),
        ("repair", (driver(), DONE, TaskSaid(code=3, text="not read\n")), "errors left", "not read"),
        ("repair", (driver(), DONE, driver("ED2 new")), "failed", "it was changed, and its check says: errors"),
        (
            "repair",
            (replace(driver(), new_files=1), DONE, replace(driver(), new_files=1)),
            "failed",
            "it was changed, and its check says: errors",
        ),
        ("repair", (TaskSaid(code=0), DONE, driver()), "failed", "it was changed, and its check says: errors"),
        (
            "repair",
            (TaskSaid(code=130, problem="it was interrupted", died=True),),
            "failed",
            "it was interrupted; nothing was changed there",
        ),
        (
            "restore",
            (DONE, TaskSaid(code=3, text="not read\n")),
            "failed",
            "it was changed, and its check says: not read",
        ),
        ("restore", (DONE,), "failed", "it was changed, and did not check itself"),
        (
            "repair",
            (driver(), TaskSaid(code=4, problem="no room", hint="make some")),
            "failed",
            "no room; make some",
        ),
        ("cache push", (DONE, TaskSaid(code=3)), "done", "whether the next run will hit could not be determined"),
        ("cache push", (DONE, TaskSaid(code=1, text="cold\n")), "failed", "it was changed, and its check says: cold"),
    ],
)
def test_a_node_is_done_when_its_check_says_so(kind: str, said: tuple[TaskSaid, ...], step: str, problem: str) -> None:
    node = carried_out(kind, PLANNED, VisitSaid(node="n1", tasks=said))  # type: ignore[arg-type]
    assert (node.step, node.problem) == (step, problem)


def test_a_node_with_errors_left_has_them_in_a_later_run_too(tmp_path: Path) -> None:
    progress = Progress(path=tmp_path / "journal")
    progress.begin()
    for node, step in (("n1", "done"), ("n2", "errors left"), ("n3", "failed")):
        progress.note(node, step)
    nodes = tuple(done_before(*one) for one in progress.done().items())
    assert nodes == (
        ChangedNode(name="n1", step="done before"),
        ChangedNode(name="n2", step="errors left", problem="done before; its check found errors then"),
    )
    later = FleetChange(kind="repair", engine="hosts", nodes=nodes)
    assert (later.exit_code, later.planned) == (3, ())
    assert later.digest == replace(later, nodes=()).digest  # nothing of them is left to agree to


def test_a_node_that_died_may_have_either_stack() -> None:
    node = carried_out("restore", PLANNED, VisitSaid(node="n1", problem="ssh ended with SIGKILL"))
    assert (node.step, node.problem) == ("failed", "ssh ended with SIGKILL; whether it was changed is not known")


def test_the_way_back_is_named_where_a_venv_was_exchanged_or_may_have_been() -> None:
    begun = replace(PLANNED, venv="old")
    undone = TaskSaid(code=4, problem="no room", venv="old")
    for tasks, named in (
        ((TaskSaid(code=0, text="restored\n", venv="new"), TaskSaid(code=0)), True),
        ((TaskSaid(code=0, text="restored\n", venv="new"), driver()), True),
        ((TaskSaid(code=0, text="in place\n", venv="old"), TaskSaid(code=0)), False),
        ((undone,), False),
        ((replace(undone, venv=""),), True),
        ((), True),
    ):
        node = carried_out("restore", begun, VisitSaid(node="n1", tasks=tasks, problem="" if tasks else "it died"))
        view = FleetChange(kind="restore", engine="hosts", nodes=(node,), undo="envdoctor fleet rollback --hosts h")
        help_ = "help: the old venv of a changed node is kept; `envdoctor fleet rollback --hosts h` puts it back\n"
        assert fleet_change.text(view, Style()).endswith(f"\n\n{help_}") is named, tasks


def test_a_venv_of_before_with_errors_is_not_called_nothing_to_do() -> None:
    idle = TaskSaid(code=0, status="as before", text="it has the venv that was there before the restore\n")
    for task, step, problem in (
        (idle, "nothing to do", "it has the venv that was there before the restore"),
        (replace(idle, errors=("ED201 x",)), "errors left", "its check finds in the venv of before: ED201 x"),
        (replace(idle, problem="not read"), "errors left", "not read"),
    ):
        node = planned("rollback", VisitSaid(node="n1", tasks=(task,)), {})
        assert (node.step, node.problem) == (step, problem)


def test_a_visit_that_began_nothing_changed_nothing() -> None:
    for said in (
        Said(name="n1", out=b"", problem="no Python 3.11 or newer is there", begun=False),
        Said(name="n1", out=sent('{"problem": "no Python 3.11 or newer is there"}')),
    ):
        node = carried_out("restore", PLANNED, said_in(said, "m"))
        assert node.problem == "no Python 3.11 or newer is there; nothing was changed there"


def shown(name: str, plan: str, given: str) -> ChangedNode:
    """Return a node whose venv was given in these words."""
    said = VisitSaid(node=name, tasks=(TaskSaid(code=0, digest="d", text=plan),))
    return planned("restore", said, {given.replace("{node}", name): given})


def test_plans_that_differ_in_more_than_given_paths_are_not_one() -> None:
    nodes = tuple(
        shown(name, f"restore /srv/{name}/.venv: torch {name}.1\n", "/srv/{node}/.venv") for name in ("2", "3")
    )
    text = fleet_change.text(FleetChange(kind="restore", engine="hosts", nodes=nodes), Style())
    assert "on 2\n  restore /srv/2/.venv: torch 2.1\n\non 3\n  restore /srv/3/.venv: torch 3.1\n" in text


@pytest.mark.parametrize("venv", ["/srv/{node}/.venv", "/srv/{node}"])
def test_plans_that_differ_in_given_paths_are_one(venv: str) -> None:
    names = ("n1", "n2")
    fleet = Fleet(
        host=Host.current(),
        wishes=FleetOptions(engine="hosts"),
        names=names,
        venvs={},
        given=dict.fromkeys(names, venv),
        down={},
        version=None,
        scratch="/scratch",
    )
    folder, _, last = venv.rpartition("/")
    plan = f"restore {venv}\n  kept at {folder}/.envdoctor/{last}/generations/0001\n"
    nodes = []
    for name in names:
        task = TaskSaid(code=0, digest="d", text=plan.replace("{node}", name))
        nodes.append(planned("restore", VisitSaid(node=name, tasks=(task,)), fleet.paths(name)))
    assert {node.shared for node in nodes} == {plan}


def test_a_name_that_was_gone_on_the_node_is_the_one_here() -> None:
    folder = "/tmp/envdoctor-fleet-0-n1/files"
    task = TaskSaid(code=4, problem=f"{folder}/profiles/good.toml", hint=f"`restore -p {folder}/profiles/good.toml`")
    said = as_here(
        VisitSaid(node="n1", tasks=(task,)), r"/tmp/envdoctor-fleet-\d+-n1/files", {"profiles/good.toml": "good"}
    )
    assert said.tasks == (TaskSaid(code=4, problem="good", hint="`restore -p good`"),)


def test_a_plan_is_shown_once_for_all_nodes_that_have_it() -> None:
    nodes = [shown(name, f"restore /srv/{name}/.venv python3.11\n", "/srv/{node}/.venv") for name in ("n1", "n3")]
    odd = shown("n2", "restore /srv/n2/.venv python3.12\n", "/srv/{node}/.venv")
    gone = ChangedNode(name="n4", step="could not plan", problem="it did not answer within 9 s")
    view = FleetChange(kind="restore", engine="hosts", nodes=(nodes[0], odd, nodes[1], gone))
    assert fleet_change.text(view, Style()) == (
        "fleet restore, 4 nodes over hosts: 3 planned, 1 could not plan\n"
        "\n"
        "on n1, n3\n"
        "  restore /srv/{node}/.venv python3.11\n"
        "\n"
        "on n2\n"
        "  restore /srv/n2/.venv python3.12\n"
        "\n"
        "  n4  could not plan  it did not answer within 9 s\n"
        "\n"
        f"  digest  {view.digest}\n"
    )
    assert int(view.exit_code) == 3


def test_a_digest_is_of_every_node_and_of_its_plan() -> None:
    view = FleetChange(kind="restore", engine="hosts", nodes=(PLANNED,))
    others = [
        FleetChange(kind="repair", engine="hosts", nodes=(PLANNED,)),
        FleetChange(kind="restore", engine="hosts", nodes=(PLANNED, ChangedNode(name="n2", step="could not plan"))),
        view.with_nodes({"n1": ChangedNode(name="n1", step="planned", digest="d2")}),
    ]
    assert len({one.digest for one in (view, *others)}) == 4


@pytest.mark.parametrize("field", ["digest", "problem", "hint", "text", "notes", "status"])
@pytest.mark.parametrize("code", [0, 4])
def test_no_text_of_a_node_moves_a_terminal(field: str, code: int) -> None:
    told = {"code": code, "status": "planned", "text": "plan\n", field: [EVIL] if field == "notes" else EVIL}
    said = said_in(Said(name="n1", out=sent(json.dumps({"tasks": [told]}))), "m")
    first = planned("restore", said, {})
    checked = VisitSaid(node="n1", tasks=(*said.tasks, TaskSaid(code=0)) if not code else said.tasks)
    for node in (first, carried_out("restore", PLANNED, checked)):
        view = FleetChange(kind="restore", engine="ray", nodes=(node,))
        shown = fleet_change.text(view, Style()), leaving(as_json(Result(command="fleet restore", data=view)))
        for text in shown:
            # A line of a plan is set in, so that none begins at the margin.
            found = RAW.search(text)
            assert found is None, text[max(0, found.start() - 200) : found.end() + 50]
