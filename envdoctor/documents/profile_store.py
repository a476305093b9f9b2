"""Where profiles and locks lie, and reading them."""

import datetime as dt
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

try:
    import tomli as toml
except ModuleNotFoundError:  # the trainer's venv need not hold tomli; the compiled one is 7 times faster
    import tomllib as toml  # type: ignore[no-redef]

from envdoctor.errors import EnvdoctorError, LockError, ProfileError
from envdoctor.facts.owned import behind_sudo, stranger_of
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.codec import CodecError, decode
from envdoctor.model.pattern import pattern
from envdoctor.model.profile import Profile, Waiver
from envdoctor.standards import lock as lock_model
from envdoctor.standards.lock import Lock

SCHEMA = 1
_MAXIMUM_PROFILE = 4 * 1024 * 1024
_MAXIMUM_LOCK = 32 * 1024 * 1024
_DAY = pattern(r"\d{4}-\d{2}-\d{2}")
_PACKAGE = Path(__file__).resolve().parent.parent


class ProfileRef:
    """A profile as the user asked for it: where it lies, what it says, and its lock. Each file is read once."""

    def __init__(self, *, profile: Profile, path: Path, lock_path: Path, asked: str = "", content: bytes = b"") -> None:
        """Keep what was read; `asked` is a name or a path, `content` the bytes of the profile's file."""
        self.profile = profile
        self.path = path
        self.lock_path = lock_path
        """Where the lock is looked for; it need not exist for the profile to be read."""
        self.asked = asked or profile.name
        """What a printed command says after `--profile`, so that it can be pasted where this one was typed."""
        self._content = content

    @property
    def name(self) -> str:
        """Return the name the profile gives itself."""
        return self.profile.name

    @property
    def project(self) -> Path:
        """Return the folder that the paths of the training code are relative to."""
        return self.path.parent.parent

    def found_above(self, start: Path) -> str:
        """Return where it lies, if its name led to a folder above `start`; empty for a path, and a shipped profile."""
        by_path = "/" in self.asked or self.asked.endswith(".toml")
        usual = {start / "profiles", *_shipped()}
        return "" if by_path or self.path.parent in usual else str(self.path)

    @cached_property
    def lock_content(self) -> bytes:
        """Return the bytes of the lock. Raises LockError when it is missing or cannot be read."""
        if not self.lock_path.exists():
            raise LockError(
                f"{self.lock_path}: the lock of profile {self.name} is missing",
                f"put it there, or correct lock.file in {self.path}",
            )
        return _lock_bytes(self.lock_path)

    @cached_property
    def lock(self) -> Lock:
        """Return the lock: hashed requirements, or PEP 751. Raises LockError, naming the file and what is wrong."""
        return _parsed_lock(self.lock_content, self.lock_path)

    @cached_property
    def lock_sha256(self) -> str:
        """Return the sha256 of the lock as it was read, in hex."""
        import hashlib  # noqa: PLC0415 - it loads OpenSSL, and the gate hashes nothing

        return hashlib.sha256(self.lock_content).hexdigest()

    @cached_property
    def digest(self) -> str:
        """Return the sha256 of the profile's file and its lock, in hex; of the file alone where there is no lock."""
        import hashlib  # noqa: PLC0415 - as above

        digest = hashlib.sha256(self._content)
        if self.lock_path.is_file():
            digest.update(self.lock_content)
        return digest.hexdigest()


def find(name_or_path: str, start: Path) -> ProfileRef:
    """Return the profile of that name, or at that path.

    A name is looked up as `profiles/NAME.toml` in `start` and its parents, up to the top of the repository or the home
    folder, then among the profiles of the package. Raises ProfileError, naming the file and the key, when there is
    none, it is malformed, or it or its lock is another user's: they decide what is run, and which findings count.
    """
    if "/" in name_or_path or name_or_path.endswith(".toml"):
        path = start / name_or_path
        if not path.is_file():
            raise ProfileError(f"there is no profile at {path}", _known(start))
        return read(path, name_or_path)
    for folder in _folders(start):
        path = folder / f"{name_or_path}.toml"
        if path.is_file():
            if stranger := _stranger_of(path):
                raise ProfileError(
                    f"{path} {stranger}, so it is not taken by its name",
                    f"look at it; to use it all the same, name its path: `--profile {path}`",
                )
            found = read(path, name_or_path)
            if stranger := _stranger_of(found.lock_path):
                raise ProfileError(
                    f"{found.lock_path}, the lock of profile {found.name}, {stranger}, so the profile is not taken by "
                    "its name",
                    f"look at the lock; to use it all the same, name the profile's path: `--profile {path}`",
                )
            return found
    above = list(_up_to_the_top(start))[-1]
    looked = f"looked in {start / 'profiles'}" + (
        f" and in those of the folders above it, up to {above}" * (above != start)
    )
    raise ProfileError(
        f"no profile is called `{name_or_path}`", f"{_known(start)}; {looked}; a profile's path works anywhere"
    )


def names(start: Path) -> Mapping[str, Path]:
    """Return profile name -> file, sorted by name; of two with one name the nearer to `start` is meant.

    One that `find` refuses is left out.
    """
    found: dict[str, Path] = {}
    for folder in _folders(start):
        # A name with a line break in it could write a line of a report.
        for path in filter(lambda path: path.name.isprintable(), folder.glob("*.toml")):
            if not _stranger_of(path):
                found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def read(path: Path, asked: str = "") -> ProfileRef:
    """Read one profile file, which was asked for by that name or path. Raises ProfileError with the file and key."""
    content = _profile_bytes(path)
    profile: Profile = _decode(path, _load(content, path))
    if profile.schema != SCHEMA:
        raise ProfileError(f"{path}: schema: expected {SCHEMA}, got {profile.schema}", "update envdoctor")
    if profile.name != path.stem:
        raise ProfileError(f"{path}: name: `{profile.name}` is not the file's name", f'write name = "{path.stem}"')
    if Path(profile.lock.file).name != profile.lock.file:
        raise ProfileError(
            f"{path}: lock.file: `{profile.lock.file}` is not a plain file name", "name a file of lockfiles/"
        )
    _refuse_nonsense(profile, path)
    lock_path = _lock_path(path, profile.lock.file)
    return ProfileRef(profile=profile, path=path, lock_path=lock_path, asked=asked, content=content)


