"""What the format tests look at: the incident with a profile, a lock, and everything a report can hold."""

from dataclasses import dataclass
from pathlib import Path

from tests.factories.make_incident import Incident, make_incident
from tests.factories.make_venv import install
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import run_envdoctor

COMMANDS = {
    "check": ("check", "-p", "small"),
    "diff": ("diff", "small", ".venv"),
    "impact": ("impact", "remove", "torch"),
    "cache status": ("cache", "status"),
    "fleet check": ("fleet", "check", "--files", "node-1.json", "node-2.json", "node-3.json"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A project whose venv is broken in several ways."""

    incident: Incident

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.incident.root

    def line_of(self, file: str, start: str) -> int:
        """Return the line of a file that starts with that text."""
        lines = (self.root / file).read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if line.startswith(start))


def make_scene(root: Path) -> Scene:
    """Make the incident: lost files, a distribution that is not in the lock, another version than the lock pins."""
    incident = make_incident(root)
    for node in ("node-1.json", "node-2.json"):
        run_envdoctor("fingerprint", "-o", node, folder=root)
    incident.lose()
    install(incident.venv, make_wheel(root / "wheels", "stranger", "1.0", files={"stranger.py": ""}))
    version = incident.venv.site_packages / "torch/version.py"
    text = version.read_text().replace("2.11.0", "2.10.0")
    version.unlink()  # another venv may have the same file by a hard link
    version.write_text(text)
    run_envdoctor("fingerprint", "-o", "node-3.json", folder=root)
    return Scene(incident=incident)
