"""Every command over a project, each with an end in time and a code of its own."""

import subprocess
from collections.abc import Mapping

from tests.factories.make_incident import Incident
from tests.factories.run_envdoctor import COMMAND, environment
from tests.factories.served import serve

_SECONDS = 120
COMMANDS = (
    ("check", "-v", "-p", "small", ".venv"),
    ("why", "torch", "--venv", ".venv"),
    ("impact", "remove", "torch", "--venv", ".venv"),
    ("diff", ".venv", "small"),
    ("history", "--venv", ".venv"),
    ("prune", "--keep", "1", "--venv", ".venv", "--dry-run"),
    ("profiles",),
    ("restore", "-p", "small", "--venv", ".venv", "--dry-run", "--offline"),
    ("repair", "--venv", ".venv", "--dry-run", "--offline"),
    ("capture", "good", "--venv", ".venv", "--offline"),
    ("cache", "status", "--venv", ".venv"),
    ("cache", "gc", "--damaged", "--dry-run", "--venv", ".venv"),
    ("cache", "undo"),
    ("run", "-p", "small", "--venv", ".venv", "--gate", "warn", "--reason", "r", "--", "true"),
    ("sbom", "--venv", ".venv"),
)


def answered(project: Incident, *commands: tuple[str, ...], **extra: str) -> str:
    """Return what commands say; each ends in time, with a code of its own and without a traceback."""
    said = []
    for command in commands or COMMANDS:
        own = environment(project.root, {"TORCHINDUCTOR_CACHE_DIR": str(project.root / "cache"), **extra})
        # What a test adds may be about the start of a Python: then it gets one.
        code, text = _started(command, own, project) if extra else _served(command, own, project)
        assert "Traceback" not in text, (command, text[-2000:])
        assert code in (0, 1, 2, 3, 4), (command, code, text[-2000:])
        said.append(text)
    return "".join(said)


def _served(command: tuple[str, ...], own: Mapping[str, str], project: Incident) -> tuple[int, str]:
    code, out, err = serve(command, own, project.root, seconds=_SECONDS)
    return code, out + err


def _started(command: tuple[str, ...], own: Mapping[str, str], project: Incident) -> tuple[int, str]:
    done = subprocess.run(
        [*COMMAND, *command],
        cwd=project.root,
        env=own,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
