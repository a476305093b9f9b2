"""What a check looks at."""

import shlex
from typing import TYPE_CHECKING

from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.venv.interpreter import Interpreter

if TYPE_CHECKING:  # most checks of a venv are made without a profile, and its types are many
    from collections.abc import Mapping

    from envdoctor.model.profile import Profile
    from envdoctor.standards.lock import Lock, LockedPackage


class DoesNotApplyError(Exception):
    """A check has nothing to say here (no profile was given, there is no torch): not the same as "could not tell"."""


@frozen
class CheckContext:
    """The facts of one environment and what it is compared with."""

    facts: Fingerprint
    profile: "Profile | None" = None
    lock: "Lock | None" = None
    profile_asked: str = ""
    """The profile as the user named it, by name or path; empty for its own name."""
    required: tuple[str, ...] = ()
    """Requirements that the command line asks for ("torch>=2.8"), each well-formed."""
    launching: bool = False
    """The variables are those of the process that trains, as in the gate; else of the shell that examines."""

    def wanted(self) -> "Profile":
        """Return the profile; raise DoesNotApplyError without one."""
        if self.profile is None:
            raise DoesNotApplyError("no profile was given")
        return self.profile

    def locked(self) -> "Mapping[str, LockedPackage]":
        """Return normalized name -> pinned package for this interpreter; raise DoesNotApplyError without a lock."""
        if self.lock is None:
            raise DoesNotApplyError("no profile was given")
        return self.lock.select(self.facts[Interpreter].markers())

    def pins(self) -> "Mapping[str, LockedPackage]":
        """Return what `locked` returns, and nothing without a lock."""
        return self.locked() if self.lock is not None else {}

    @property
    def launch_is_known(self) -> bool:
        """Tell whether the variables are what a job gets: the gate's, or a shell's in which the venv is active."""
        environment = self.facts[Environment]
        active = (environment.value(name) or "" for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
        return self.launching or any(value.rstrip("/") == self.facts.target for value in active)

    @property
    def profile_argument(self) -> str:
        """Return what follows `--profile` in a command to paste, quoted for a shell; raise as `wanted` does."""
        return shlex.quote(self.profile_asked or self.wanted().name)

    @property
    def python(self) -> str:
        """Return the target's interpreter, quoted for a shell."""
        return shlex.quote(self.facts[Interpreter].executable)

    @property
    def prefix(self) -> str:
        """Return the target's folder, quoted for a shell."""
        return shlex.quote(self.facts.target)
