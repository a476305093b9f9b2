"""Rank 0's side: it waits for the others, compares, and tells each of them the outcome.

What comes over the network decides nothing unless it has the job's key, and nothing but how long it is before that.
"""

import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envdoctor.compare.sheet import StackSheet
from envdoctor.model.frozen import field, mutable
from envdoctor.ranks.attendance import Attendance, JobVerdict, attendance_of, judged, sheet_of_text
from envdoctor.ranks.job import RankedJob
from envdoctor.ranks.sockets import enough_files, is_ours, listen
from envdoctor.ranks.wire import LARGE, SMALL, TO_RANK, TO_RANK_0, ForeignError, FrameReader, frame

SETTLE_SECONDS = 5.0
"""How long others are still waited for when the outcome is known to be no start."""
_GREETING_SECONDS = 20.0
"""In which a connection must have said whose it is."""
_BACK_SECONDS = 3.0
"""In which a rank whose connection broke may come again."""
_WORDS = (2.0, 10.0, 30.0)
_EVERY = 60.0
_SPARE = 64
"""Connections beyond one a rank."""
_SEND_SECONDS = 5.0


@mutable
class _Guest:
    """One connection."""

    socket: socket.socket
    since: float
    reader: FrameReader
    rank: int | None = None
    nonce: str = ""
    large: bool = False
    """It was asked for a sheet."""


