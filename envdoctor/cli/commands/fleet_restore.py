"""`envdoctor fleet restore`: a profile's stack on many nodes, the first one alone."""

from envdoctor.cli import fleet_options as options
from envdoctor.cli.fleet_change import FleetAsked, with_nodes
from envdoctor.cli.options import ProfileOption


@with_nodes
def restore(
    asked: FleetAsked,
    profile: ProfileOption = "",
    offline: options.FleetOfflineOption = False,
    wheelhouse: options.FleetWheelhouseOption = [],  # noqa: B006 - typer reads the default and never shares it
) -> int:
    """Restore a profile on many nodes: each plans, all plans are shown, one node is done and checked, then the rest.

    Each node builds the stack beside its venv, verifies it and swaps it in, as `restore` does; it carries out the plan
    that was shown, or nothing. At the first node that fails, no other is begun; the tool travels and is removed again.
    A venv that several nodes share is changed once. `fleet rollback` goes back.
    Exit codes: 0 done or nothing to do, 2 bad input, 3 some could not plan and the others are done, 4 a node failed or
    the plan is not the one that was shown, 130 declined or interrupted.
    """
    return asked.carry_out("restore", profile=profile, offline=offline, wheelhouses=tuple(wheelhouse))
