"""The only place that runs uv."""

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from envdoctor.catalog.variables import given_to_uv
from envdoctor.errors import RestoreError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.children import start_child
from envdoctor.facts.on_failure import on_failure
from envdoctor.facts.programs import outside_venvs, search_path
from envdoctor.model.frozen import field, frozen
from envdoctor.model.pattern import pattern
from envdoctor.wheels.read_whole import refuse_unbounded
from envdoctor.wheels.uv_config import LINK_MODES, NOTHING, UvConfig, read
from envdoctor.wheels.uv_errors import explain, of_input

LineListener = Callable[[str], None]
ByteListener = Callable[[int], None]
_PULSE = 0.5
_STILL = 30.0
"""Seconds of nothing done after which it is said that uv waits; it has no limit of its own at a file or a lock."""
_WAITS = (
    "uv has done nothing for {seconds:.0f} s: it waits for the network, for another uv that holds a lock of its cache, "
    "or at a pipe; Ctrl-C ends it and leaves everything as it was"
)
_WRITTEN = pattern(r"^wchar: (\d+)$", re.MULTILINE)


class UvError(RestoreError):
    """uv ended with an error; `output` is everything it said."""

    def __init__(self, message: str, hint: str, output: str) -> None:
        """Keep uv's whole output beside the message made of it."""
        super().__init__(message, hint)
        self.output = output


class UvNotStartedError(UvError):
    """uv was not started: another source or question changes nothing."""


@frozen
class Output:
    """What uv printed."""

    stdout: str
    stderr: str


