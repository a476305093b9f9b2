"""`envdoctor fleet`: the nodes of a cluster, through the engine that runs it."""

SUBCOMMANDS = {name: f"envdoctor.cli.commands.fleet_{name}" for name in ("check", "restore", "repair", "cache")}


def fleet() -> None:
    """Compare the stacks of many nodes, and restore or repair them: over ssh, Slurm, Ray, Kubernetes, or from files."""
