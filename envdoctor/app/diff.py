"""Two stacks side by side: each a venv, a fingerprint, a profile, or a former venv."""

from envdoctor.app.result import Result
from envdoctor.app.watch_stack import then, without_variables
from envdoctor.compare.comparable import of_fingerprint, of_profile
from envdoctor.compare.difference import ComparableStack, Comparison, compare
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents import fingerprint_file, profile_store
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import replace
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.stack.named import NamedStack, named_stack
from envdoctor.wheels.locking import LockPlatform


def diff(workspace: Workspace, a: str, b: str = "") -> Result:
    """Compare A with B; without B, with the target venv of the workspace. Raises UsageError."""
    host = workspace.host
    return _compared(named_stack(a, host), named_stack(b, host) if b else _target(workspace), host)


def diff_then(workspace: Workspace, since: str = "", *, last_good: bool = False) -> Result:
    """Compare what the target venv was, as its journal has it, with what it is now. Raises UsageError.

    Variables are compared with those of a good run alone, as its profile would set them.
    """
    named, entry = then(workspace, since, last_good=last_good)
    host = workspace.host
    if entry.kind == "good" and entry.profile in profile_store.names(host.cwd):
        wanted = profile_store.find(entry.profile, host.cwd).profile.environment.set
        host = replace(host, environ={**host.environ, **wanted})
    a, b = _sides([named, _target(workspace)], host)
    return _judged(compare(a, b) if entry.kind == "good" else compare(without_variables(a), without_variables(b)))


def _compared(a: NamedStack, b: NamedStack, host: Host) -> Result:
    return _judged(compare(*_sides([a, b], host)))


def _judged(comparison: Comparison) -> Result:
    equal = ExitCode.UNKNOWN if comparison.unread else ExitCode.OK
    code = ExitCode.FINDINGS if comparison.differences else equal
    return Result(command="diff", data=comparison, exit_code=code)


def _target(workspace: Workspace) -> NamedStack:
    prefix = str(workspace.target.prefix)
    return NamedStack(kind="venv", label=workspace.named or prefix, path=prefix)


def _sides(named: list[NamedStack], host: Host) -> list[ComparableStack]:
    profiles = {item.path: profile_store.find(item.path, host.cwd) for item in named if item.kind == "profile"}
    # A profile says which files of the training code are to be read on the other side.
    facts = [_facts(item, next(iter(profiles.values()), None), host) for item in named]
    interpreter = next((found.get(Interpreter) for found in facts if found), None)
    return [
        of_fingerprint(found, item.label, item.kind)
        if found
        else _profile(profiles[item.path], item.label, interpreter, host)
        for item, found in zip(named, facts, strict=True)
    ]


def _facts(named: NamedStack, profile: ProfileRef | None, host: Host) -> Fingerprint | None:
    if named.kind == "profile":
        return None
    if named.kind == "fingerprint":
        return fingerprint_file.read(named.path)
    return Workspace(host, named.path, profile).facts(Options(contents=True))


def _profile(file: ProfileRef, label: str, interpreter: Interpreter | None, host: Host) -> ComparableStack:
    wanted = LockPlatform(python=file.profile.python.versions[0], machine=host.machine).markers()
    markers = dict(interpreter.markers()) if interpreter else wanted
    return of_profile(file.profile, file.lock, markers, label)
