"""`envdoctor profile`: profiles made of what other tools wrote."""

SUBCOMMANDS = {"new": "envdoctor.cli.commands.profile_new"}


def profile() -> None:
    """Make a profile of a lock that another tool wrote; `envdoctor profiles` lists the ones there are."""
