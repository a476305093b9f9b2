"""Writing what a capture found: the wheels that are kept, the lock, the profile. The profile comes last."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from envdoctor.capture.captured_profile import profile_toml
from envdoctor.capture.installed_wheels import InstalledWheels, ToKeep
from envdoctor.capture.repack import RepackError, repack
from envdoctor.errors import CaptureError, RestoreError
from envdoctor.facts.whole_file import write_whole
from envdoctor.model.events import Event, Listener
from envdoctor.model.frozen import frozen
from envdoctor.model.profile import Profile
from envdoctor.standards.lock import Lock, LockedPackage, tags_of
from envdoctor.standards.redaction import redacted
from envdoctor.swap.durable import sync_folder
from envdoctor.wheels import pylock_text
from envdoctor.wheels.locking import text_of
from envdoctor.wheels.pylock_text import Form, LockedWheel
from envdoctor.wheels.urls import shown
from envdoctor.wheels.wheelhouse import beside


@frozen
class CapturePaths:
    """Where a capture is written."""

    project: Path
    """The folder that holds profiles/ and lockfiles/."""
    name: str
    form: Form

    @property
    def profile(self) -> Path:
        """The profile's file."""
        return self.project / "profiles" / f"{self.name}.toml"

    @property
    def lock(self) -> Path:
        """The lock's file."""
        filename = f"pylock.{self.name}.toml" if self.form == "pylock" else f"{self.name}.txt"
        return self.project / "lockfiles" / filename

    @property
    def wheels(self) -> Path:
        """The folder of wheels that no index has."""
        return beside(self.lock, self.name)

    def taken(self) -> Path | None:
        """Return the first of its files that exists."""
        return next((path for path in (self.profile, self.lock) if path.exists()), None)


def keep(found: InstalledWheels, place: CapturePaths, listen: Listener) -> dict[str, Path]:
    """Make a wheel of each distribution that no index has; return name -> wheel. Raises CaptureError."""
    made: dict[str, Path] = {}
    if found.to_keep:
        place.wheels.mkdir(parents=True, exist_ok=True)
    for done, one in enumerate(found.to_keep, 1):
        item = one.subject.item
        listen(Event(phase="keep", text=f"{item.name} {item.version} as a wheel", done=done, total=len(found.to_keep)))
        try:
            made[item.name] = repack(one.subject, found.library, place.wheels)
        except RepackError as error:
            raise CaptureError(
                f"{item.name} {item.version} cannot be kept as a wheel: {error}",
                f"fix it, or leave it out of the lock knowingly: `--without {item.name}`",
            ) from error
    return made


def wheels_of(found: InstalledWheels, kept: Mapping[str, Path]) -> tuple[LockedWheel, ...]:
    """Return every distribution with the one wheel that it is."""
    made = [
        LockedWheel(
            name=one.name,
            version=one.version,
            filename=one.file.filename,
            sha256=one.sha256,
            size=one.file.size,
            url=shown(one.file.url),
            index="" if "://" not in one.place else shown(one.place),
        )
        for one in found.pinned
    ]
    made += [_kept(one, kept[one.subject.item.name]) for one in found.to_keep]
    return tuple(sorted(made, key=lambda wheel: wheel.name))


def _kept(one: ToKeep, path: Path) -> LockedWheel:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return LockedWheel(
        name=one.subject.item.name,
        version=one.subject.item.version,
        filename=path.name,
        sha256=digest,
        size=path.stat().st_size,
        path=f"{path.parent.name}/{path.name}",
    )


def locked_as(wheel: LockedWheel) -> LockedPackage:
    """Return the pin of a wheel."""
    return LockedPackage(name=wheel.name, version=wheel.version, hashes=(wheel.sha256,), tags=tags_of([wheel.filename]))


def lock_of(wheels: Sequence[LockedWheel], place: CapturePaths) -> Lock:
    """Return the wheels as a lock."""
    packages = tuple(locked_as(wheel) for wheel in wheels)
    return Lock(name=str(place.lock), packages=packages)


def write(place: CapturePaths, wheels: Sequence[LockedWheel], profile: Profile, machine: str, comment: str) -> None:
    """Write lock and profile, each in one step. Raises RestoreError when a file cannot be written."""
    if place.form == "pylock":
        lock = pylock_text.text_of(pylock_text.document(wheels, profile.python.versions[0], machine), comment)
    else:
        lock = text_of(lock_of(wheels, place), comment)
    write_texts(place, lock, profile)


def write_texts(place: CapturePaths, lock: str, profile: Profile) -> None:
    """Write the lock's text, then the profile, each in one step. Raises RestoreError when a file cannot be written."""
    for path, text in ((place.lock, lock), (place.profile, redacted(profile_toml(profile)))):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode())
            sync_folder(path.parent)
        except OSError as error:
            raise RestoreError(
                f"{path} cannot be written: {error.strerror}", "name another folder: `--project`"
            ) from error
