"""`python -m envdoctor` and the `envdoctor` command."""

import sys

from envdoctor.cli.app import main as run_command_line


def main() -> None:
    """Run the command line of this process and exit with its code."""
    sys.exit(run_command_line())


if __name__ == "__main__":
    main()
