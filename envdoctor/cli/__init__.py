"""The command line: the only place for typer, printing, prompts and exit codes."""
