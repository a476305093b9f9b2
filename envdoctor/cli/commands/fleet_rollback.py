"""`envdoctor fleet rollback`: the venvs that nodes had before a fleet restore or repair, the first one alone."""

from envdoctor.cli.fleet_change import FleetAsked, with_nodes


@with_nodes
def rollback(asked: FleetAsked) -> int:
    """Give each node the venv that it had before the last `fleet restore` or `fleet repair` of these nodes.

    What that was, this machine has noted before the first node was changed. A node that was not changed, or is back
    already, has nothing to do; one whose venv of before is neither in place nor kept is left as it is. Each node
    exchanges the two venvs in one step, as `rollback` does, and checks itself: errors in the old venv are shown.
    Exit codes: 0 done or nothing to do, 2 bad input, 3 some could not plan or have errors in the venv of before and the
    others are done, 4 a node failed or the plan is not the one that was shown, 130 declined or interrupted.
    """
    return asked.carry_out("rollback")
