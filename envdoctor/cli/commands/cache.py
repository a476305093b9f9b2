"""`envdoctor cache`: the compile cache as a named, guarded artifact. One module a subcommand."""

SUBCOMMANDS = {
    name: f"envdoctor.cli.commands.cache_{name}"
    for name in ("status", "save", "list", "restore", "warm", "gc", "undo", "import", "export")
}


def cache() -> None:
    """Inspect, save, move and warm the compile cache. What is removed is shown first and can be put back."""
