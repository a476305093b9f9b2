"""Read an environment, judge it: the one line from a path to a verdict."""

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from envdoctor import __version__
from envdoctor.analysis.context import CheckContext
from envdoctor.checks.registry import all_checks
from envdoctor.checks.registry import judge as judge_case
from envdoctor.errors import ProbeError
from envdoctor.facts.context import Options, Reading
from envdoctor.facts.host import Host
from envdoctor.facts.target import Target
from envdoctor.model.fingerprint import Fingerprint, Unread
from envdoctor.model.verdict import Verdict
from envdoctor.probes.registry import chosen
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.first_look import looking_beside
from envdoctor.probes.venv.installed_files import InstalledFiles

if TYPE_CHECKING:  # importing a profile's and a lock's types costs more than most probes
    from collections.abc import Iterable

    from envdoctor.model.profile import Profile, Waiver
    from envdoctor.standards.lock import Lock


def take_fingerprint(target: Target, host: Host, options: Options | None = None) -> Fingerprint:
    """Run every probe over the target. A probe that fails leaves its reason; nothing of the target is run.

    A venv that is exchanged meanwhile (restore, rollback) is read once more: facts of two would be facts of none.
    Raises ProbeError when it happens again.
    """
    return take_reading(target, host, options)[1]


def take_reading(target: Target, host: Host, options: Options | None = None) -> tuple[Reading, Fingerprint]:
    """Return what `take_fingerprint` does, with the reading it was made of."""
    options = options or Options()
    for _ in range(2):
        before = _identity(target.prefix)
        reading = Reading(target=target, host=host, options=options, probes=chosen(options))
        with looking_beside(reading) as by_another:
            if by_another:
                read_meanwhile(reading)
                all_checks()  # imported for the judgement that most commands make next; the other one still looks
            found = written_down(reading)
        if _identity(target.prefix) == before:
            return reading, found
    raise ProbeError(
        f"{target.prefix} was exchanged, or names were moved in it, while it was being read, twice",
        "a restore, a repair or a rollback is at work on it: run this again when it is done",
    )


def read_meanwhile(reading: Reading) -> None:
    """Read what does not need the look at every file, which another process may be at."""
    for kind in reading.probes:
        if kind not in (InstalledFiles, DeepFiles):
            with suppress(ProbeError):  # the reading keeps the reason
                reading.fact(kind)


def _identity(prefix: Path) -> tuple[tuple[int, ...], ...]:
    """Return what a swap changes: the folder, or, of a mount point, what is in it.

    A rename sets the change time of what it moves and of the folder it moves it in, so that two swaps, there and back,
    are seen too. The change time of pyvenv.cfg does not count: another hard link to it, as `cp -al` makes, sets that.
    """
    try:
        folder = prefix.stat()
        found: list[tuple[int, ...]] = [(folder.st_dev, folder.st_ino, folder.st_ctime_ns)]
    except OSError:
        return ()
    with suppress(OSError):
        file = (prefix / "pyvenv.cfg").stat()
        found.append((file.st_dev, file.st_ino, file.st_mtime_ns, file.st_size))
    return tuple(found)


def written_down(reading: Reading) -> Fingerprint:
    """Return all facts of a reading; one that could not be read leaves its reason."""
    sections: list[object] = []
    unread: list[Unread] = []
    for kind in reading.probes:
        try:
            sections.append(reading.fact(kind))
        except ProbeError as error:
            crash = reading.crashed.get(kind, "")
            unread.append(Unread(section=kind.__name__, reason=error.message, traceback=crash))
    return Fingerprint(
        target=str(reading.target.prefix),
        taken_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        tool_version=__version__,
        sections=tuple(sections),
        unread=tuple(unread),
    )


def every_check() -> None:
    """Import every check, as the first judgement would; the probes came with this module."""
    all_checks()


def judge(
    fingerprint: Fingerprint,
    profile: "Profile | None" = None,
    lock: "Lock | None" = None,
    ignore: "Iterable[Waiver]" = (),
    profile_asked: str = "",
    required: tuple[str, ...] = (),
    *,
    launching: bool = False,
) -> Verdict:
    """Run every check over a fingerprint. Commands that are printed name the profile as it was asked for."""
    case = CheckContext(
        facts=fingerprint,
        profile=profile,
        lock=lock,
        profile_asked=profile_asked,
        required=required,
        launching=launching,
    )
    return judge_case(case, ignore)
