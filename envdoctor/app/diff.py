"""Two stacks side by side: each a venv, a fingerprint, a profile, or a former venv."""

from pathlib import Path

from envdoctor.app.result import Result
from envdoctor.compare.comparable import of_fingerprint, of_profile
from envdoctor.compare.difference import ComparableStack, compare
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents import fingerprint_file, profile_store
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.swap.store import BackupStore
from envdoctor.wheels.locking import LockPlatform


@frozen
class _Named:
    """What one argument names."""

    kind: str
    label: str
    path: str
    """Of a venv, a fingerprint or a profile; a profile's name stays a name."""


def diff(workspace: Workspace, a: str, b: str = "") -> Result:
    """Compare A with B; without B, with the target venv of the workspace. Raises UsageError."""
    host = workspace.host
    other = _named(b, host) if b else _target(workspace)
    comparison = compare(*_sides([_named(a, host), other], host))
    equal = ExitCode.UNKNOWN if comparison.unread else ExitCode.OK
    code = ExitCode.FINDINGS if comparison.differences else equal
    return Result(command="diff", data=comparison, exit_code=code)


def _named(text: str, host: Host) -> _Named:
    """Tell what an argument names: a path that exists first, then a generation, then a profile."""
    path = Path(host.cwd, text)
    if path.is_dir() or (path.is_file() and path.suffix not in {".json", ".toml"}):
        return _Named(kind="venv", label=text, path=str(path))
    if path.is_file() and path.suffix == ".json":
        return _Named(kind="fingerprint", label=text, path=str(path))
    venv, found, number = text.rpartition("@")
    if found and number.isdecimal():
        return _Named(
            kind="generation", label=text, path=str(_generation(Path(host.cwd, venv or ".venv"), int(number)))
        )
    if text.endswith(".json") or ("/" in text and not text.endswith(".toml")):
        raise UsageError(f"there is no {text}", "name a venv's folder, a fingerprint (.json), a profile, or VENV@N")
    if not text.endswith(".toml") and text not in profile_store.names(host.cwd):
        raise UsageError(
            f"`{text}` is not a folder, a fingerprint or a profile",
            "`envdoctor profiles` lists the profiles; name a venv by its folder, a fingerprint by its file (.json)",
        )
    return _Named(kind="profile", label=text, path=text)


def _generation(venv: Path, number: int) -> Path:
    store = BackupStore.of(venv)
    kept = store.numbers()
    if number not in kept:
        known = ", ".join(map(str, kept)) or "none"
        raise UsageError(f"{venv} has no backup {number}", f"kept are: {known}")
    return next(path for path in store.generations.iterdir() if path.name.isdecimal() and int(path.name) == number)


def _target(workspace: Workspace) -> _Named:
    prefix = str(workspace.target.prefix)
    return _Named(kind="venv", label=workspace.named or prefix, path=prefix)


def _sides(named: list[_Named], host: Host) -> list[ComparableStack]:
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


def _facts(named: _Named, profile: ProfileRef | None, host: Host) -> Fingerprint | None:
    if named.kind == "profile":
        return None
    if named.kind == "fingerprint":
        return fingerprint_file.read(named.path)
    return Workspace(host, named.path, profile).facts(Options(contents=True))


def _profile(file: ProfileRef, label: str, interpreter: Interpreter | None, host: Host) -> ComparableStack:
    wanted = LockPlatform(python=file.profile.python.versions[0], machine=host.machine).markers()
    markers = dict(interpreter.markers()) if interpreter else wanted
    return of_profile(file.profile, file.lock, markers, label)
