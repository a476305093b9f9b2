"""A lock that another tool wrote becomes a profile and a hashed lock."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from envdoctor.app.result import Dialog, Result
from envdoctor.capture import built_wheels, captured_files
from envdoctor.capture.captured_files import CapturePaths
from envdoctor.capture.carried_wheels import carried
from envdoctor.capture.locked_profile import profile_of_lock, torch_of
from envdoctor.errors import CaptureError, Interrupted, LockError
from envdoctor.facts.host import Host
from envdoctor.facts.whole_file import beside
from envdoctor.foreign_locks import exporters
from envdoctor.foreign_locks.formats import LockFile, lock_file
from envdoctor.foreign_locks.selection import Selection, SourcePackage, select
from envdoctor.gate_package.into_lock import among, keep_wheel, locked
from envdoctor.model.frozen import frozen
from envdoctor.model.plan import BaseInterpreter
from envdoctor.model.profile import Profile
from envdoctor.model.wording import counted
from envdoctor.stack import interpreters
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.wheels import index_config, locked_wheels, pip_config, wheel_tags
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.index import File
from envdoctor.wheels.locking import NEWEST_GLIBC, text_of
from envdoctor.wheels.pylock_text import LockedWheel
from envdoctor.wheels.temporary import temporary_folder
from envdoctor.wheels.uv import Uv, UvError
from envdoctor.wheels.wheelhouse import gate_hint

_VERSIONS = tuple(f"3.{minor}" for minor in range(8, 40))


@frozen
class ProfileOptions:
    """Which lock, and where the profile is written."""

    place: CapturePaths
    lock: str
    """As it was named: a file, or a folder with one lock in it."""
    python: str = ""
    """A version or an interpreter; empty for what uv finds for the project."""
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    summary: str = ""
    with_gate: bool = False
    yes: bool = False


@frozen
class NewProfile:
    """What was made of the lock, or what is about to be."""

    profile: Profile | None
    """None while it is planned."""
    place: CapturePaths
    lock: LockFile
    interpreter: BaseInterpreter
    pinned: tuple[LockedPackage, ...]
    sources: tuple[SourcePackage, ...]
    kept: tuple[LockedWheel, ...]
    notes: tuple[str, ...]
    cwd: Path


def new(host: Host, wishes: ProfileOptions, dialog: Dialog) -> Result:
    """Write the profile. Raises UsageError, LockError, CaptureError; then nothing is written."""
    file = lock_file(wishes.lock, host.cwd, wishes.extras, wishes.groups)
    with dialog.waiting(f"reading {file.path.name}"):
        interpreter = _interpreter(wishes.python, file, host)
        exported = exporters.exported(file, host, _minor(interpreter))
        major, minor = (int(part) for part in interpreter.version.split(".")[:2])
        machine = interpreter.markers["platform_machine"]
        free_threaded = interpreter.tag.endswith("t")
        tags = wheel_tags.supported((major, minor), machine, NEWEST_GLIBC, free_threaded=free_threaded)
        chosen = select(file, exported, interpreter.markers, tags)
    if exported.incomplete:
        raise LockError(exported.incomplete, exporters.resolve_hint(file))
    _refuse_without_torch(chosen, file)
    plan = NewProfile(
        profile=None,
        place=wishes.place,
        lock=file,
        interpreter=interpreter,
        pinned=chosen.pinned,
        sources=chosen.sources,
        kept=(),
        notes=exported.notes,
        cwd=host.cwd,
    )
    if chosen.sources:
        dialog.show(Result(command="profile new", data=plan))
        number = counted(len(chosen.sources), "wheel")
        if not wishes.yes and not dialog.agreed(f"Build {number} from source?"):
            raise Interrupted("declined\nnothing was written")
    return Result(command="profile new", data=_made(plan, chosen, wishes, host, dialog))


def _made(plan: NewProfile, chosen: Selection, wishes: ProfileOptions, host: Host, dialog: Dialog) -> NewProfile:
    uv = uv_tool.locate(host.environ, plan.lock.folder)
    pip = pip_config.read(host.environ, host.home)
    sources = index_config.configured(uv, pip, host.home, sys.executable)
    day = datetime.now(UTC).date().isoformat()
    with temporary_folder() as folder, dialog.listening() as listen:
        kept = (
            built_wheels.build(chosen.sources, plan.interpreter, uv, sources.everywhere, folder, listen)
            if chosen.sources
            else ()
        )
        built = tuple(map(captured_files.locked_as, kept))
        places = {wheel: folder / wheel.path for wheel in kept} | dict(carried(plan.lock, chosen.pinned))
        kept = tuple(sorted(places, key=lambda wheel: wheel.name))
        packages = tuple(sorted((*chosen.pinned, *built), key=lambda one: one.name))
        pin = next(one for one in packages if one.name == "torch")
        file = _torch_wheel(pin, chosen, places) or _offered(pin, plan.interpreter, sources, uv, folder)
        torch = torch_of(pin.version, file, sources.access)
        text = f"torch {torch.version} on CPython {_minor(plan.interpreter)}, {counted(len(packages), 'package')}"
        summary = wishes.summary or f"{text}, from {plan.lock.path.name} on {day}"
        profile = profile_of_lock(plan.place, summary, _minor(plan.interpreter), torch, pinned=pin.version, day=day)
        lock = Lock(name=str(plan.place.lock), packages=packages)
        _keep(places, plan.place)
    if wishes.with_gate:
        gate = keep_wheel(plan.place.wheels)
        lock, kept = locked(lock, gate), among(kept, gate)
    captured_files.write_texts(plan.place, text_of(lock, _comment(plan, day)), profile)
    return NewProfile(
        profile=profile,
        place=plan.place,
        lock=plan.lock,
        interpreter=plan.interpreter,
        pinned=lock.packages,
        sources=plan.sources,
        kept=kept,
        notes=(*plan.notes, *_without_wheel(lock, kept, plan.place)),
        cwd=plan.cwd,
    )


def _without_wheel(lock: Lock, kept: tuple[LockedWheel, ...], place: CapturePaths) -> Iterator[str]:
    """Yield what to do about the launch gate where the lock pins it and its wheel was not beside the lock."""
    names = {wheel.name for wheel in kept}
    for one in lock.packages:
        if one.name not in names and (hint := gate_hint(one.name, str(place.profile))):
            yield f"the wheel of {one.name} {one.version} was not beside the lock, and no index has it; {hint}"


def _torch_wheel(pin: LockedPackage, chosen: Selection, kept: Mapping[LockedWheel, Path]) -> File | None:
    """Return the wheel of torch: the one just built or beside the lock, or where the lock says it lies."""
    files = [File(filename=one.filename, url=path.as_uri()) for one, path in kept.items() if one.name == "torch"]
    files += [file for file in chosen.files.get("torch", ()) if file.sha256 in pin.hashes]
    return files[0] if files else None


def _offered(
    pin: LockedPackage, interpreter: BaseInterpreter, sources: index_config.IndexConfig, uv: Uv, folder: Path
) -> File | None:
    """Return the wheel of torch that a configured index offers; None where none does."""
    tags = wheel_tags.tags_of(interpreter)
    machine = interpreter.markers["platform_machine"]
    fit = locked_wheels.Fit(python=_minor(interpreter), machine=machine, tags=tags, torch_backend="")
    jobs = locked_wheels.search((pin,), folder / "none", fit, sources, uv).jobs
    return jobs[0].file if jobs else None


def _interpreter(python: str, file: LockFile, host: Host) -> BaseInterpreter:
    """Return the base interpreter the profile is for: the named one, else what uv finds for the lock's project."""
    if not python:
        uv = uv_tool.locate(host.environ, file.folder)
        try:
            python = uv.run(("python", "find", "--system")).stdout.strip()
        except UvError as error:
            raise LockError(f"{file.path}: {error.message}", "name an interpreter: `--python 3.12`") from error
    return interpreters.choose(
        interpreters.InterpreterRequest(versions=_VERSIONS, named=python), host.environ, host.home
    )


