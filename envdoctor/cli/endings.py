"""How a command line ends that did not work out: one place prints errors, and says what exit code they are."""

import sys

from envdoctor.cli.shadowed import in_front_of_python, message
from envdoctor.errors import EnvdoctorError, ProbeError

_REPORT_IT = "this is a bug; report the lines above with the output of `envdoctor --version`"


def say_error(error: EnvdoctorError) -> int:
    """Write an error of ours to stderr as `error: …`, `hint: …`; return its exit code."""
    to_stderr(f"error: {error.message}" + (f"\n\nhint: {error.hint}" if error.hint else ""))
    return error.exit_code


def say_crash(error: Exception) -> int:
    """Write what no command should raise to stderr, with its traceback; return the exit code.

    Python itself would end with 1, which says that something was found in the venv.
    """
    if stranger := in_front_of_python():
        return say_error(ProbeError(*message(stranger, error)))
    import traceback

    traceback.print_exc()
    return say_error(ProbeError("envdoctor itself failed, so nothing can be told about the venv", _REPORT_IT))


def to_stderr(text: str) -> None:
    """Write one line to stderr."""
    print(text, file=sys.stderr)  # noqa: T201 - the one place errors are printed
