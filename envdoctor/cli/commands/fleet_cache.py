"""`envdoctor fleet cache`: the compile cache on many nodes."""

SUBCOMMANDS = {"push": "envdoctor.cli.commands.fleet_cache_push"}


def cache() -> None:
    """Take a compile cache to the nodes whose keys it fits."""
