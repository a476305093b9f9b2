"""Into which processes the kernel does not let a user look: real ones, of real users."""

import ctypes
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from envdoctor.facts.processes import closed

_VERSION_3, _SYS_PTRACE = 0x20080522, 19
_ME = 4243


def _become(user: int) -> None:
    """Become this user, or root without CAP_SYS_PTRACE, as in a container."""
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        return
    header, sets = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None)
    assert libc.capget(header, sets) == 0
    for effective_or_permitted in (0, 1):
        sets[effective_or_permitted] &= ~(1 << _SYS_PTRACE)
    assert libc.capset(header, sets) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of other users")
@pytest.mark.parametrize(
    ("owner", "user", "count"),
    [(4242, _ME, 1), (_ME, _ME, 0), (42, _ME, 1), (70_000, _ME, 1), (200_001, _ME, 1), (0, _ME, 1), (4242, 0, 1)],
    ids=["theirs", "one's own", "system", "directory", "container", "root's", "theirs, for root"],
)
def test_what_others_run_cannot_be_looked_into(owner: int, user: int, count: int) -> None:
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as name,
        subprocess.Popen(["sleep", "60"], user=owner, group=owner, extra_groups=[]) as process,
    ):
        proc = Path(name)
        proc.chmod(0o755)
        (proc / str(process.pid)).symlink_to(f"/proc/{process.pid}")
        # The kernel's own have no command line, and one that has ended no folder.
        (proc / "2").mkdir()
        (proc / "2/cmdline").touch()
        (proc / "2/environ").touch(mode=0)
        (proc / "3").symlink_to("/proc/none")
        child = os.fork()
        if child == 0:
            try:
                _become(user)
                os._exit(len(closed(proc)))
            finally:
                os._exit(99)
        seen = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        process.kill()
    assert seen == count
