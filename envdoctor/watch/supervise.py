"""Runs a command and watches it: its output is handed on as it comes, signals too; its ending is this process's own."""

import contextlib
import functools
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from envdoctor.errors import UsageError
from envdoctor.facts.children import start_child
from envdoctor.facts.host import Host
from envdoctor.model.frozen import field, frozen, mutable
from envdoctor.watch import sampler
from envdoctor.watch.judgement import LaunchState, Limits, Notice, Throughput, Watch
from envdoctor.watch.readings import RateReader, reader_of
from envdoctor.watch.signals import Forwarding
from envdoctor.watch.told import ToldOf, notice_text, summary_text

_CHUNK = 1 << 16
_POLL = 5.0
"""Seconds between two looks at a metrics file, where nothing samples."""


@frozen
class Watching:
    """What is watched, and against what."""

    expected: float
    """Tokens a second, as the profile says; 0 where it says nothing."""
    flat_within: float
    """Growth of memory that the profile allows, a fraction; 0 where it says nothing."""
    profile: str
    pattern: str = ""
    """`--measure`; empty for the usual spellings of tokens a second."""
    metrics: Path | None = None
    """The file that throughput is read from; None for the command's output."""
    limits: Limits = field(default_factory=Limits)
    interval: float = 1.0
    """Seconds between two looks at the GPUs."""
    ended: Callable[[LaunchState], None] | None = None
    """Called with what was read last when the command has ended well."""


def watched(command: Sequence[str], host: Host, venv: Path, wanted: Watching, say: Callable[[str], None]) -> int:
    """Run the command to its end and return its exit code, -N for signal N. Raises UsageError when it cannot start."""
    run = _Run(
        wanted=wanted,
        say=say,
        watch=Watch(expected=wanted.expected, flat=wanted.flat_within > 0, limits=wanted.limits),
        reader=reader_of(wanted.pattern),
        environ=host.environ,
    )
    size = _size(wanted.metrics)  # what an earlier run left there says nothing of this one
    with _wakes() as woken, selectors.DefaultSelector() as selector, Forwarding() as forwarding:
        process = forwarding.start(lambda: _started(command, host.environ, piped=wanted.metrics is None))
        sampling = sampler.start(host, venv, wanted.interval)
        run.problem = sampling.problem
        try:
            run.follow(process, sampling.process, woken, selector, size)
        finally:
            if sampling.process is not None:
                sampling.process.kill()
                sampling.process.wait()
                if sampling.process.stdout is not None:
                    sampling.process.stdout.close()
        code = process.wait()
    run.summary()
    if wanted.ended is not None and code == 0:
        wanted.ended(run.watch.state())
    return code


def end_as(code: int) -> int:
    """Return the exit code of a command that ended with `code`; where a signal ended it, end by the same signal."""
    if code >= 0:
        return code
    import resource  # noqa: PLC0415 - few commands end so

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command left its own core
    sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


