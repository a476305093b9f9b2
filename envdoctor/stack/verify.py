"""Proving that a built venv is exactly the lock: every file by its hash, nothing missing, nothing more."""

import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.version import Version

from envdoctor.errors import RestoreError
from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import frozen
from envdoctor.stack.claims import Claim, Fault, claims_of, problem_of
from envdoctor.standards.lock import LockedPackage
from envdoctor.swap.installed import Installed, installed, site_packages
from envdoctor.swap.store import STORE

_SHOWN = 5
# What uv itself puts into a new venv's site-packages, in no RECORD.
_INTERPRETER = re.compile(r"bin/python[0-9.t]*")
_UV_OWN = {"_virtualenv.py", "_virtualenv.pth", "_virtualenv.pyc"}


@frozen
class Verified:
    """What was verified."""

    distributions: int
    files: int
    bytes: int
    faults: tuple[Fault, ...]


def verify(
    venv: Path,
    locked: Mapping[str, LockedPackage],
    listen: Listener,
    *,
    strict: bool = True,
    self_contained: bool = True,
) -> Verified:
    """Hash every file of every RECORD and compare the distributions with the lock.

    strict: a file in site-packages that no RECORD lists is a fault too (a venv in use gathers such files, a new one
    does not). self_contained: so is a link whose file lies outside the venv. Reads everything: about one second a
    gigabyte and core.
    """
    site = site_packages(venv)
    if site is None:
        fault = Fault(owner="", path=str(venv), problem="has no site-packages")
        return Verified(distributions=0, files=0, bytes=0, faults=(fault,))
    claims: list[Claim] = []
    faults = list(_against_lock(installed(venv), locked))
    faults += _leading_out(venv) if self_contained else []
    infos = sorted(site.glob("*.dist-info"))
    for info in infos:
        claims_of(info, site, venv, claims, faults)
    if strict:
        faults += list(_unclaimed(site, {claim.path for claim in claims}))
    faults += hash_all(claims, listen)
    total = sum(claim.size for claim in claims)
    return Verified(distributions=len(infos), files=len(claims), bytes=total, faults=tuple(faults))


def refuse(verified: Verified, what: str) -> None:
    """Raise RestoreError, naming the faults, when there are any."""
    if not verified.faults:
        return
    shown = "; ".join(str(fault) for fault in verified.faults[:_SHOWN])
    more = len(verified.faults) - _SHOWN
    owners = sorted({fault.owner for fault in verified.faults if fault.owner})
    raise RestoreError(
        f"{what} is not what the lock says: {shown}" + (f"; and {more} more" if more > 0 else ""),
        f"uv's cache may hold changed files: `uv cache clean {' '.join(owners)}`, then restore again"
        if owners
        else "lock the stack again",
    )


def _against_lock(present: Mapping[str, Installed], locked: Mapping[str, LockedPackage]) -> Iterator[Fault]:
    for name, package in locked.items():
        found = present.get(name)
        if found is None:
            yield Fault(owner=name, path="", problem=f"{package.version} is not installed")
        elif Version(found.version) != Version(package.version):
            yield Fault(owner=name, path="", problem=f"is {found.version}, the lock has {package.version}")
    for name, found in present.items():
        if name not in locked:
            yield Fault(owner=name, path="", problem=f"{found.version} is not in the lock")


def _leading_out(venv: Path) -> Iterator[Fault]:
    """Find links whose file lies outside: what is verified there may change without the venv."""
    inside = os.path.realpath(venv) + os.sep
    folders = [str(venv)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    goal = os.path.realpath(entry.path)
                    shown = os.path.relpath(entry.path, venv)
                    if not f"{goal}{os.sep}".startswith(inside) and not _INTERPRETER.fullmatch(shown):
                        yield Fault(owner="", path=shown, problem=f"is a link out of the venv, to {goal}")
                elif entry.is_dir() and entry.name != STORE:
                    folders.append(entry.path)


def _unclaimed(site: Path, claimed: set[Path]) -> Iterator[Fault]:
    for folder, folders, files in os.walk(site):
        folders[:] = [name for name in folders if name != "__pycache__"]
        at = Path(folder)
        for name in files:
            if at / name not in claimed and not (at == site and name in _UV_OWN):
                yield Fault(owner="", path=str((at / name).relative_to(site)), problem="is in no RECORD")


def hash_all(claims: list[Claim], listen: Listener) -> list[Fault]:
    """Hash the files of all claims in parallel and return those that are not as recorded."""
    hashed = [claim for claim in claims if claim.digest]
    # Large files first: a straggler at the end would leave the other threads idle.
    hashed.sort(key=lambda claim: claim.size, reverse=True)
    total = sum(claim.size for claim in hashed)
    done = told = 0
    faults: list[Fault] = []
    pool = ThreadPoolExecutor(min(8, os.cpu_count() or 1))
    try:
        for claim, problem in zip(hashed, pool.map(problem_of, hashed), strict=True):
            done += claim.size
            if (done - told) * 200 >= total or done == total:
                told = done
                listen(Event(phase="verify", text=claim.owner, done=done, total=total))
            if problem:
                faults.append(Fault(owner=claim.owner, path=claim.shown, problem=problem))
    finally:
        # An interrupt must not wait for gigabytes that nobody wants hashed any more.
        pool.shutdown(cancel_futures=True)
    return faults
