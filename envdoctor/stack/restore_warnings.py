"""What a person is told beside a restore's plan: options that are not used, an owner, a compile cache."""

from pathlib import Path

from envdoctor.facts.host import Host
from envdoctor.standards.lock import Lock
from envdoctor.swap.generations import compile_cache_in


def ignored(lock: Lock) -> tuple[str, ...]:
    """Return a warning for the options in the lock that are not used."""
    if not lock.ignored:
        return ()
    names = ", ".join(f"`{option}`" for option in lock.ignored)
    return (f"{names} in the lock: not used, since pip's and uv's configuration says where wheels come from",)


def ownership(target: Path, host: Host) -> tuple[str, ...]:
    """Return warnings for a venv of another user and for a compile cache inside the venv."""
    told = []
    if target.exists() and target.stat().st_uid != host.uid:
        told.append(f"{target} belongs to another user; the new venv will belong to {host.user}")
    if target.is_dir() and (cache := compile_cache_in(target, target, host)):
        told.append(f"the compile cache {cache} is inside the venv and will be in the old one only; nothing deletes it")
    return tuple(told)
