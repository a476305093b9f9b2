"""The envdoctor command with an audit hook: what it opens, lists, starts and imports, as Python itself reports it."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.factories.run_envdoctor import ROOT, environment

# The hook writes each event at once: the command may end without running anything at its exit.
_START = f"""
import json, os, sys
sys.path[0] = {str(ROOT)!r}
log = os.open(os.environ.pop("AUDIT_LOG"), os.O_WRONLY | os.O_APPEND)
watched = {{"open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.rmdir", "os.truncate", "os.chmod",
    "os.link", "os.symlink", "os.mkdir", "os.utime", "shutil.rmtree", "shutil.copyfile", "subprocess.Popen", "os.exec",
    "os.posix_spawn", "os.fork", "os.system", "ctypes.dlopen", "import", "exec", "mmap.__new__"}}
busy = []
def hook(event, arguments):
    if event in watched and not busy:
        busy.append(1)
        try:
            shown = [item if isinstance(item, (str, int, type(None))) else os.fsdecode(item)
                     if isinstance(item, (bytes, os.PathLike)) else str(item) for item in arguments[:3]]
            os.write(log, (json.dumps([event, shown]) + "\\n").encode())
        finally:
            busy.pop()
sys.addaudithook(hook)
from envdoctor.__main__ import main
main()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What one command did and left."""

    code: int
    out: str
    err: str
    events: tuple[tuple[str, tuple[object, ...]], ...]
    """(audit event, its first arguments), in order."""

    def touching(self, *folders: Path) -> list[tuple[str, tuple[object, ...]]]:
        """Return the events with an argument that is in one of the folders."""
        roots = tuple(f"{folder}/" for folder in folders)
        return [
            (event, arguments)
            for event, arguments in self.events
            if any(isinstance(item, str) and f"{item}/".startswith(roots) for item in arguments)
        ]

    def of(self, *names: str) -> list[tuple[object, ...]]:
        """Return the arguments of the events of those kinds."""
        return [arguments for event, arguments in self.events if event in names]


def audited(*arguments: str | Path, folder: Path, extra: Mapping[str, str] | None = None) -> Audit:
    """Run the `envdoctor` command in `folder`, watched."""
    log = folder / "audit.log"
    log.write_text("")
    done = subprocess.run(
        [sys.executable, "-c", _START, *map(str, arguments)],
        cwd=folder,
        env=environment(folder, {"AUDIT_LOG": str(log), **(extra or {})}),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = log.read_text().splitlines()
    log.unlink()
    events = tuple((event, tuple(shown)) for event, shown in map(json.loads, lines))
    assert events, done.stderr
    return Audit(code=done.returncode, out=done.stdout, err=done.stderr, events=events)