def _minor(interpreter: BaseInterpreter) -> str:
    return ".".join(interpreter.version.split(".")[:2])


def _refuse_without_torch(chosen: Selection, file: LockFile) -> None:
    if "torch" not in {*(one.name for one in chosen.pinned), *(one.name for one in chosen.sources)}:
        raise CaptureError(
            f"{file.path} pins no torch, and a profile names a torch build",
            f"compare a venv with it without a profile: `envdoctor check --lock {shlex.quote(str(file.path))}`",
        )
    bare = [one.name for one in chosen.pinned if not one.hashes]
    if bare:
        raise LockError(f"{file.path}: no wheel fits for {', '.join(bare)}", "name another interpreter: `--python`")


def _keep(kept: Mapping[LockedWheel, Path], place: CapturePaths) -> None:
    try:
        if kept:
            place.wheels.mkdir(parents=True, exist_ok=True)
        for wheel, path in kept.items():
            part = beside(place.wheels / wheel.filename)
            shutil.copyfile(path, part)
            part.replace(place.wheels / wheel.filename)
    except OSError as error:
        raise CaptureError(
            f"{error.filename or place.wheels} cannot be written: {error.strerror}", "name another folder: `--project`"
        ) from error


def _comment(plan: NewProfile, day: str) -> str:
    machine = plan.interpreter.markers["platform_machine"]
    python = f"CPython {_minor(plan.interpreter)}, Linux {machine}"
    lines = [f"Lock of the profile {plan.place.name}: {python}, from {plan.lock.path.name} on {day}."]
    if plan.sources:
        names = ", ".join(one.name for one in plan.sources)
        lines.append(f"Built from source; their wheels are in {plan.place.wheels.name} beside this file: {names}.")
    return "\n".join(lines)
