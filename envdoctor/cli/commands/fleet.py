"""`envdoctor fleet`: the nodes of a cluster, through the engine that runs it."""

_NAMES = ("check", "restore", "repair", "rollback", "cache")
SUBCOMMANDS = {name: f"envdoctor.cli.commands.fleet_{name}" for name in _NAMES}


def fleet() -> None:
    """Compare the stacks of many nodes, and restore or repair them: over ssh, Slurm, Ray, Kubernetes, or from files."""
