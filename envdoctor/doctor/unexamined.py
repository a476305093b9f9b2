"""What the gate says where an environment could not be examined: once a node where its ranks have the same to say."""

from collections.abc import Callable

from envdoctor.doctor.once_a_node import Node, Told
from envdoctor.errors import EnvdoctorError, internal_error, traceback_of
from envdoctor.facts.host import Host
from envdoctor.facts.launch import local_rank

Say = Callable[[str], None]


def of_error(error: EnvdoctorError) -> str:
    """Return what is said of an error."""
    return f"error: envdoctor gate: {error.message}" + (f"\n\nhint: {error.hint}" if error.hint else "")


def of_crash(error: Exception, prefix: str, profile: str) -> str:
    """Return what is said of an exception that nobody foresaw, with its traceback unless it says what is missing."""
    if isinstance(error, ImportError):
        # A damaged environment may lack what the gate itself reads locks with: that is not a verdict, and no traceback.
        what, hint, trace = f"this interpreter lacks {error.name or error}", f"check {prefix} --profile {profile}", ""
    else:
        what, hint = internal_error(error), f"check {prefix} --profile {profile} -v"
        trace = f"{traceback_of(error)}\n"
    return (
        f"{trace}error: envdoctor gate: {what}, so nothing can be said about {prefix}\n\n"
        f"hint: look from outside: `envdoctor {hint}`"
    )


def say_once(text: str, code: int, refused: str, wait: float, say: Say) -> None:
    """Say it in one rank of those on this node that have the same to say: local rank 0, where it is one of them.

    The others say `refused`, a line that names the rank, before that; empty for one that starts all the same. wait:
    seconds in which local rank 0 may still come. Ranks that cannot share say it each.
    """
    try:
        host = Host.current()
        with Node(host, ("not examined", text), whatever_variables=True) as node:
            told = node.told(lambda: Told(code=code, problem=text), lambda _, __: None)
            later = bool(refused and local_rank(host.environ))
            if later:
                say(refused)
            if not node.reports(told, wait if later else 0.0):
                return
    except (EnvdoctorError, OSError):
        pass  # the current folder is gone, for one
    say(text)
