"""What the gate says where an environment could not be examined: once a node where its ranks have the same to say."""

import shlex
from collections.abc import Callable

from envdoctor.errors import EnvdoctorError, internal_error, traceback_of

Say = Callable[[str], None]


def said_of(error: Exception, prefix: str, profile: str) -> str:
    """Return what is said of an error: of one that nobody foresaw with its traceback, unless it says what is missing.

    prefix: of the environment.
    """
    if isinstance(error, EnvdoctorError):
        return f"error: envdoctor gate: {error.message}" + (f"\n\nhint: {error.hint}" if error.hint else "")
    named = f"{shlex.quote(prefix)} --profile {shlex.quote(profile)}"
    if isinstance(error, ImportError):
        # A damaged environment may lack what the gate itself reads locks with: that is not a verdict, and no traceback.
        what, hint, trace = f"this interpreter lacks {error.name or error}", f"check {named}", ""
    else:
        what, hint = internal_error(error), f"check {named} -v"
        trace = f"{traceback_of(error)}\n"
    return (
        f"{trace}error: envdoctor gate: {what}, so nothing can be said about {prefix}\n\n"
        f"hint: look from outside: `envdoctor {hint}`"
    )


def say_once(text: str, code: int, refused: str, wait: float, say: Say) -> None:
    """Say it in one rank of those on this node that have the same to say: local rank 0, where it is one of them.

    The others say `refused`, a line that names the rank, before that; empty for one that starts all the same. wait:
    seconds in which local rank 0 may still come. Ranks that cannot share say it each, for whatever reason: the one for
    which nothing was examined may be in the way here too.
    """
    try:
        from envdoctor.doctor.once_a_node import Node, Told  # noqa: PLC0415 - may be what cannot be loaded
        from envdoctor.facts.host import Host  # noqa: PLC0415
        from envdoctor.facts.launch import local_rank  # noqa: PLC0415

        host = Host.current()
        with Node(host, ("not examined", text), whatever_variables=True) as node:
            told = node.told(lambda: Told(code=code, problem=text), lambda _, __: None)
            later = bool(refused and local_rank(host.environ))
            if later:
                say(refused)
            if not node.reports(told, wait if later else 0.0):
                return
    except Exception:  # noqa: BLE001, S110 - the current folder is gone, for one; what is wrong is said below
        pass
    say(text)
