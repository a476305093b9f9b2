"""Wheels of what a lock names by its source: uv installs it into an empty venv, and each is made a wheel again."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import tomli_w

from envdoctor.capture.installed_wheels import subjects_of, verified_files
from envdoctor.capture.repack import RepackError, repack
from envdoctor.errors import CaptureError
from envdoctor.facts.context import Options, Reading
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.foreign_locks.selection import SourcePackage
from envdoctor.model.events import Event, Listener
from envdoctor.model.plan import BaseInterpreter
from envdoctor.probes.registry import chosen
from envdoctor.probes.venv import interpreter as interpreter_probe
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.wheels.index_config import IndexAccess
from envdoctor.wheels.pylock_text import LockedWheel
from envdoctor.wheels.read_whole import first_special
from envdoctor.wheels.uv import Uv, UvError


def build(
    sources: Sequence[SourcePackage],
    interpreter: BaseInterpreter,
    uv: Uv,
    reach: IndexAccess,
    folder: Path,
    listen: Listener,
) -> tuple[LockedWheel, ...]:
    """Return a wheel of each, written into `folder`, which exists; their `path` is the file's name.

    Build backends run, as with every installer. Raises CaptureError with what uv said.
    """
    places = (source.entry.get(key, {}).get("path", "") for source in sources for key in ("archive", "sdist"))
    if special := first_special(map(Path, filter(None, places))):
        raise CaptureError(f"{special} is not a regular file\nnothing was written", "correct the lock, or lock again")
    asked, venv = folder / "pylock.toml", folder / "venv"
    packages = [dict(source.entry) for source in sources]
    asked.write_text(
        tomli_w.dumps({"lock-version": "1.0", "created-by": "envdoctor", "packages": packages}), encoding="utf-8"
    )
    listen(Event(phase="build", text=f"{', '.join(source.name for source in sources)} from source"))
    try:
        uv.run(("venv", "--quiet", "--no-project", "--python", interpreter.path, venv))
        uv.run(
            ("pip", "install", "--no-deps", "--python", venv, "--requirements", asked, *reach.arguments),
            extra=reach.variables,
        )
    except UvError as error:
        raise CaptureError(f"a wheel could not be made: {error.message}\nnothing was written", error.hint) from error
    return tuple(_kept(venv, folder))


def _kept(venv: Path, folder: Path) -> list[LockedWheel]:
    options = Options(deep=True, contents=True, ask_nvml=False)
    reading = Reading(target=resolve(venv), host=Host.current(), options=options, probes=chosen(options))
    items = [
        (at, item)
        for at, item in enumerate(reading.fact(Distributions).items)
        if item.origin == "site-packages" and not item.shadowed
    ]
    subjects, refused = subjects_of(reading, items, verified_files(reading, items))
    library = reading.fact(interpreter_probe.Interpreter).folder
    made = []
    if refused:
        raise _unmade("; ".join(map(str, refused)))
    try:
        for subject in subjects:
            path = repack(subject, library, folder)
            content = path.read_bytes()
            made.append(
                LockedWheel(
                    name=subject.item.name,
                    version=subject.item.version,
                    filename=path.name,
                    sha256=hashlib.sha256(content).hexdigest(),
                    size=len(content),
                    path=path.name,
                )
            )
    except RepackError as error:
        raise _unmade(error) from error
    return made


def _unmade(why: object) -> CaptureError:
    return CaptureError(
        f"a wheel could not be made: {why}\nnothing was written", "correct the package, then run this again"
    )
