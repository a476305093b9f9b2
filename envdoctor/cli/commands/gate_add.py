"""`envdoctor gate add`: the launch gate in the lock of a profile."""

import shlex

from envdoctor.cli.options import ProfileOption
from envdoctor.cli.terminal import say
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode


def add(profile: ProfileOption = "") -> int:
    """Add the launch gate to the lock of a profile, and its wheel to the folder beside the lock.

    The next restore installs it, offline as well; checks then expect it.
    """
    from envdoctor.gate_package.into_lock import keep_wheel, relock
    from envdoctor.gate_package.shipped import is_shipped
    from envdoctor.wheels.wheelhouse import beside

    file = Workspace.open(profile=profile).needs_profile("add the gate to", "envdoctor gate add --profile NAME")
    lock = file.lock
    if is_shipped(file.lock_path):
        raise UsageError(
            f"the profile {file.name} comes with envdoctor, so its lock is not changed",
            f"copy it into your project: `mkdir -p profiles lockfiles && cp {shlex.quote(str(file.path))} profiles/ && "
            f"cp {shlex.quote(str(file.lock_path))} lockfiles/`, then run this again",
        )
    wheel = keep_wheel(beside(file.lock_path, file.name))
    relock(file.lock_path, lock, wheel)
    say(f"added {wheel.name} {wheel.version} to {file.lock_path}; its wheel is {file.lock_path.parent / wheel.path}")
    say(f"next: `envdoctor restore --profile {shlex.quote(file.asked)}`")
    return ExitCode.OK
