"""Everything of the machine that enters a probe, in one object that a test can supply."""

import os
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
            tmp=temporary_folder(os.environ),
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
    """Return what getpass.getuser() does, after which torch names its cache; the uid where it has no passwd entry."""
    named = (os.environ.get(name) for name in ("LOGNAME", "USER", "LNAME", "USERNAME"))
    if user := next(filter(None, named), ""):
        return user
    import pwd  # noqa: PLC0415 - few processes have none of the variables

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError):
        return str(os.getuid())


def temporary_folder(environ: Mapping[str, str]) -> Path:
    """Return what tempfile.gettempdir() does, without writing a file into each candidate to see whether it can."""
    named = filter(None, (environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")))
    for folder in (*named, "/tmp", "/var/tmp", "/usr/tmp"):  # noqa: S108 - tempfile's own list
        path = os.path.abspath(folder)  # noqa: PTH100 - as tempfile does it
        if os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):  # noqa: PTH112 - a string path
            return Path(path)
    return Path.cwd()
