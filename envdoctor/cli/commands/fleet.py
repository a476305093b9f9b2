"""`envdoctor fleet`: the nodes of a cluster, through the engine that runs it."""

SUBCOMMANDS = {"check": "envdoctor.cli.commands.fleet_check"}


def fleet() -> None:
    """Compare the stacks of many nodes: over ssh, Slurm, Ray, Kubernetes, or from files."""
