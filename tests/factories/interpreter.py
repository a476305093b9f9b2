"""What an environment's own interpreter says: the oracle of the rules about Python packages."""

import os
import subprocess
from pathlib import Path


def raised(python: Path, code: str, **environ: str) -> str:
    """Run code and return the last line of what it raised ("ImportError: ..."); empty when it ran to its end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UV_"))}
    done = subprocess.run(
        [python, "-c", code],
        env=kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"} | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def printed(python: Path, code: str, **environ: str) -> str:
    """Run code that must not raise and return what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UV_"))}
    done = subprocess.run(
        [python, "-c", code],
        env=kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"} | environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
