"""A working venv as a profile and a lock that rebuild it."""

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from envdoctor.app.result import Dialog, Result
from envdoctor.cache.key_parts import digest
from envdoctor.cache.static_key import key_parts
from envdoctor.capture import capture as capturing
from envdoctor.capture.capture import Captured, CaptureRequest
from envdoctor.capture.captured_files import CapturePaths
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import ProbeError, UsageError
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.model.frozen import frozen, replace
from envdoctor.stack.examination import deep_options
from envdoctor.standards.names import normalized
from envdoctor.wheels import index_config, pip_config
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.index_config import IndexConfig
from envdoctor.wheels.pylock_text import Form

if TYPE_CHECKING:
    from envdoctor.model.profile import Waiver

# A PEP 751 lock's name allows no dots.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@frozen
class CaptureOptions:
    """What is captured, and where it is written."""

    name: str
    project: str = ""
    """Folder that gets profiles/ and lockfiles/; empty for the current one."""
    form: Form = "requirements"
    without: tuple[str, ...] = ()
    """Distributions that are left out of the lock, "NAME" or "NAME=REASON"."""
    sources: tuple[str, ...] = ()
    waivers: "tuple[Waiver, ...]" = ()
    summary: str = ""
    offline: bool = False
    with_gate: bool = False
    """Put the launch gate's own wheel into the lock."""
    with_outside: bool = False
    """Pin what the venv takes from outside of it too."""
    force: bool = False


@frozen
class CaptureResult:
    """What was captured, and where it was written."""

    captured: Captured
    place: CapturePaths
    cwd: Path


def capture(workspace: Workspace, wishes: CaptureOptions, dialog: Dialog) -> Result:
    """Write the profile and the lock of the target venv. Raises UsageError, CaptureError; then nothing is written."""
    host = workspace.host
    place = place_for(wishes.name, wishes.project, wishes.form, host, force=wishes.force)
    wanted = CaptureRequest(
        name=wishes.name,
        summary=wishes.summary,
        day=datetime.now(UTC).date().isoformat(),
        without=_left_out(wishes.without),
        sources=wishes.sources,
        waivers=wishes.waivers,
        cache_key="",
        offline=wishes.offline,
        with_gate=wishes.with_gate,
        with_outside=wishes.with_outside,
    )
    with dialog.listening() as listen:
        reading = workspace.reading(replace(deep_options(listen), contents=True, ask_nvml=True))
        wanted = replace(wanted, cache_key=_cache_key(reading))
        captured = capturing.capture(reading, _sources(host, offline=wishes.offline), wanted, place, listen)
    return Result(command="capture", data=CaptureResult(captured=captured, place=place, cwd=host.cwd))


def _left_out(without: tuple[str, ...]) -> dict[str, str]:
    """Return normalized name -> reason, empty for none. Raises UsageError for a name or a reason that is empty."""
    found: dict[str, str] = {}
    for item in without:
        name, given, reason = (part.strip() for part in item.partition("="))
        if not name or (given and not reason):
            raise UsageError(
                f"`--without {item}` names no {'reason' if name else 'distribution'}",
                f'say why the lock may lack it: `--without {name or "NAME"}="the reason"`',
            )
        found[normalized(name)] = reason
    return found


def place_for(name: str, project: str, form: Form, host: Host, *, force: bool) -> CapturePaths:
    """Return where a profile of that name is written. Raises UsageError for no name, no folder, or a taken name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"`{name}` cannot name a profile", "use letters, digits, `-` and `_`, with a letter or digit first"
        )
    folder = Path(host.cwd, project)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a directory", "name the project's folder: `--project DIR`")
    place = CapturePaths(project=folder, name=name, form=form)
    if not force and (taken := place.taken()):
        raise UsageError(f"{taken} exists already", "choose another name, or add `--force` to replace it")
    return place


def _sources(host: Host, *, offline: bool) -> IndexConfig | None:
    if offline:
        return None
    uv = uv_tool.locate(host.environ, host.cwd)
    return index_config.configured(uv, pip_config.read(host.environ, host.home), host.home, sys.executable)


def _cache_key(reading: Reading) -> str:
    """Return the key of the compile caches this environment uses; empty when a fact it needs cannot be read."""
    try:
        return digest(key_parts(reading))
    except ProbeError:
        return ""
