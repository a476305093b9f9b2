"""`python -m envdoctor` and the `envdoctor` command."""

import gc
import os
import sys
from typing import NoReturn

from envdoctor.cli.app import main as run_command_line


def main() -> NoReturn:
    """Run the command line of this process and exit with its code."""
    # A check makes 100,000 small objects that live to its end; looking for cycles among them finds none.
    gc.set_threshold(100_000, 50, 50)
    code = run_command_line()
    # Nothing is left to do, and taking those objects apart one by one is a tenth of a check's time.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
