"""Which venv is in a folder, in words that two hosts have in common where they see the same one.

The inode and the times of a file are those of its server, the same for each client of a network file system; a device
number is the host's own, and counts for a local one, together with the boot.
"""

import os
from pathlib import Path

from envdoctor.facts.host import Host
from envdoctor.facts.regular_file import open_regular
from envdoctor.model.frozen import frozen
from envdoctor.probes.machine.mounts import NETWORK, mount_of
from envdoctor.swap.store import BackupStore

OF_A_NETWORK = "network"
"""`seen_from` of a file system that other hosts may see too."""


@frozen
class VenvPlace:
    """A venv, or the place where one is to be made, as a host sees it."""

    venv: str
    """As `made` has it."""
    place: str
    """The same; where there is no venv yet, inode and time of change of the nearest folder above, and the rest of the
    path: roots of two file systems may have one inode."""
    seen_from: str
    """OF_A_NETWORK, or of a local file system the boot and the device. Empty: not known, and it is like no other."""


def made(folder: Path) -> str:
    """Return what tells the venv in a folder apart from every other: inode, time and size of its pyvenv.cfg.

    That file moves with the venv when it is put away or comes back, and a copy of a venv has one of its own. Empty
    without one. It is opened: a client of NFS asks its server then, and answers a bare stat from its memory.
    """
    try:
        with open_regular(folder / "pyvenv.cfg") as file:
            status = os.fstat(file.fileno())
    except OSError:
        return ""
    return f"{status.st_ino} {status.st_mtime_ns} {status.st_size}"


def place_of(store: BackupStore, host: Host) -> VenvPlace:
    """Return the venv of a store, or where it would be. Changes nothing."""
    venv, target = made(store.target), store.target
    above = next(at for at in (target, *target.parents) if at.is_dir())
    status = _status(above)
    kind = mount_of(above, host).type
    seen_from = OF_A_NETWORK
    if kind not in NETWORK and not kind.startswith("fuse."):
        boot = _boot(host)
        seen_from = f"{boot} {status.st_dev}" if boot and kind else ""
    return VenvPlace(
        venv=venv,
        place=venv or f"{status.st_ino} {status.st_ctime_ns} {target.relative_to(above)}",
        seen_from=seen_from,
    )


def _status(folder: Path) -> os.stat_result:
    """Return the status of a folder that is opened for it, as in `made`, where one may."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return folder.stat()
    try:
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _boot(host: Host) -> str:
    try:
        return (host.proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
