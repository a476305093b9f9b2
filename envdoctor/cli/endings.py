"""How a command line ends that did not work out: one place prints errors, and says what exit code they are."""

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from envdoctor.cli.shadowed import in_front_of_python, message
from envdoctor.cli.terminal import programs, say, write_result
from envdoctor.errors import EnvdoctorError, ProbeError, closed_place
from envdoctor.report.style import typable_prose

_REPORT_IT = "this is a bug; report the lines above with the output of `envdoctor --version`"


def wants_json(given: Sequence[str]) -> bool:
    """Tell whether a command line asks for JSON; readable before it is parsed, and when it cannot be."""
    words = list(given[: given.index("--")] if "--" in given else given)
    if words[:1] == ["run"]:  # what follows is the words of another command
        return False
    named = "--json" in words or "--format=json" in words or ("--format", "json") in pairwise(words)
    return named or os.environ.get("ENVDOCTOR_FORMAT") == "json"


def say_error(error: EnvdoctorError, *, as_json: bool = False) -> int:
    """Write an error of ours to stderr as `error: …`, `hint: …`; return its exit code.

    as_json: write it to stdout too, as a JSON document, so that a pipe gets one.
    """
    say(f"error: {error.message}" + (f"\n\nhint: {error.hint}" if error.hint else ""))
    if as_json:
        from envdoctor.report.envelope import dump, envelope

        hint = typable_prose(error.hint, programs) or None
        found = {"message": error.message, "hint": hint, "exit_code": int(error.exit_code)}
        with suppress(EnvdoctorError):  # stdout may be what failed
            write_result(dump(envelope({"error": found})))
    return error.exit_code


def say_crash(error: Exception, *, as_json: bool = False) -> int:
    """Write what no command should raise to stderr, with its traceback; return the exit code.

    Python itself would end with 1, which says that something was found in the venv. A path that this user may not
    use is bad input, wherever it was met.
    """
    if stranger := in_front_of_python():
        return say_error(ProbeError(*message(stranger, error)), as_json=as_json)
    if closed := closed_place(error):
        return say_error(closed, as_json=as_json)
    import traceback

    say(traceback.format_exc().rstrip("\n"))
    failed = ProbeError("envdoctor itself failed, so nothing can be said about the venv", _REPORT_IT)
    return say_error(failed, as_json=as_json)
