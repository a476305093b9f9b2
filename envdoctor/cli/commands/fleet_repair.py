"""`envdoctor fleet repair`: what is damaged on many nodes, the first one alone."""

from envdoctor.cli import fleet_options as options
from envdoctor.cli.fleet_change import FleetAsked, with_nodes
from envdoctor.cli.options import ProfileOption


@with_nodes
def repair(asked: FleetAsked, profile: ProfileOption = "", offline: options.FleetOfflineOption = False) -> int:
    """Repair the venv of each node that needs it: each plans, all plans are shown, one node is done, then the rest.

    Each node repairs a copy, verifies it and swaps it in, as `repair` does; it carries out the plan that was shown, or
    nothing. At the first node that fails, no other is begun; the tool travels and is removed again. A venv that several
    nodes share is changed once. `fleet rollback` goes back.
    Exit codes: 0 done or nothing to do, 2 bad input, 3 some could not plan or have errors that they had before and the
    others are done, 4 a node failed or the plan is not the one that was shown, 130 declined or interrupted.
    """
    return asked.carry_out("repair", profile=profile, offline=offline)
