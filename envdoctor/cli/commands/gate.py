"""`envdoctor gate`: the launch gate for the environments that a train script runs in."""

SUBCOMMANDS = {name: f"envdoctor.cli.commands.gate_{name}" for name in ("add", "write")}


def gate() -> None:
    """Put the launch gate where a train script can import it: into a lock, or as one file beside the script."""
