"""Everything of the machine that enters a probe, in one object that a test can supply."""

import getpass
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from envdoctor.errors import UsageError
from envdoctor.model.frozen import field, frozen

_TRIPLETS = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu"}


@frozen
class Host:
    """System roots and the environment. Probes read the machine through this and nowhere else."""

    environ: Mapping[str, str]
    home: Path
    user: str
    uid: int
    cwd: Path
    machine: str
    """As uname prints it: x86_64, aarch64."""
    root: Path = Path("/")
    """Where /.dockerenv and /run/.containerenv are looked for."""
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")
    tmp: Path = Path("/tmp")  # noqa: S108 - where torch itself puts its cache by default
    ld_so_cache: Path = Path("/etc/ld.so.cache")
    remembers: bool = True
    """Whether what was read may be remembered below the home folder; not where that is a root folder's own."""
    library_dirs: tuple[str, ...] = field(default=())
    """Default directories of ld.so, in its order."""

    @classmethod
    def current(cls) -> "Host":
        """Return this machine, this user, this environment."""
        machine = os.uname().machine
        return cls(
            environ=dict(os.environ),
            home=Path(os.path.expanduser("~")),  # noqa: PTH111 - Path.home() raises where ~ cannot be determined
            user=_user(),
            uid=os.getuid(),
            cwd=working_folder(),
            machine=machine,
            tmp=Path(tempfile.gettempdir()),
            library_dirs=default_library_dirs(machine),
        )


def default_library_dirs(machine: str) -> tuple[str, ...]:
    """Return the directories ld.so searches last (Debian's multiarch ones first, as its glibc has them built in)."""
    triplet = _TRIPLETS.get(machine)
    multiarch = (f"/lib/{triplet}", f"/usr/lib/{triplet}") if triplet else ()
    return (*multiarch, "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def working_folder() -> Path:
    """Return the current folder. Raises UsageError when it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError(
            "the folder that this command was started in does not exist any more", "change to one that does: `cd`"
        ) from error


def _user() -> str:
    # torch names its default cache after getpass.getuser(); a container's uid without a passwd entry has no name.
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