def _refuse_nonsense(profile: Profile, path: Path) -> None:
    """Raise ProfileError for values of the right type that mean nothing."""
    refuse_waivers(profile.waivers, str(path), ProfileError)
    if profile.gpu.count < 0:
        raise ProfileError(f"{path}: gpu.count: {profile.gpu.count} is not a number of GPUs", "use 0 for none")
    for key, value in (("minimum", profile.driver.minimum), ("below", profile.driver.below)):
        if value and not all(part.isdecimal() for part in value.split(".")):
            raise ProfileError(f"{path}: driver.{key}: `{value}` is not a driver version", "write it as 525.60.13")


def refuse_waivers(waivers: Iterable[Waiver], where: str, kind: type[EnvdoctorError]) -> None:
    """Raise an error of that kind for a waiver without a reason, or whose expiry is not a day."""
    joint = ": " if where.endswith(".toml") else "."
    for at, waiver in enumerate(waivers):
        if not waiver.reason.strip():
            raise kind(f"{where}{joint}waivers[{at}].reason: empty", f"say why {waiver.code} is accepted")
        if waiver.expires and not _DAY.fullmatch(waiver.expires):
            raise kind(
                f"{where}{joint}waivers[{at}].expires: `{waiver.expires}` is not a day", 'write it as "2027-01-31"'
            )


def read_lock(path: Path) -> Lock:
    """Read a lock file. Raises LockError, naming the file and what is wrong."""
    return _parsed_lock(_lock_bytes(path), path)


def _lock_bytes(path: Path) -> bytes:
    try:
        return read_regular(path, _MAXIMUM_LOCK)
    except OSError as error:
        raise LockError(f"{path}: {error.strerror}", "the lock must be a readable UTF-8 text file") from error


def _parsed_lock(content: bytes, path: Path) -> Lock:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LockError(f"{path}: {error}", "the lock must be a readable UTF-8 text file") from error
    return _load_pylock(text, path) if path.suffix == ".toml" else lock_model.parse(text, str(path))


def _load_pylock(text: str, path: Path) -> Lock:
    from envdoctor.standards import pylock  # noqa: PLC0415 - packaging's reader costs more than a whole check

    try:
        data = parsed(text)
    except ValueError as error:
        raise LockError(f"{path}: not TOML: {error}", "correct the file, or lock again") from error
    if not pylock.is_pylock(path.name):
        raise LockError(f"{path}: PEP 751 does not allow this file name", "call it pylock.NAME.toml")
    return pylock.parse(data, str(path))


def _folders(start: Path) -> list[Path]:
    return [*(parent / "profiles" for parent in _up_to_the_top(start)), *_shipped()]


def _shipped() -> tuple[Path, Path]:
    # An editable install keeps the data at the repository's top level, a wheel inside the package.
    return _PACKAGE / "_data" / "profiles", _PACKAGE.parent / "profiles"


def _up_to_the_top(start: Path) -> Iterator[Path]:
    """Yield a folder and its parents, as far as they are the same project's or the same user's."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where ~ cannot be determined
    for folder in (start, *start.parents):
        yield folder
        if folder == home or (folder / ".git").exists():
            return


def _stranger_of(path: Path) -> str:
    try:
        # The user who owns this package decides what runs here anyway: the administrator of a shared installation.
        trusted = behind_sudo() | {_PACKAGE.stat().st_uid}
        of_folder = stranger_of(path.parent, trusted)
        return stranger_of(path, trusted) or (f"is in a folder that {of_folder}" if of_folder else "")
    except OSError:
        return ""


def _lock_path(profile: Path, name: str) -> Path:
    beside = profile.parent / name
    usual = profile.parent.parent / "lockfiles" / name
    return beside if beside.is_file() and not usual.is_file() else usual


def _profile_bytes(path: Path) -> bytes:
    try:
        return read_regular(path, _MAXIMUM_PROFILE)
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}", "the profile must be a readable file") from error


def _load(content: bytes, path: Path) -> dict[str, Any]:
    try:
        return parsed(content.decode("utf-8"))
    except ValueError as error:
        raise ProfileError(f"{path}: not TOML: {error}", "correct the file") from error


def parsed(text: str) -> dict[str, Any]:
    """Return the document; raise ValueError for what is no TOML, or is nested deeper than any parser follows."""
    try:
        return toml.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def dates_as_text(value: Any) -> Any:
    """Return plain values with TOML's dates as text: the last day of a waiver may be written either way."""
    if isinstance(value, list):
        return [dates_as_text(item) for item in value]
    if isinstance(value, dict):
        return {key: dates_as_text(item) for key, item in value.items()}
    return value.isoformat() if isinstance(value, dt.date) else value


def _decode(path: Path, data: dict[str, Any]) -> Profile:
    try:
        profile: Profile = decode(Profile, {**data, "waivers": dates_as_text(data.get("waivers", []))})
    except CodecError as error:
        raise ProfileError(f"{path}: {error}", "correct the key; docs/profiles.md lists all of them") from error
    return profile


def _known(start: Path) -> str:
    known = ", ".join(names(start))
    return f"known here: {known}" if known else "give the path of a profile, or run where profiles/ lies"
