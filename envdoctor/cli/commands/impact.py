"""`envdoctor impact`: what a change would do, told before anything is touched. One module a subcommand."""

SUBCOMMANDS = {name: f"envdoctor.cli.commands.impact_{name}" for name in ("remove", "install")}


def impact() -> None:
    """Show what removing or installing a package would do to a venv, without doing it."""
