"""The exit codes of every command, the same in every output format."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a process ends with. `run` and the gate pass the command's own code through once it has started."""

    OK = 0
    """Nothing at or above `--fail-on` was found."""
    FINDINGS = 1
    """At least one finding at or above `--fail-on`."""
    USAGE = 2
    """Bad input: an unknown profile, a path that is not a venv, a broken lock."""
    UNKNOWN = 3
    """A check that matters could not tell; nothing at or above `--fail-on` was found by the others."""
    RESTORE_FAILED = 4
    """A restore failed and was rolled back; the old venv is as it was."""
    INTERRUPTED = 130
    """Ctrl-C."""
