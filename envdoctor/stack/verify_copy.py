"""A venv that a restore built or found, verified and examined; what an earlier one read unchanged is not read again."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.facts.context import Reading
from envdoctor.facts.host import Host
from envdoctor.model.events import Listener
from envdoctor.model.profile import Profile
from envdoctor.probes.loading.comparison import RecordComparison, comparison
from envdoctor.probes.venv import verified_contents
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.verified_contents import Read
from envdoctor.stack.hashed_ahead import ReadWhileBuilt
from envdoctor.stack.plan import Extent
from envdoctor.stack.verify import Verified, verify
from envdoctor.standards.lock import Lock, LockedPackage


def known_contents(host: Host, extent: Extent) -> dict[bytes, bytes]:
    """Return the contents of files that need not be read: content key (digest_memo) -> sha256."""
    return verified_contents.load(host) if extent == "changed" else {}


def verify_copy(
    copy: Path,
    final: Path,
    locked: Mapping[str, LockedPackage],
    host: Host,
    listen: Listener,
    known: verified_contents.Contents,
    ahead: ReadWhileBuilt | None = None,
) -> tuple[Verified, Reading]:
    """Return what a venv that was just built differs in from the lock, and the reading; what was read is remembered.

    known: what need not be read. ahead: what was read while it was built.
    """
    from envdoctor.doctor.examine import read_meanwhile  # noqa: PLC0415 - every check comes with it
    from envdoctor.stack.examination import reading_of_copy  # noqa: PLC0415 - as above

    reading = reading_of_copy(copy, host, listen, final, known, fresh=True, ahead=ahead)
    verified = verify(reading, locked, threads_are_ours=True, meanwhile=read_meanwhile)
    if not verified.faults:
        _remember(reading, known, host, ahead.files if ahead else ())
    return verified, reading


def verify_in_place(
    venv: Path, locked: Mapping[str, LockedPackage], host: Host, listen: Listener, extent: Extent
) -> tuple[Verified, Reading]:
    """Return what a venv in use differs in from the lock, and the reading; remember what was read of it."""
    from envdoctor.stack.examination import read_deep  # noqa: PLC0415 - as above

    known = known_contents(host, extent)
    reading, _ = read_deep(venv, host, listen, known, everything=extent == "all")
    verified = verify(reading, locked, strict=False, threads_are_ours=True)
    if not verified.faults:
        _remember(reading, known, host)
    return verified, reading


def failed_checks(reading: Reading, profile: Profile, lock: Lock, final: Path) -> tuple[str, ...]:
    """Return one line for each error that the checks find in the venv itself, with the venv at its final path."""
    from envdoctor.doctor.examine import written_down  # noqa: PLC0415 - as above
    from envdoctor.stack.examination import blocking_findings, line  # noqa: PLC0415 - as above

    return tuple(map(line, blocking_findings(written_down(reading), profile, lock, final)))


def refuse_failed(failed: tuple[str, ...]) -> None:
    """Raise RestoreError when there are any of those lines."""
    if failed:
        raise RestoreError(
            f"the rebuilt venv fails these checks: {'; '.join(failed)}",
            "correct the profile or its lock: the wheels are as locked, so another build gives the same result",
        )


def _remember(reading: Reading, known: verified_contents.Contents, host: Host, ahead: Sequence[Read] = ()) -> None:
    compared = comparison(reading)
    items = reading.fact(Distributions).items
    verified_contents.save(known, [*ahead, *_read(compared, items)], compared.digests.started_ns, host)


def _read(compared: RecordComparison, items: Sequence[Distribution]) -> Iterator[Read]:
    """Yield the files that this run hashed."""
    for at, row, key, algorithm in compared.pending:
        digest = compared.digests.get(algorithm, key)
        if algorithm == "sha256" and digest is not None:
            yield Read(key=key, sha256=digest, path=f"{items[at].site}/{row[0]}")