@mutable
class Meeting:
    """The ranks of one job, as they come."""

    job: RankedJob
    ignored: Sequence[str]
    say: Callable[[str], None]
    """Tells a person that is waited."""
    describe: Callable[[Sequence[int]], str]
    """Names ranks, and where they are known to be."""
    came: dict[int, Attendance] = field(default_factory=dict)
    sheets: dict[str, StackSheet] = field(default_factory=dict)
    _asked: dict[str, int] = field(default_factory=dict)
    """Digest of a sheet -> the descriptor of who was asked for it."""
    _guests: dict[int, _Guest] = field(default_factory=dict)
    _lost: dict[int, float] = field(default_factory=dict)
    """Rank -> when its connection broke."""
    _started: float = 0.0

    def hold(self, own: Attendance, sheet: StackSheet | None, shown: Callable[[JobVerdict], None]) -> JobVerdict:
        """Wait until all ranks are there or the time is up; return what they are beside each other.

        shown: called with it before the others hear of it, so that their end cuts no report off. Raises NoPlaceError.
        """
        self.came[own.rank] = own
        if sheet is not None:
            self.sheets[own.sheet] = sheet
        with enough_files(self.job.size):
            doors = listen(self.job)
            try:
                self._started = time.monotonic()
                self._wait(doors)
                verdict = self._verdict()
                shown(verdict)
                self._tell(verdict.code)
                return verdict
            finally:
                for one in (*doors, *(guest.socket for guest in self._guests.values())):
                    one.close()

    def _verdict(self) -> JobVerdict:
        ended = {rank for rank in self._lost if rank in self.came}
        came: Mapping[int, Attendance] = {rank: one for rank, one in self.came.items() if rank not in ended}
        waited = time.monotonic() - self._started
        return judged(self.job, came, self.sheets, ended, waited, self.ignored)

    def _wait(self, doors: Sequence[socket.socket]) -> None:
        poll = select.poll()
        listening = {door.fileno(): door for door in doors}
        for descriptor in listening:
            poll.register(descriptor, select.POLLIN)
        words, until = list(_WORDS), self._started + self.job.timeout
        while not self._complete():
            now = time.monotonic()
            if self._lost_for(now, _BACK_SECONDS) or any(one.code for one in self.came.values()):
                until = min(until, now + SETTLE_SECONDS)
            if now >= until:
                return
            if now - self._started >= words[0]:
                words = words[1:] or [now - self._started + _EVERY]
                self._word()
            for descriptor, _ in poll.poll(min(200.0, (until - now) * 1000)):
                if descriptor in listening:
                    self._accept(listening[descriptor], poll)
                elif not self._heard(self._guests[descriptor]):
                    self._drop(descriptor, poll)
            self._drop_silent(time.monotonic(), poll)

    def _complete(self) -> bool:
        if self._lost or len(self.came) < self.job.size:
            return False
        return all(not one.sheet or one.sheet in self.sheets for one in self.came.values())

    def _lost_for(self, now: float, seconds: float) -> bool:
        return any(now - at > seconds for at in self._lost.values())

    def _word(self) -> None:
        away = [rank for rank in range(self.job.size) if rank not in self.came or rank in self._lost]
        then = "the start is refused" if self.job.required else "the others start without them"
        limit = f"{then} {self.job.timeout:g} s after rank 0 was there"
        self.say(f"waiting for {len(away)} of {self.job.size} ranks: {self.describe(away)}; {limit}")

    def _accept(self, door: socket.socket, poll: select.poll) -> None:
        try:
            while True:
                made, _ = door.accept()
                if len(self._guests) >= self.job.size + _SPARE or not is_ours(made):
                    made.close()
                    continue
                made.setblocking(False)
                self._guests[made.fileno()] = _Guest(
                    socket=made, since=time.monotonic(), reader=FrameReader(self.job.key, TO_RANK_0)
                )
                poll.register(made.fileno(), select.POLLIN)
        except OSError:
            return  # nobody else waits at the door, or no more files may be open: those outside come again

    def _heard(self, guest: _Guest) -> bool:
        """Take what a connection says; False where it ended or is not of this job."""
        try:
            data = guest.socket.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        if not data:
            return False
        try:
            for told in guest.reader.feed(data, LARGE if guest.large else SMALL):
                self._take(guest, told)
        except (ForeignError, OSError):
            return False
        return True

    def _take(self, guest: _Guest, told: dict[str, Any]) -> None:
        if guest.rank is None:
            guest.nonce = str(told.pop("nonce", ""))
            one = attendance_of(told)
            if not 0 < one.rank < self.job.size:
                raise ForeignError("not a rank of this job")
            guest.rank = one.rank
            self.came[one.rank] = one
            self._lost.pop(one.rank, None)
            self._answer(guest)
        elif guest.large:
            guest.large = False
            digest = self.came[guest.rank].sheet
            self.sheets[digest] = sheet_of_text(str(told.get("sheet", "")))

    def _answer(self, guest: _Guest) -> None:
        assert guest.rank is not None  # noqa: S101 - it just said so
        digest = self.came[guest.rank].sheet
        asked = self._guests.get(self._asked.get(digest, -1))
        guest.large = bool(digest) and digest not in self.sheets and (asked is None or asked is guest)
        if guest.large:
            self._asked[digest] = guest.socket.fileno()
        self._send(guest, {"nonce": guest.nonce, "want": guest.large})

    def _drop(self, descriptor: int, poll: select.poll) -> None:
        guest = self._guests.pop(descriptor)
        poll.unregister(descriptor)
        guest.socket.close()
        newer = any(other.rank == guest.rank for other in self._guests.values())
        if guest.rank is not None and not newer and not self.came[guest.rank].code:
            self._lost[guest.rank] = time.monotonic()
        self._ask_another(guest)

    def _ask_another(self, gone: _Guest) -> None:
        """Ask another rank for the sheet that one which went still owed."""
        if gone.large and gone.rank is not None:
            digest = self.came[gone.rank].sheet
            self._asked.pop(digest, None)
            for guest in self._guests.values():
                if guest.rank is not None and self.came[guest.rank].sheet == digest:
                    try:
                        self._answer(guest)
                    except OSError:
                        continue
                    return

    def _drop_silent(self, now: float, poll: select.poll) -> None:
        for descriptor, guest in list(self._guests.items()):
            if guest.rank is None and now - guest.since > _GREETING_SECONDS:
                self._drop(descriptor, poll)

    def _tell(self, code: int) -> None:
        for guest in self._guests.values():
            if guest.rank is not None:
                try:
                    self._send(guest, {"nonce": guest.nonce, "code": code})
                except OSError:
                    continue  # it ended, or does not listen

    def _send(self, guest: _Guest, value: dict[str, Any]) -> None:
        guest.socket.settimeout(_SEND_SECONDS)
        try:
            guest.socket.sendall(frame(self.job.key, TO_RANK, value))
        finally:
            guest.socket.setblocking(False)