@mutable
class _Run:
    """One launch while it goes on."""

    wanted: Watching
    say: Callable[[str], None]
    watch: Watch
    reader: RateReader
    environ: Mapping[str, str]
    problem: str = ""
    """Why memory is not read."""
    started: float = field(default_factory=time.monotonic)
    lowest: int = 0
    highest: int = 0
    """Bytes of all GPUs of the launch together, after the warm-up."""
    compiled: int = 0
    """Readings that were left out since something was compiled."""
    _compilations: int = 0
    _rest: bytes = b""

    def follow(
        self,
        process: "subprocess.Popen[bytes]",
        sampling: "subprocess.Popen[bytes] | None",
        woken: socket.socket,
        selector: selectors.DefaultSelector,
        offset: int,
    ) -> None:
        """Hand on what the command writes, and read it, until it has ended and its output is read."""
        ours = ((process.stdout, 1), (process.stderr, 2))
        streams = {source: functools.partial(self._hand_on, source, to) for source, to in ours if source is not None}
        actions: dict[Any, Callable[[], bool]] = {**streams, woken: lambda: bool(woken.recv(_CHUNK))}
        if sampling is not None and sampling.stdout is not None:
            actions[sampling.stdout] = functools.partial(self._sample, sampling.stdout)
        for source in actions:
            selector.register(source, selectors.EVENT_READ)
        while process.poll() is None:
            # The looks at the GPUs wake this process in time, and then it looks at the metrics file too.
            for key, _ in selector.select(_POLL if sampling is None else 2 * _POLL):
                if not actions[key.fileobj]():
                    selector.unregister(key.fileobj)
                    actions.pop(key.fileobj)
                    streams.pop(key.fileobj, None)  # type: ignore[call-overload]
            offset = self._metrics(offset)
        # A child of the command may keep its output open: what is there by now is read, and no more is waited for.
        for source, hand_on in streams.items():
            while _ready(source) and hand_on():
                pass
        self._metrics(offset)

    def summary(self) -> None:
        """Say what was seen, where there is anything to say; a launch that was healthy all along leaves no word."""
        text = summary_text(self._told(), self.watch, time.monotonic() - self.started)
        if text:
            self.say(text)
            self._record("end", text)

    def _hand_on(self, source: IO[bytes], to: int) -> bool:
        chunk = os.read(source.fileno(), _CHUNK)
        left = chunk
        try:
            while left:
                try:
                    left = left[os.write(to, left) :]
                except BlockingIOError:  # not a pipe of ours: its maker set O_NONBLOCK, and it is only full
                    select.select((), (to,), ())
        except OSError:  # its reader has left: the command learns that at its next write
            source.close()
            return False
        self._read(chunk)
        return bool(chunk)

    def _read(self, chunk: bytes) -> None:
        for read in self.reader.feed(chunk):
            compiled = read.compilations is not None and read.compilations > self._compilations
            self._compilations = read.compilations or self._compilations
            self.compiled += compiled
            self._notice(
                self.watch.reading(
                    Throughput(at=time.monotonic(), tokens_per_second=read.tokens_per_second, compiled=compiled)
                )
            )

    def _metrics(self, offset: int) -> int:
        if self.wanted.metrics is None or (size := _size(self.wanted.metrics)) == offset:
            return offset
        with contextlib.suppress(OSError), self.wanted.metrics.open("rb") as file:
            file.seek(offset if size > offset else 0)  # shorter: it was written again
            while chunk := file.read(_CHUNK):
                self._read(chunk)
            return file.tell()
        return offset

    def _sample(self, source: IO[bytes]) -> bool:
        try:
            chunk = os.read(source.fileno(), _CHUNK)
        except BlockingIOError:
            return True
        if not chunk:
            self.problem = self.problem or "the sampling child ended"
            return False
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            sample = sampler.sample_of(line.decode("utf-8", "replace"))
            if isinstance(sample, str):
                self.problem = sample
                continue
            before = self.watch.sampled
            self._notice(self.watch.sample(sample))
            if self.watch.sampled > before:
                total = sum(sample.used)
                self.lowest, self.highest = min(self.lowest or total, total), max(self.highest, total)
        return True

    def _notice(self, notice: Notice | None) -> None:
        if notice is not None:
            text = notice_text(notice, self._told())
            self.say(text)
            self._record(notice.kind, text)

    def _told(self) -> ToldOf:
        return ToldOf(
            profile=self.wanted.profile,
            flat_within=self.wanted.flat_within,
            environ=self.environ,
            source=str(self.wanted.metrics or "the output"),
            pattern=self.wanted.pattern,
            lines=self.reader.lines,
            passed=self.reader.passed,
            compiled=self.compiled,
            memory_problem=self.problem,
            lowest=self.lowest,
            highest=self.highest,
        )

    def _record(self, kind: str, text: str) -> None:
        """Append what was said to the journal of our trainer; the file of another trainer has a form of its own."""
        if self.wanted.metrics is None or not self.reader.journal:
            return
        import json  # noqa: PLC0415 - few launches have anything to say

        state = self.watch.state()
        line = {"event": "watch", "time": round(time.time(), 3), "kind": kind, "text": text, "share": state.share}
        with contextlib.suppress(OSError), self.wanted.metrics.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")


def _started(command: Sequence[str], environ: Mapping[str, str], *, piped: bool) -> "subprocess.Popen[bytes]":
    output = subprocess.PIPE if piped else None
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        # Killed, this process can hand nothing on any more, and a training would keep its GPUs.
        return start_child(list(command), env=dict(environ), stdout=output, stderr=output, bufsize=0)
    except OSError as error:
        raise UsageError(
            f"cannot start `{command[0]}`: {error.strerror}", "name a program on the venv's PATH, or its path"
        ) from error


@contextlib.contextmanager
def _wakes() -> Iterator[socket.socket]:
    """Give a socket that is readable when a child has ended."""
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        there.setblocking(False)
        before = signal.signal(signal.SIGCHLD, lambda *_: None)
        descriptor = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)
        try:
            yield here
        finally:
            signal.set_wakeup_fd(descriptor)
            signal.signal(signal.SIGCHLD, before)


def _ready(source: IO[bytes]) -> bool:
    with selectors.DefaultSelector() as one:
        one.register(source, selectors.EVENT_READ)
        return bool(one.select(0))


def _size(path: Path | None) -> int:
    try:
        return path.stat().st_size if path is not None else 0
    except OSError:
        return 0
