"""What a word of the command line names: a venv, a fingerprint, a profile, or a backup of a venv."""

from pathlib import Path
from typing import Literal

from envdoctor.documents import profile_store
from envdoctor.errors import TargetError, UsageError
from envdoctor.facts.host import Host
from envdoctor.facts.locate import locate
from envdoctor.facts.target import resolve
from envdoctor.model.frozen import frozen
from envdoctor.swap.store import BackupStore


@frozen
class NamedStack:
    """What one argument names."""

    kind: Literal["venv", "fingerprint", "generation", "profile"]
    label: str
    path: str
    """Of a venv, a fingerprint or a profile; a profile's name stays a name."""
    venv: str = ""
    """Of a generation: the venv that it is a backup of, which need not exist."""


def named_stack(text: str, host: Host) -> NamedStack:
    """Tell what an argument names: a path that exists first, then a generation, then a profile."""
    path = Path(host.cwd, text)
    if path.is_dir():
        return NamedStack(kind="venv", label=text, path=str(_environment(path, host)))
    if path.is_file() and path.suffix not in {".json", ".toml"}:
        return NamedStack(kind="venv", label=text, path=str(path))
    if path.is_file() and path.suffix == ".json":
        return NamedStack(kind="fingerprint", label=text, path=str(path))
    venv, found, number = text.rpartition("@")
    if found and number.isdecimal():
        store = BackupStore.of(Path(host.cwd, venv or ".venv"))
        path = _generation(store, int(number))
        return NamedStack(kind="generation", label=text, path=str(path), venv=str(store.target))
    if text.endswith(".json") or ("/" in text and not text.endswith(".toml")):
        raise UsageError(f"there is no {text}", "name a venv's folder, a fingerprint (.json), a profile, or VENV@N")
    if not text.endswith(".toml") and text not in profile_store.names(host.cwd):
        raise UsageError(
            f"`{text}` is not a folder, a fingerprint or a profile",
            "`envdoctor profiles` lists the profiles; name a venv by its folder, a fingerprint by its file (.json)",
        )
    return NamedStack(kind="profile", label=text, path=text)


def _environment(path: Path, host: Host) -> Path:
    """Return a venv's folder as it was named; of a project's folder, the venv that it has."""
    try:
        resolve(path)
    except TargetError:
        return locate(str(path), host).target.prefix
    return path


def _generation(store: BackupStore, number: int) -> Path:
    kept = store.numbers()
    if number not in kept:
        known = ", ".join(map(str, kept)) or "none"
        raise UsageError(f"{store.target} has no backup {number}", f"kept are: {known}")
    return next(path for path in store.generations.iterdir() if path.name.isdecimal() and int(path.name) == number)
