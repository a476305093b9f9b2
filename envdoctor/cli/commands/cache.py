"""`envdoctor cache`: the compile cache as a named, guarded artifact. One module a subcommand."""

SUBCOMMANDS = {
    name: f"envdoctor.cli.commands.cache_{name}"
    for name in ("status", "save", "list", "restore", "warm", "gc", "undo", "import", "export")
}


def cache() -> None:
    """Know the compile cache, keep it, move it, warm it. What is deleted was shown first and can be brought back."""
