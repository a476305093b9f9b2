"""What an environment's own interpreter says: the oracle of the rules about Python packages."""

import os
import subprocess
from pathlib import Path


def raised(python: Path, code: str, **environ: str) -> str:
    """Run code and return the last line of what it raised ("ImportError: ..."); empty when it ran to its end."""
    done = _run(python, code, environ)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def printed(python: Path, code: str, **environ: str) -> str:
    """Run code that must not raise and return what it printed."""
    done = _run(python, code, environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _run(python: Path, code: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UV_"))}
    return subprocess.run(
        [python, "-c", code],
        env=kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"} | environ,
        capture_output=True,
        text=True,
        check=False,
    )