@frozen
class Uv:
    """A uv binary, and the environment it is run in."""

    binary: str
    environment: Mapping[str, str]
    cwd: Path
    config: UvConfig = NOTHING
    """What it is told in place of the user's configuration files."""
    keep_open: tuple[int, ...] = field(default=())
    """File descriptors the child inherits: a uv whose parent was killed goes on holding the parent's lock."""

    @property
    def copies(self) -> bool:
        """Tell whether it is told to copy files out of its cache where it could link them."""
        told = self.environment.get("UV_LINK_MODE") or self.config.settings.get("link-mode", "")
        return told == "copy"

    def run(
        self,
        arguments: Iterable[str | Path],
        *,
        extra: Mapping[str, str] | None = None,
        stdin: str = "",
        listen: LineListener | None = None,
        written: ByteListener | None = None,
    ) -> Output:
        """Run uv to its end and return its output; `listen` gets each line of stderr as it comes.

        `written` is told twice a second how many bytes uv has written to files and pipes so far, by the kernel's count.
        `extra` adds variables; one with an empty value is removed. Raises UvError when uv fails. When this process is
        interrupted, uv is stopped and waited for before the interrupt goes on. It is not started, and
        UvNotStartedError raised, where it is no program, or where the venv that it is to work on has a file that it
        would read without a limit.
        """
        command = [self.binary, *map(str, arguments)]
        for venv in _pythons(command[1:], self.cwd):
            try:
                refuse_unbounded(venv=venv)
            except RestoreError as error:
                raise UvNotStartedError(error.message, error.hint, "") from error
        environment = {name: value for name, value in {**self.environment, **(extra or {})}.items() if value}
        process: subprocess.Popen[str]

        def end() -> None:
            process.terminate()
            process.wait()

        with (
            _config_file(self.config) as (told, descriptors),
            self._started(command, {**environment, **told}, descriptors) as process,
            on_failure(end),
            _watched(process.pid, written, listen),
        ):
            output = _talk(process, stdin, listen)
        if process.returncode != 0:
            message, hint = explain(output.stderr, process.returncode)
            failed = UvError(message, hint, output.stderr)
            failed.exit_code = ExitCode.USAGE if of_input(output.stderr) else failed.exit_code
            raise failed
        return output

    def _started(
        self, command: list[str], environment: Mapping[str, str], descriptors: tuple[int, ...]
    ) -> "subprocess.Popen[str]":
        try:
            return start_child(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=self.cwd,
                pass_fds=(*self.keep_open, *descriptors),
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise UvNotStartedError(
                f"{self.binary} cannot be started: {error.strerror}",
                "install uv beside envdoctor: `pip install uv`",
                "",
            ) from error


def _pythons(words: Sequence[str], cwd: Path) -> Iterator[Path]:
    """Yield the interpreters and folders that these words of uv's name; a version ("3.12") names none."""
    for at, word in enumerate(words):
        if word in ("--python", "-p"):
            named = words[at + 1] if at + 1 < len(words) else ""
        elif word.startswith("--python="):
            named = word.removeprefix("--python=")
        elif word.startswith("-p") and not word.startswith("--"):
            named = word.removeprefix("-p").removeprefix("=")
        else:
            continue
        if "/" in named or (named and (cwd / named).is_dir()):
            yield cwd / named


def told_offline(environ: Mapping[str, str]) -> bool:
    """Tell whether the environment has uv stay off the network."""
    return environ.get("UV_OFFLINE", "").lower() in {"1", "true", "yes", "on"}


def locate(environment: Mapping[str, str], cwd: Path, keep_open: tuple[int, ...] = ()) -> Uv:
    """Return the uv of this installation, else the one on PATH. Raises RestoreError when there is none."""
    binary = own_binary() or outside_venvs("uv", environment)
    if binary is None:
        raise RestoreError("uv is neither installed beside envdoctor nor on PATH", "`pip install uv`")
    kept = {name: value for name, value in environment.items() if _harmless(name, value)}
    # Downloading an interpreter would be a change nobody was shown.
    kept |= {"UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}
    # It starts each Python that it finds there, to ask what it is: a venv's would run the start-up code of the venv.
    kept["PATH"] = search_path(environment)
    home = Path(environment.get("HOME") or Path.home())
    return Uv(binary=binary, environment=kept, cwd=cwd, config=read(environment, home, cwd), keep_open=keep_open)


def _harmless(name: str, value: str) -> bool:
    return given_to_uv(name) and (name != "UV_LINK_MODE" or value in LINK_MODES)


@contextmanager
def _config_file(config: UvConfig) -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    """Give the variables that name a configuration to a child, and the descriptors it inherits: no file to clean up."""
    if not config.settings:
        yield {"UV_NO_CONFIG": "1"}, ()
        return
    descriptor = os.memfd_create("uv.toml")
    try:
        os.write(descriptor, config.text().encode())
        yield {"UV_CONFIG_FILE": f"/proc/self/fd/{descriptor}"}, (descriptor,)
    finally:
        os.close(descriptor)


@contextmanager
def _watched(pid: int, written: ByteListener | None, listen: LineListener | None) -> Iterator[None]:
    if written is None and listen is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        before, since = "", time.monotonic()
        while not over.wait(_PULSE):
            try:
                moved = Path(f"/proc/{pid}/io").read_text()
                done = moved + Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                return  # it ended, or this kernel does not count
            if written and (found := _WRITTEN.search(moved)):
                written(int(found[1]))
            now = time.monotonic()
            if done != before:
                before, since = done, now
            elif listen and now - since >= _STILL:
                listen(_WAITS.format(seconds=now - since))
                since = now

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def own_binary() -> str | None:
    """Return the uv that is installed with envdoctor; None for none."""
    try:
        import uv  # noqa: PLC0415 - an installation may go without it and use the one on PATH

        return str(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        return None


def _talk(process: "subprocess.Popen[str]", stdin: str, listen: LineListener | None) -> Output:
    """Feed stdin and drain both streams; two threads, so that neither pipe can fill up and stop uv."""
    stdout: list[str] = []
    stderr: list[str] = []
    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 - all three are pipes
    reader = threading.Thread(target=lambda pipe=process.stdout: stdout.append(pipe.read()), daemon=True)
    reader.start()
    try:
        process.stdin.write(stdin)
        process.stdin.close()
    except BrokenPipeError:
        pass  # uv ended before it read its input; its exit code and stderr tell why
    for line in process.stderr:
        stderr.append(line)
        if listen is not None:
            listen(line.rstrip("\n"))
    reader.join()
    process.wait()
    return Output(stdout="".join(stdout), stderr="".join(stderr))
