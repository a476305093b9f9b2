"""Which nodes share a venv, and when each is changed."""

from envdoctor.model.frozen import replace
from envdoctor.report.commands import fleet_change
from envdoctor.report.style import Style
from envdoctor.rollout.sharing import ready, with_shared, without_contrary
from envdoctor.rollout.view import ChangedNode, FleetChange


def shares(*nodes: tuple[str, str, str]) -> dict[str, str]:
    """Return node -> whose venv it shares; nodes: name, place, seen from."""
    return {one.name: one.shares for one in view(*nodes).nodes if one.shares}


def view(*nodes: tuple[str, str, str]) -> FleetChange:
    planned = tuple(
        ChangedNode(
            name=name, step="planned", digest=name, plan="restore\n", shared="restore\n", place=place, seen_from=at
        )
        for name, place, at in nodes
    )
    return with_shared(FleetChange(kind="restore", engine="slurm", nodes=planned))


def test_nodes_that_see_one_venv_through_a_network_share_it() -> None:
    assert shares(("n1", "7", "network"), ("n2", "8", "network"), ("n3", "7", "network")) == {"n3": "n1"}


def test_local_disks_with_one_image_are_not_shared() -> None:
    assert shares(("n1", "7", "boot-1 8"), ("n2", "7", "boot-2 8")) == {}


def test_two_names_of_one_machine_share_its_disk_and_not_its_other_one() -> None:
    assert shares(("a", "7", "boot 8"), ("b", "7", "boot 8"), ("c", "7", "boot 9")) == {"b": "a"}


def test_the_server_of_a_network_file_system_shares_with_its_clients() -> None:
    assert shares(("n1", "7", "network"), ("head", "7", "boot 8"), ("n2", "7", "network")) == {"head": "n1", "n2": "n1"}


def test_clients_do_not_share_with_two_servers() -> None:
    nodes = (("a", "7", "boot-a 8"), ("n1", "7", "network"), ("b", "7", "boot-b 8"), ("n2", "7", "network"))
    assert shares(*nodes) == {"n2": "n1"}


def test_what_is_not_known_is_not_shared() -> None:
    assert shares(("n1", "7", ""), ("n2", "7", ""), ("n3", "", "network"), ("n4", "", "network")) == {}


def test_a_venv_is_changed_by_one_and_the_others_come_after_it() -> None:
    nodes = list(
        view(("n1", "7", "network"), ("n2", "7", "network"), ("n3", "9", "boot 1"), ("n4", "7", "network")).planned
    )
    first = ready(nodes, 8)
    assert [one.name for one in first] == ["n1", "n3"]
    assert [one.name for one in ready([one for one in nodes if one not in first], 8)] == ["n2", "n4"]
    assert [one.name for one in ready(nodes, 1)] == ["n1"]


def test_two_notes_of_one_venv_that_differ_send_nobody_back() -> None:
    nodes = [
        ChangedNode(name=name, step="planned", digest=name, place=place, seen_from="network")
        for name, place in (("n1", "7"), ("n2", "7"), ("n3", "7"), ("n4", "9"))
    ]
    nodes[1] = replace(nodes[1], step="nothing to do", digest="")
    both = FleetChange(kind="rollback", engine="slurm", nodes=tuple(nodes))
    assert without_contrary(both, dict.fromkeys(("n1", "n2", "n3", "n4"), "old")) == both
    told = without_contrary(both, {"n1": "old", "n2": "new", "n3": "old", "n4": "new"})
    assert [one.step for one in told.nodes] == ["could not plan", "could not plan", "planned", "planned"]
    problem = (
        "n1 and n2 share one venv, and what is noted here as their venv of before is not the same; "
        "`envdoctor rollback` on n1"
    )
    assert [one.problem for one in told.nodes] == [problem, problem, "", ""]


def test_who_shares_is_shown() -> None:
    shown = view(("n1", "7", "network"), ("n2", "7", "network"), ("n3", "7", "network"))
    assert fleet_change.text(shown, Style()) == (
        "fleet restore, 3 nodes over slurm: 3 planned\n"
        "\n"
        "on n1, n2, n3\n"
        "  restore\n"
        "\n"
        "  n1, n2, n3 share one venv, which n1 alone changes\n"
        "\n"
        f"  digest  {shown.digest}\n"
    )
