"""The only place that runs uv."""

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from pathlib import Path

from envdoctor.errors import RestoreError
from envdoctor.model.frozen import frozen
from envdoctor.stack.uv_errors import explain

# What would point uv at another environment, loosen the lock, or hide what it pins. The user's indexes, cache, proxies,
# certificates, credentials and link mode stay: those are theirs to say.
SCRUBBED = (
    "VIRTUAL_ENV",
    "VIRTUAL_ENV_PROMPT",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "__PYVENV_LAUNCHER__",
    "UV_BREAK_SYSTEM_PACKAGES",
    "UV_BUILD_CONSTRAINT",
    "UV_CONSTRAINT",
    "UV_EXCLUDE",
    "UV_EXCLUDE_NEWER",
    "UV_EXCLUDE_NEWER_PACKAGE",
    "UV_NO_BINARY",
    "UV_NO_BINARY_PACKAGE",
    "UV_NO_BUILD",
    "UV_NO_INSTALLER_METADATA",
    "UV_NO_VERIFY_HASHES",
    "UV_OVERRIDE",
    "UV_PRERELEASE",
    "UV_PROJECT",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "UV_RESOLUTION",
    "UV_SYSTEM_PYTHON",
    "UV_TORCH_BACKEND",
    "UV_VENV_CLEAR",
    "UV_VENV_SEED",
    "UV_WORKING_DIR",
    "UV_WORKING_DIRECTORY",
)
LineListener = Callable[[str], None]


class UvError(RestoreError):
    """uv ended with an error; `output` is everything it said."""

    def __init__(self, message: str, hint: str, output: str) -> None:
        """Keep uv's whole output beside the message made of it."""
        super().__init__(message, hint)
        self.output = output


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
    keep_open: tuple[int, ...] = field(default=())
    """File descriptors the child inherits: a uv whose parent was killed goes on holding the parent's lock."""

    def run(
        self,
        arguments: Iterable[str | Path],
        *,
        extra: Mapping[str, str] | None = None,
        stdin: str = "",
        listen: LineListener | None = None,
    ) -> Output:
        """Run uv to its end and return its output; `listen` gets each line of stderr as it comes.

        `extra` adds variables; one with an empty value is removed. Raises UvError when uv fails. When this process is
        interrupted, uv is stopped and waited for before the interrupt goes on.
        """
        command = [self.binary, *map(str, arguments)]
        environment = {name: value for name, value in {**self.environment, **(extra or {})}.items() if value}
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=self.cwd,
            pass_fds=self.keep_open,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process:
            try:
                output = _talk(process, stdin, listen)
            except BaseException:
                process.terminate()
                process.wait()
                raise
        if process.returncode != 0:
            message, hint = explain(output.stderr, process.returncode)
            raise UvError(message, hint, output.stderr)
        return output


def locate(environment: Mapping[str, str], cwd: Path, keep_open: tuple[int, ...] = ()) -> Uv:
    """Return the uv of this installation, else the one on PATH. Raises RestoreError when there is none."""
    binary = _own_binary() or shutil.which("uv", path=environment.get("PATH"))
    if binary is None:
        raise RestoreError("uv is neither installed beside envdoctor nor on PATH", "pip install uv")
    kept = {name: value for name, value in environment.items() if name not in SCRUBBED}
    # Downloading an interpreter would be a change nobody was shown.
    kept |= {"UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}
    kept.pop("FORCE_COLOR", None)
    return Uv(binary=binary, environment=kept, cwd=cwd, keep_open=keep_open)


def _own_binary() -> str | None:
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
