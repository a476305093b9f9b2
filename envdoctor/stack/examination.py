"""What the checks say of a venv that was just built, before it is swapped in."""

from dataclasses import replace
from pathlib import Path

from envdoctor.doctor.examine import examine
from envdoctor.facts.host import Host
from envdoctor.model.profile import Profile
from envdoctor.standards.lock import Lock

# Findings about the venv itself (ED1xx interpreter to ED4xx distributions). A cold cache, a missing GPU, a drifted
# source file are the machine's and the project's: a new venv neither causes nor mends them.
OF_THE_VENV = ("ED1", "ED2", "ED3", "ED4")
# What the shell adds to a process is not the copy's fault either.
_OF_THE_SHELL = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME")


def objections(venv: Path, host: Host, profile: Profile | None, lock: Lock | None) -> tuple[str, ...]:
    """Return "CODE title: subject" of every error that the checks find in the venv itself."""
    environ = {name: value for name, value in host.environ.items() if name not in _OF_THE_SHELL}
    found = examine(venv, replace(host, environ=environ), profile=profile, lock=lock, ask_nvml=False)
    return tuple(
        f"{finding.code} {finding.title} ({finding.subject})"
        for finding in found.verdict.findings
        if finding.severity == "error" and finding.code.startswith(OF_THE_VENV)
    )
