"""One command as a process of its own: it can be cancelled, prints nowhere else, and sees the machine as it is now."""

import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio
import anyio.abc
from anyio.streams.text import TextReceiveStream

from envdoctor.exitcodes import ExitCode
from envdoctor.model.frozen import frozen

_LINE = 300
"""Letters of a line of progress."""
_LAST = 20
"""Lines of progress that are kept."""
_PATIENCE = 60.0
"""Seconds that a command has to end after it was asked to; a swap that has begun is finished meanwhile."""

Tell = Callable[[str], Awaitable[None]]
"""Called with each line that the command says beside its result."""


@frozen
class Start:
    """How a command is started: this program, and nothing that a variable or a folder puts in its place."""

    words: tuple[str, ...]
    """The program and its first arguments; those of the command follow."""
    environ: Mapping[str, str]


@frozen
class Ended:
    """What a command left."""

    code: int
    out: str
    said: tuple[str, ...]
    """Its last lines on stderr."""


async def run_command(start: Start, words: Sequence[str], tell: Tell) -> Ended:
    """Run `envdoctor` with these words and return what it left.

    Cancelled, it asks the command to stop and waits for it: a command that changes something cleans up as for
    Ctrl-C, and the venv is the old one or the new one.
    """
    try:
        process = await anyio.open_process(
            [*start.words, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=start.environ,
        )
    except OSError as error:
        # More arguments than the system takes at once, or no memory.
        return Ended(code=ExitCode.UNKNOWN, out="", said=(f"error: envdoctor cannot be started: {error.strerror}",))
    out: list[str] = []
    said: list[str] = []
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_collect, process.stdout, out)
            group.start_soon(_follow, process.stderr, said, tell)
        code = await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
    return Ended(code=code, out="".join(out), said=tuple(said))


async def _end(process: anyio.abc.Process) -> None:
    if process.returncode is None:
        process.terminate()
        async with anyio.create_task_group() as group:
            # What it still writes is read: a full pipe would hold up what it has to finish, and asyncio's wait for it.
            group.start_soon(_drain, process.stdout)
            group.start_soon(_drain, process.stderr)
            with anyio.move_on_after(_PATIENCE):
                await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
            group.cancel_scope.cancel()
    await process.aclose()


async def _drain(stream: anyio.abc.ByteReceiveStream | None) -> None:
    if stream is not None:
        async for _ in stream:
            pass


async def _collect(stream: anyio.abc.ByteReceiveStream | None, parts: list[str]) -> None:
    if stream is not None:
        parts.extend([text async for text in TextReceiveStream(stream, errors="replace")])


async def _follow(stream: anyio.abc.ByteReceiveStream | None, said: list[str], tell: Tell) -> None:
    if stream is None:
        return
    rest = ""
    async for text in TextReceiveStream(stream, errors="replace"):
        *lines, rest = (rest + text).split("\n")
        for line in filter(None, map(str.strip, lines)):
            said.append(line[:_LINE])
            del said[:-_LAST]
            await tell(line[:_LINE])
    if rest.strip():
        said.append(rest.strip()[:_LINE])
