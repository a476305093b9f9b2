"""The side of every rank but 0: it goes to rank 0, says what it is, and waits for the outcome."""

import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from envdoctor.model.frozen import frozen
from envdoctor.ranks.job import MeetingPlace, RankedJob
from envdoctor.ranks.sockets import connect
from envdoctor.ranks.wire import TO_RANK, TO_RANK_0, ForeignError, FrameReader, frame

_ANSWER_SECONDS = 15.0
"""In which rank 0 answers a greeting; somebody else who listens there may never do so."""
_GONE_SECONDS = 10.0
"""In which rank 0 may be found again after a broken connection."""
_LONGER_SECONDS = 30.0
"""Beyond the time that rank 0 waits: its own verdict comes first."""
_WORD_SECONDS = 2.0
_FIRST_PAUSE = 0.01
_PAUSES = {True: 0.2, False: 0.5}
"""Longest pause between two looks for rank 0, on one node and between nodes."""


@frozen
class Outcome:
    """What a rank heard."""

    code: int | None
    """Rank 0's verdict on the job; None where rank 0 never gave one."""
    problem: str = ""
    """Why there is none."""


def join(
    job: RankedJob,
    greeting: Mapping[str, Any],
    sheet: str,
    say: Callable[[str], None],
    seconds: float | None = None,
) -> Outcome:
    """Go to rank 0 and return the outcome.

    sheet: JSON, given to rank 0 where it asks. seconds: how long to look for it and to wait, where this rank does not
    start anyway.
    """
    started = time.monotonic()
    until = started + (job.timeout if seconds is None else seconds)
    visit = _Visit(job, greeting, sheet, job.timeout + _LONGER_SECONDS if seconds is None else seconds)
    pause, told = _FIRST_PAUSE, False
    while True:
        for place in job.places:
            if (code := visit.pay(place)) is not None:
                return Outcome(code=code)
        now = time.monotonic()
        if visit.lost_at and (seconds or now - visit.lost_at > _GONE_SECONDS):
            return Outcome(code=None, problem="rank 0 was there and ended before all ranks were")
        if now > until and not visit.lost_at:
            where = f" at {job.where}" if job.where else ""
            return Outcome(code=None, problem=f"rank 0 was not found{where} within {until - started:g} s")
        if now - started > _WORD_SECONDS and not told:
            told = True
            say("waiting for rank 0, which compares the ranks of this job")
        # Many ranks at once: each at a time of its own.
        time.sleep(pause * (0.5 + os.getpid() % 64 / 64))
        pause = min(_PAUSES[job.on_node], pause * 1.5)


class _Visit:
    """One rank's ways to rank 0."""

    def __init__(self, job: RankedJob, greeting: Mapping[str, Any], sheet: str, patience: float) -> None:
        """Take what it says, and how many seconds it waits for the outcome."""
        self._patience = patience
        self._job, self._sheet = job, sheet
        self._greeting = {**greeting, "nonce": ""}
        self.lost_at = 0.0
        """When a connection to rank 0 itself broke."""

    def pay(self, place: MeetingPlace) -> int | None:
        """Return the outcome that rank 0 tells; None where it is not there, or the connection broke."""
        connection = connect(place)
        if connection is None:
            return None
        nonce = os.urandom(16).hex()
        reader = FrameReader(self._job.key, TO_RANK)
        known = False
        try:
            connection.settimeout(_ANSWER_SECONDS)
            connection.sendall(frame(self._job.key, TO_RANK_0, {**self._greeting, "nonce": nonce}))
            while True:
                for told in _received(connection, reader):
                    if told.get("nonce") != nonce:
                        return None  # an answer to somebody else
                    known = True
                    self.lost_at = 0.0
                    code = told.get("code")
                    if type(code) is int:
                        return code
                    connection.settimeout(self._patience)
                    if told.get("want"):
                        connection.sendall(frame(self._job.key, TO_RANK_0, {"sheet": self._sheet}))
        except (OSError, ForeignError):
            if known:
                self.lost_at = self.lost_at or time.monotonic()
            return None
        finally:
            connection.close()


def _received(connection: socket.socket, reader: FrameReader) -> list[dict[str, Any]]:
    data = connection.recv(1 << 16)
    if not data:
        raise ConnectionResetError
    return reader.feed(data)
